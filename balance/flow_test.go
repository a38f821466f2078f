package balance_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/toyproxy/toyproxy/balance"
	"github.com/toyproxy/toyproxy/dataplane"
)

// places are the names that flows use: a Pod P, clients E (within the source
// ranges of the scenarios) and B (not), the node's addresses N1 and N2, and the
// addresses of the Service. Endpoints are a to e.
var places = map[string]string{
	"P": "10.244.0.99", "E": "203.0.113.2", "B": "203.0.113.130", "N1": "192.168.0.2", "N2": "192.168.99.2",
	"CIP": "10.96.0.10", "XIP": "198.51.100.10", "LB1": "198.51.100.20", "LB2": "198.51.100.21", "FREE": "10.96.0.99", "Y": "10.96.0.11",
	"a": "10.244.0.1", "b": "10.244.0.2", "c": "10.244.0.3", "d": "10.244.0.4", "e": "10.244.0.5",
}

func place(name string) netip.Addr { return netip.MustParseAddr(places[name]) }

// openNode is the node n1 with addresses and a zone.
func openNode() balance.Node {
	n := node()
	n.Zone = "z1"
	n.ServiceRanges = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}
	n.Addrs, n.Primary = []netip.Addr{place("N1"), place("N2")}, []netip.Addr{place("N1")}
	return n
}

// openService is of type LoadBalancer with every kind of address and the node
// port 30080, for port 80.
func openService(edits ...func(*corev1.Service)) *corev1.Service {
	s := newService("web", "http:80/TCP")
	s.Spec.Type = corev1.ServiceTypeLoadBalancer
	s.Spec.Ports[0].NodePort = 30080
	s.Spec.ExternalIPs = []string{places["XIP"]}
	s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: places["LB1"]}, {IP: places["LB2"]}}
	for _, edit := range edits {
		edit(s)
	}
	return s
}

func external(s *corev1.Service) {
	s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
}
func internal(s *corev1.Service) {
	s.Spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal)
}

// pods are endpoints in a slice with port http:80, written "a@n1 rs".
func pods(texts ...string) []*discoveryv1.EndpointSlice {
	return []*discoveryv1.EndpointSlice{newSlice("s", ports("http:80/TCP"), expand(texts)...)}
}

func expand(texts []string) []string {
	out := make([]string, len(texts))
	for i, text := range texts {
		out[i] = places[text[:1]] + text[1:]
	}
	return out
}

// checkFlows walks flows through a table: "P CIP:80 = {a:80,b:80} -m" says that
// the Pod reaches two endpoints and keeps its source, DROP and REFUSE what they
// say, and NONE that nothing in the table is about the packet.
func checkFlows(t *testing.T, table dataplane.Table, flows ...string) {
	t.Helper()
	for _, flow := range flows {
		packet, want, _ := strings.Cut(flow, " = ")
		if got := walk(table, packet); got != want {
			t.Errorf("%s = %s, want %s", packet, got, want)
		}
	}
}

func walk(t dataplane.Table, packet string) string {
	from, to, _ := strings.Cut(packet, " ")
	to, protocol, _ := strings.Cut(to, "/")
	host, number, _ := strings.Cut(to, ":")
	key := dataplane.Key{Addr: place(host), Protocol: map[string]dataplane.Protocol{"": dataplane.TCP, "udp": dataplane.UDP, "sctp": dataplane.SCTP}[protocol]}
	fmt.Sscan(number, &key.Port)
	fe, ok := t.Frontend(key)
	if !ok && slices.Contains(t.Node.Addrs, key.Addr) {
		key.Addr = netip.IPv4Unspecified()
		fe, ok = t.Frontend(key)
	}
	source := place(from)
	switch in := func(p netip.Prefix) bool { return p.Contains(source) }; {
	case !ok:
		return unserved(t, key)
	case fe.Allowed != nil && !slices.ContainsFunc(fe.Allowed, in):
		return "DROP"
	case slices.ContainsFunc(t.Node.PodRanges, in):
		return follow(t, fe.Routes[dataplane.FromPod], source)
	case slices.Contains([]string{"N1", "N2", "LB1", "LB2"}, from):
		return follow(t, fe.Routes[dataplane.FromNode], source)
	}
	return follow(t, fe.Routes[dataplane.FromOutside], source)
}

func unserved(t dataplane.Table, key dataplane.Key) string {
	for _, fe := range t.Frontends {
		if fe.Addr == key.Addr && fe.Kind == dataplane.ClusterIP {
			return "REFUSE"
		}
	}
	if slices.ContainsFunc(t.Node.ServiceRanges, func(p netip.Prefix) bool { return p.Contains(key.Addr) }) {
		return "DROP"
	}
	return "NONE"
}

func follow(t dataplane.Table, r dataplane.Route, source netip.Addr) string {
	if r.Verdict != dataplane.Forward {
		return strings.ToUpper(r.Verdict.String())
	}
	set, _ := t.Set(r.Set)
	var names []string
	for _, e := range set.Endpoints {
		for name, addr := range places {
			if addr == e.Addr.Addr().String() {
				names = append(names, fmt.Sprintf("%s:%d", name, e.Addr.Port()))
			}
		}
		r.Masquerade = r.Masquerade || len(set.Endpoints) == 1 && e.Addr.Addr() == source
	}
	slices.Sort(names)
	return fmt.Sprintf("{%s} %s", strings.Join(names, ","), map[bool]string{true: "+m", false: "-m"}[r.Masquerade])
}

// openTable builds the table of openNode for one Service, which must be free of
// problems.
func openTable(t *testing.T, svc *corev1.Service, slices []*discoveryv1.EndpointSlice) dataplane.Table {
	t.Helper()
	table, problems := balance.Join(openNode(), []balance.Part{balance.MakePart(openNode(), svc, slices)})
	equal(t, "problems", texts(problems), nil)
	return table
}
