package kubeproxy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/proxy"
	"pgregory.net/rapid"

	"github.com/toyproxy/toyproxy/balance"
	"github.com/toyproxy/toyproxy/dataplane"
)

const (
	thisNode = "n1"
	thisZone = "z1"
)

func drawService(t *rapid.T) *corev1.Service {
	policy := rapid.SampledFrom([]*corev1.ServiceInternalTrafficPolicy{nil, new(corev1.ServiceInternalTrafficPolicyCluster), new(corev1.ServiceInternalTrafficPolicyLocal)})
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: corev1.ServiceSpec{
			Type:      rapid.SampledFrom([]corev1.ServiceType{corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer}).Draw(t, "type"),
			ClusterIP: "10.96.0.10", ClusterIPs: []string{"10.96.0.10"}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			InternalTrafficPolicy: policy.Draw(t, "internal"),
			ExternalTrafficPolicy: rapid.SampledFrom([]corev1.ServiceExternalTrafficPolicy{corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal}).Draw(t, "external"),
			ExternalIPs:           rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"198.51.100.1", "198.51.100.2", "2001:db8::1"}), 0, 2, rapid.ID).Draw(t, "external IPs"),
		},
	}
	for i, name := range []string{"a", "b"}[:rapid.IntRange(1, 2).Draw(t, "ports")] {
		p := corev1.ServicePort{Name: name, Port: int32(80 + i), Protocol: corev1.ProtocolTCP}
		if svc.Spec.Type != corev1.ServiceTypeClusterIP && rapid.Bool().Draw(t, "node port") {
			p.NodePort = int32(30080 + i)
		}
		svc.Spec.Ports = append(svc.Spec.Ports, p)
	}
	if svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return svc
	}
	svc.Spec.LoadBalancerSourceRanges = rapid.SliceOfN(rapid.SampledFrom([]string{"10.0.0.0/8", " 192.0.2.0/24", "0.0.0.0/0", "2001:db8::/32"}), 0, 2).Draw(t, "ranges")
	if svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
		svc.Spec.HealthCheckNodePort = 30500
	}
	mode := rapid.SampledFrom([]*corev1.LoadBalancerIPMode{nil, new(corev1.LoadBalancerIPModeVIP), new(corev1.LoadBalancerIPModeProxy)})
	for _, ip := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"198.51.100.20", "198.51.100.21", "2001:db8::20"}), 0, 2, rapid.ID).Draw(t, "ingress") {
		svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip, IPMode: mode.Draw(t, "mode")})
	}
	return svc
}

// drawSlices has each endpoint once: of different copies kube-proxy believes
// whichever it meets last.
func drawSlices(t *rapid.T) []*discoveryv1.EndpointSlice {
	var out []*discoveryv1.EndpointSlice
	hinted := rapid.IntRange(0, 2).Draw(t, "hinted") // not, some, all
	for i := range rapid.IntRange(0, 2).Draw(t, "slices") {
		s := &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("s", i), Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
			AddressType: discoveryv1.AddressTypeIPv4,
		}
		for j, name := range []string{"a", "b"}[:rapid.IntRange(0, 2).Draw(t, "slice ports")] {
			s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: &name, Port: new(int32(8080 + j)), Protocol: new(corev1.ProtocolTCP)})
		}
		for j := range rapid.IntRange(0, 4).Draw(t, "endpoints") {
			s.Endpoints = append(s.Endpoints, drawEndpoint(t, fmt.Sprintf("10.244.%d.%d", i, j+1), hinted))
		}
		out = append(out, s)
	}
	return out
}

func drawEndpoint(t *rapid.T, addr string, hinted int) discoveryv1.Endpoint {
	flag := rapid.SampledFrom([]*bool{nil, new(true), new(false), new(false)})
	ep := discoveryv1.Endpoint{
		Addresses:  []string{addr},
		Conditions: discoveryv1.EndpointConditions{Ready: flag.Draw(t, "ready"), Serving: flag.Draw(t, "serving"), Terminating: flag.Draw(t, "terminating")},
		NodeName:   rapid.SampledFrom([]*string{nil, new(thisNode), new("n2"), new("N1")}).Draw(t, "node"),
	}
	if hinted == 0 || hinted == 1 && rapid.Bool().Draw(t, "no hint") {
		return ep
	}
	ep.Hints = &discoveryv1.EndpointHints{}
	for _, zone := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{thisZone, "z2"}), 0, 2, rapid.ID).Draw(t, "zones") {
		ep.Hints.ForZones = append(ep.Hints.ForZones, discoveryv1.ForZone{Name: zone})
	}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{thisNode, "n2"}), 0, 2, rapid.ID).Draw(t, "nodes") {
		ep.Hints.ForNodes = append(ep.Hints.ForNodes, discoveryv1.ForNode{Name: name})
	}
	return ep
}

