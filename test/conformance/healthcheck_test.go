package conformance

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/balance"
	"github.com/toyproxy/toyproxy/cluster/manifest"
)

// TestHealthChecksOfNodes proves what each of three nodes has to answer a load
// balancer that asks it for its endpoints: how many ready Pods of the Service it
// has, none while they terminate, and nothing at all with the policy Cluster
// (rows C22 to C24). What listens there is not part of the table.
func TestHealthChecksOfNodes(t *testing.T) {
	service := func(policy string) string {
		return `
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  type: LoadBalancer
  externalTrafficPolicy: ` + policy + `
  clusterIP: 10.96.0.10
  selector: {app: web}
  ports: [{name: a, port: 80}, {name: b, port: 81}]
`
	}
	local := strings.Replace(service("Local"), "  clusterIP:", "  healthCheckNodePort: 32000\n  clusterIP:", 1)
	for _, tc := range []struct {
		name, pods, objects string
		want                map[string]int // by node; -1: no health check
	}{
		{"two here, one there", "p1 app=web\np2 app=web\nq1 app=web", local, map[string]int{"n": 2, "m": 1, "o": 0}},
		{"not ready", "p1 app=web notready\np2 app=web\nq1 app=web notready", local, map[string]int{"n": 1, "m": 0, "o": 0}},
		{"none", "p1 app=other", local, map[string]int{"n": 0, "m": 0, "o": 0}},
		{"policy Cluster", "p1 app=web\nq1 app=web", service("Cluster"), map[string]int{"n": -1, "m": -1, "o": -1}},
	} {
		text, err := step{pods: tc.pods, objects: tc.objects}.manifest(true)
		if err != nil {
			t.Fatal(err)
		}
		p := newPipeline()
		loaded, err := manifest.Load(context.Background(), manifest.Options{Paths: []string{"-"}, Stdin: strings.NewReader(text), ServiceCIDRs: p.node.ServiceRanges})
		if err != nil {
			t.Fatal(err)
		}
		p.index.Apply(p.store.Replace(loaded.Objects))
		for name, want := range tc.want {
			node := p.node
			node.Name = name
			checks, problems := balance.HealthChecks(node, loaded.Objects.Services, p.index.Resolve)
			got := -1
			if len(checks) == 1 && checks[0].Port == 32000 && checks[0].Service == (types.NamespacedName{Namespace: "default", Name: "web"}) {
				got = checks[0].Local
			}
			if got != want || len(problems) > 0 {
				t.Errorf("%s: node %s answers for %d Pods, want %d; problems %v", tc.name, name, got, want, problems)
			}
		}
	}
}
