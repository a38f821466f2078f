package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestAllNodes plays the scripts below testdata/allnodes, in which one machine has
// several nodes, with every backend that the kernel has; $BACKEND is its name.
// A guest was started for IPVS: there the others are not played again, and of the
// scripts the one that is about packets.
func TestAllNodes(t *testing.T) {
	requireRoot(t)
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