// upstream says what kube-proxy makes of the objects, one frontend a line: its
// address and the endpoints for Pods and for clients outside.
func upstream(svc *corev1.Service, given []*discoveryv1.EndpointSlice, zone string) (lines []string, health string) {
	changes, services := proxy.NewServiceChangeTracker(corev1.IPv4Protocol, nil, nil), proxy.ServicePortMap{}
	changes.Update(nil, svc)
	services.Update(changes)
	tracker, endpoints := proxy.NewEndpointsChangeTracker(corev1.IPv4Protocol, thisNode, nil, nil), proxy.EndpointsMap{}
	for _, s := range given {
		tracker.EndpointSliceUpdate(s, false)
	}
	endpoints.Update(tracker)
	for name, info := range services {
		cluster, local, _, any := proxy.CategorizeEndpoints(endpoints[name], info, thisNode, map[string]string{corev1.LabelTopologyZone: zone})
		internal, outside := choice(cluster, any), choice(cluster, any)
		if info.ExternalPolicyLocal() {
			outside = choice(local, any)
		}
		all := choice(cluster, any)
		if info.InternalPolicyLocal() {
			internal = choice(local, any)
		}
		add := func(host string, port int, restricted bool, pod, outside string) {
			lines = append(lines, fmt.Sprintf("%s:%d restricted=%t pod=%s outside=%s", host, port, restricted, pod, outside))
		}
		add(info.ClusterIP().String(), info.Port(), false, internal, internal)
		for _, ip := range info.ExternalIPs() {
			add(ip.String(), info.Port(), false, all, outside)
		}
		for _, ip := range info.LoadBalancerVIPs() {
			add(ip.String(), info.Port(), len(info.LoadBalancerSourceRanges()) > 0, all, outside)
		}
		if info.NodePort() != 0 {
			add("0.0.0.0", info.NodePort(), false, all, outside)
		}
	}
	slices.Sort(lines)
	ready := endpoints.LocalReadyEndpoints()
	for name, port := range services.HealthCheckNodePorts() {
		health = fmt.Sprintf("%s %d %d", name, port, ready[name])
	}
	return lines, health
}

func choice(eps []proxy.Endpoint, any bool) string {
	var out []string
	for _, ep := range eps {
		out = append(out, ep.String())
	}
	slices.Sort(out)
	switch {
	case len(out) > 0:
		return strings.Join(out, ",")
	case any:
		return "drop"
	}
	return "refuse"
}

// ours says the same of the table that package balance makes.
func ours(node balance.Node, svc *corev1.Service, given []*discoveryv1.EndpointSlice) (lines []string, health string) {
	of := func(types.NamespacedName) []*discoveryv1.EndpointSlice { return given }
	table, _ := balance.Build(node, []*corev1.Service{svc}, of)
	fate := func(r dataplane.Route) string {
		if r.Verdict != dataplane.Forward {
			return r.Verdict.String()
		}
		set, _ := table.Set(r.Set)
		var out []string
		for _, e := range set.Endpoints {
			out = append(out, e.Addr.String())
		}
		slices.Sort(out)
		return strings.Join(out, ",")
	}
	for _, fe := range table.Frontends {
		lines = append(lines, fmt.Sprintf("%s restricted=%t pod=%s outside=%s", netip.AddrPortFrom(fe.Addr, fe.Port), fe.Allowed != nil,
			fate(fe.Routes[dataplane.FromPod]), fate(fe.Routes[dataplane.FromOutside])))
	}
	slices.Sort(lines)
	checks, _ := balance.HealthChecks(node, []*corev1.Service{svc}, of)
	for _, c := range checks {
		health = fmt.Sprintf("%s %d %d", c.Service, c.Port, c.Local)
	}
	return lines, health
}

func TestBalanceChoosesAsKubeProxyDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		svc, given := drawService(t), drawSlices(t)
		zone := rapid.SampledFrom([]string{thisZone, "z2", "z3", ""}).Draw(t, "zone")
		node := balance.Node{Name: thisNode, Zone: zone, PodRanges: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}}
		want, wantHealth := upstream(svc, given, zone)
		got, health := ours(node, svc, given)
		if !slices.Equal(want, got) || wantHealth != health {
			t.Fatalf("kube-proxy:\n%s\n%s\nbalance:\n%s\n%s", strings.Join(want, "\n"), wantHealth, strings.Join(got, "\n"), health)
		}
	})
}
