package metrics

import (
	"maps"

	"github.com/toyproxy/toyproxy/dataplane"
)

// The policies that keep traffic on a node, as kube-proxy labels them.
const (
	policyInternal = "internal"
	policyExternal = "external"
)

// localPorts knows the frontends whose policy leaves no endpoint on this node, though
// there are some elsewhere.
type localPorts struct{ empty map[dataplane.Key]localPort }

// localPort is a Service port that a frontend drops packets for.
type localPort struct{ service, policy, family string }

func newLocalPorts() *localPorts { return &localPorts{map[dataplane.Key]localPort{}} }

func (l *localPorts) set(t dataplane.Table) {
	clear(l.empty)
	l.add(t.Frontends)
}

func (l *localPorts) change(d dataplane.Delta) {
	for _, fe := range d.Before.Frontends {
		delete(l.empty, fe.Key)
	}
	l.add(d.After.Frontends)
}

// add notes frontends that drop: of a ClusterIP what Pods send, of the other doors
// what comes from outside.
func (l *localPorts) add(frontends []dataplane.Frontend) {
	for _, fe := range frontends {
		policy, source := policyExternal, dataplane.FromOutside
		if fe.Kind == dataplane.ClusterIP {
			policy, source = policyInternal, dataplane.FromPod
		}
		if fe.Routes[source].Verdict == dataplane.Drop {
			l.empty[fe.Key] = localPort{fe.Service, policy, dataplane.FamilyOf(fe.Addr).String()}
		}
	}
}

// count is the number of Service ports, however many doors they have.
func (l *localPorts) count(policy, family string) int {
	ports := map[string]bool{}
	for p := range maps.Values(l.empty) {
		if p.policy == policy && p.family == family {
			ports[p.service] = true
		}
	}
	return len(ports)
}
