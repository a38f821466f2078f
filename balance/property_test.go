package balance_test

import (
	"maps"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/toyproxy/toyproxy/balance"
	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/endpoints"
)

var (
	anyAddress = rapid.SampledFrom([]string{"10.244.0.1", "10.244.0.2", "10.244.0.3", "fd00::1", "fd00::2", "bad"})
	anyFlags   = rapid.SampledFrom([]string{"", "@n1", "@n2", "@n1 rs", "@n2 rs", " st", "@n1 st", "@n2 -", " t"})
	anyVIP     = rapid.SampledFrom([]string{"10.96.0.1", "10.96.0.2", "10.96.0.3", "fd00:10:96::1", "None", "bad"})
	anyPort    = rapid.SampledFrom([]string{"a:80/TCP", "b:81/TCP", "a:80/UDP", "a:82/TCP", ":80/TCP", "c:80/SCTP"})
	anyOuter   = rapid.SampledFrom([]string{"198.51.100.1", "198.51.100.2", "10.96.0.1", "192.168.0.2", "0.0.0.0", "2001:db8::1", "bad"})
	anyRange   = rapid.SampledFrom([]string{"10.0.0.0/8", " 10.1.0.0/16", "192.168.0.0/24", "0.0.0.0/0", "2001:db8::/32", "bad"})
	anyHint    = rapid.SampledFrom([]string{"z1", "z2"})
)

// drawOpenService draws a Service that may use every field there is.
func drawOpenService(t *rapid.T, name string) *corev1.Service {
	s := clusterIP(newService(name, rapid.SliceOfNDistinct(anyPort, 1, 3, rapid.ID).Draw(t, "ports")...),
		rapid.SliceOfNDistinct(anyVIP, 1, 2, rapid.ID).Draw(t, "vips")...)
	s.Spec.Type = rapid.SampledFrom([]corev1.ServiceType{corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeExternalName}).Draw(t, "type")
	for i := range s.Spec.Ports {
		s.Spec.Ports[i].NodePort = rapid.SampledFrom([]int32{0, 30080, 30081, 80}).Draw(t, "node port")
	}
	s.Spec.ExternalIPs = rapid.SliceOfN(anyOuter, 0, 2).Draw(t, "external IPs")
	for _, ip := range rapid.SliceOfN(anyOuter, 0, 2).Draw(t, "ingress") {
		s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip})
	}
	s.Spec.LoadBalancerSourceRanges = rapid.SliceOfN(anyRange, 0, 3).Draw(t, "ranges")
	if rapid.Bool().Draw(t, "external Local") {
		external(s)
	}
	if rapid.Bool().Draw(t, "internal Local") {
		internal(s)
	}
	if year := rapid.IntRange(0, 2).Draw(t, "year"); year > 0 {
		born(2020 + year)(s)
	}
	return s
}

func drawSlice(t *rapid.T, name string) *discoveryv1.EndpointSlice {
	var eps []string
	for range rapid.IntRange(0, 4).Draw(t, "endpoints") {
		eps = append(eps, anyAddress.Draw(t, "address")+anyFlags.Draw(t, "flags"))
	}
	s := newSlice(name, ports(rapid.SliceOfN(anyPort, 0, 3).Draw(t, "slice ports")...), eps...)
	if rapid.Bool().Draw(t, "hinted") {
		for i := range s.Endpoints {
			s.Endpoints[i].Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: anyHint.Draw(t, "zone")}}}
		}
	}
	s.Annotations = map[string]string{endpoints.WeightsAnnotation: rapid.SampledFrom([]string{`{"10.244.0.1":5}`, `{"10.244.0.1":9,"fd00::1":0}`, "bad", "{}"}).Draw(t, "weights")}
	return s
}

func drawNode(t *rapid.T) balance.Node {
	n := openNode()
	n.MasqueradeAll = rapid.Bool().Draw(t, "masquerade all")
	n.Zone = rapid.SampledFrom([]string{"", "z1", "z3"}).Draw(t, "zone")
	if rapid.Bool().Draw(t, "no Pod ranges") {
		n.PodRanges = nil
	}
	return n
}

// sameTable compares tables by value.
func sameTable(a, b dataplane.Table) string {
	return cmp.Diff(a, b, cmpopts.EquateComparable(netip.Addr{}, netip.AddrPort{}, netip.Prefix{}), cmpopts.EquateEmpty())
}

// Whatever Services there are and in whatever order things change: a table
// joined of the parts that are kept and those that changed is the one that Build
// makes of all, canonical, and independent of the order.
func TestPartsJoinToWhatBuildMakes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := drawNode(t)
		services := map[string]*corev1.Service{}
		given := map[types.NamespacedName][]*discoveryv1.EndpointSlice{}
		parts := map[string]balance.Part{}
		for range rapid.IntRange(1, 8).Draw(t, "changes") {
			name := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "name")
			key := types.NamespacedName{Namespace: "default", Name: name}
			if rapid.IntRange(0, 3).Draw(t, "delete") == 0 {
				delete(services, name)
				delete(parts, name)
			} else {
				services[name], given[key] = drawOpenService(t, name), nil
				for i := range rapid.IntRange(0, 3).Draw(t, "slices") {
					given[key] = append(given[key], drawSlice(t, name+string(rune('0'+i))))
				}
				parts[name] = balance.MakePart(n, services[name], given[key])
			}
			all := slices.Collect(maps.Values(services))
			whole, problems := balance.Build(n, all, func(key types.NamespacedName) []*discoveryv1.EndpointSlice {
				backward := slices.Clone(given[key])
				slices.Reverse(backward)
				return backward
			})
			joined, told := balance.Join(n, slices.Collect(maps.Values(parts)))
			checkCanonical(t, whole)
			if diff := sameTable(whole, joined); diff != "" {
				t.Fatalf("(-Build +Join):\n%s", diff)
			}
			if len(problems) != len(told) {
				t.Fatalf("Build tells %v, Join %v", texts(problems), texts(told))
			}
			checkFates(t, n, whole)
		}
	})
}

// checkFates holds what is true of every frontend, whatever its Service says.
func checkFates(t *rapid.T, n balance.Node, table dataplane.Table) {
	for _, fe := range table.Frontends {
		pod, node, outside := fe.Routes[dataplane.FromPod], fe.Routes[dataplane.FromNode], fe.Routes[dataplane.FromOutside]
		if refused := pod.Verdict == dataplane.Refuse; refused != (node.Verdict == dataplane.Refuse) || refused != (outside.Verdict == dataplane.Refuse) {
			t.Fatalf("%s: some are refused: %v", fe.Key, fe.Routes)
		}
		if fe.Kind != dataplane.ClusterIP && node.Verdict == dataplane.Drop {
			t.Fatalf("%s: %s, node %s", fe.Key, fe.Kind, node.Verdict)
		}
		if fe.Allowed != nil && (fe.Kind != dataplane.LoadBalancerIP || len(fe.Allowed) == 0) {
			t.Fatalf("%s: allowed %v", fe.Key, fe.Allowed)
		}
		for i, p := range fe.Allowed {
			if p != p.Masked() || dataplane.FamilyOf(p.Addr()) != dataplane.FamilyOf(fe.Addr) || i > 0 && fe.Allowed[i-1].Overlaps(p) {
				t.Fatalf("%s: allowed %v", fe.Key, fe.Allowed)
			}
		}
		if fe.Addr.IsUnspecified() != (fe.Kind == dataplane.NodePort) {
			t.Fatalf("%s is a %s", fe.Key, fe.Kind)
		}
	}
}
