package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/cluster"
)

// TestAllNodes plays the scripts below testdata/allnodes, in which one machine has
// several nodes, with every backend that the kernel has; $BACKEND is its name.
// A guest was started for IPVS: there the others are not played again, and of the
// scripts the one that is about packets.
func TestAllNodes(t *testing.T) {
	requireRoot(t)
	t.Parallel() // with the scripts, which wait most of the time
	for _, backend := range []backendName{backendIPTables, backendNftables, backendIPVS} {
		t.Run(string(backend), func(t *testing.T) {
			guest := os.Getenv("VMRUN_GUEST") != ""
			if backend != backendIPVS && guest {
				return
			}
			if need := map[backendName]string{backendNftables: "nftables", backendIPVS: "ipvs"}[backend]; need != "" {
				ok, err := condition(need)
				switch {
				case err != nil || !ok && guest:
					t.Fatalf("the guest's kernel has no %s: %v", need, err)
				case !ok:
					t.Skipf("SKIP(kernel): no %s", need)
				}
			}
			scripts, err := filepath.Glob("testdata/allnodes/*.txtar")
			if err != nil || len(scripts) == 0 {
				t.Fatalf("no scripts: %v", err)
			}
			if guest { // in which every process takes its time
				scripts = []string{"testdata/allnodes/policies.txtar"}
			}
			testscript.Run(t, testscript.Params{
				Files: scripts,
				Setup: func(env *testscript.Env) error {
					env.Setenv("BACKEND", string(backend))
					return startNode(env)
				},
				Cmds:      map[string]func(*testscript.TestScript, bool, []string){"node": nodeCommand, "snapshot": snapshotCommand},
				Condition: condition,
			})
		})
	}
}

// TestAllNodesRefuseWorkloads: none is left out in silence.
func TestAllNodesRefuseWorkloads(t *testing.T) {
	in := agent.Input{Objects: cluster.Objects{
		Deployments: []*appsv1.Deployment{{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}},
		ReplicaSets: []*appsv1.ReplicaSet{{}}, StatefulSets: []*appsv1.StatefulSet{{}}, DaemonSets: []*appsv1.DaemonSet{{}},
	}}
	refuseWorkloads(&in)
	if len(in.Problems) != 4 || in.Problems[0].Warning || in.Problems[0].Object.String() != "Deployment default/web" {
		t.Errorf("problems %v, want one for each workload", in.Problems)
	}
}
