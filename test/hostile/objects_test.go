package hostile

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/balance"
	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/endpoints"
)

var node = balance.Node{
	Name:          "here",
	PodRanges:     []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:10:244::/56")},
	ServiceRanges: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("fd00:10:96::/112")},
	Addrs:         []netip.Addr{netip.MustParseAddr("192.0.2.1")},
}

// bystander is the Service that nobody may harm: the oldest of all, on every
// door.
func bystander() (*corev1.Service, *discoveryv1.EndpointSlice) {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "bystander", CreationTimestamp: metav1.Unix(1, 0)},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ClusterIP: "10.96.0.1", ExternalIPs: []string{"203.0.113.1"},
			Ports: []corev1.ServicePort{{Name: "http", Port: 80, NodePort: 30080, Protocol: corev1.ProtocolTCP}}},
		Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "203.0.113.101"}}}},
	}
	return svc, sliceFor(svc, "10.244.0.5", "{}", 8080)
}

func sliceFor(svc *corev1.Service, addr, weights string, port int32) *discoveryv1.EndpointSlice {
	name, here := "http", "here"
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: svc.Namespace, Name: svc.Name + "-1",
			Annotations: map[string]string{endpoints.WeightsAnnotation: weights}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &port}},
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{addr}, NodeName: &here}},
	}
}

// wish is what the enemy writes into the fields of a Service and its slice.
type wish struct {
	name, clusterIP, external, ingress, ranges, endpoint, weights, scheduler, protocol string
	port, nodePort, timeout                                                            int32
}

func (w wish) objects() (*corev1.Service, *discoveryv1.EndpointSlice) {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: w.name, CreationTimestamp: metav1.Unix(2, 0),
			Annotations: map[string]string{"toyproxy.dev/ipvs-scheduler": w.scheduler}},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ClusterIP: w.clusterIP, ExternalIPs: strings.Split(w.external, ";"),
			LoadBalancerSourceRanges: strings.Split(w.ranges, ";"), SessionAffinity: corev1.ServiceAffinityClientIP,
			SessionAffinityConfig: &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &w.timeout}},
			Ports:                 []corev1.ServicePort{{Name: "http", Port: w.port, NodePort: w.nodePort, Protocol: corev1.Protocol(w.protocol)}}},
		Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: w.ingress}}}},
	}
	return svc, sliceFor(svc, w.endpoint, w.weights, w.port)
}

// FuzzObjects proves that whatever stands in the fields of one Service, the
// frontends of another are what they were, and every backend renders the table.
func FuzzObjects(f *testing.F) {
	for _, w := range seeds() {
		f.Add(w.name, w.clusterIP, w.external, w.ingress, w.ranges, w.endpoint, w.weights, w.scheduler, w.protocol, w.port, w.nodePort, w.timeout)
	}
	svc, slice := bystander()
	alone, problems := balance.Build(node, []*corev1.Service{svc}, func(types.NamespacedName) []*discoveryv1.EndpointSlice {
		return []*discoveryv1.EndpointSlice{slice}
	})
	if len(problems) > 0 || len(alone.Frontends) != 4 {
		f.Fatalf("the bystander alone: %d frontends, problems %v", len(alone.Frontends), problems)
	}
	f.Fuzz(func(t *testing.T, name, clusterIP, external, ingress, ranges, endpoint, weights, scheduler, protocol string, port, nodePort, timeout int32) {
		if name == "bystander" {
			return // no other Service
		}
		enemy, itsSlice := wish{name, clusterIP, external, ingress, ranges, endpoint, weights, scheduler, protocol, port, nodePort, timeout}.objects()
		table, _ := balance.Build(node, []*corev1.Service{enemy, svc}, func(n types.NamespacedName) []*discoveryv1.EndpointSlice {
			if n.Name == "bystander" {
				return []*discoveryv1.EndpointSlice{slice}
			}
			return []*discoveryv1.EndpointSlice{itsSlice}
		})
		unharmed(t, alone, table)
		for _, r := range renderers() {
			if _, err := r.Render(table); err != nil {
				t.Errorf("%s: %v", r.name, err)
			}
		}
	})
}

// unharmed compares what the bystander has with what it has when alone.
func unharmed(t *testing.T, alone, table dataplane.Table) {
	t.Helper()
	for _, want := range alone.Frontends {
		got, ok := table.Frontend(want.Key)
		if !ok || got.Service != want.Service || got.Routes != want.Routes || !slices.Equal(got.Allowed, want.Allowed) {
			t.Errorf("frontend %s: %+v, alone %+v", want.Key, got, want)
		}
	}
	for _, want := range alone.Sets {
		got, ok := table.Set(want.Name)
		if !ok || !slices.Equal(got.Endpoints, want.Endpoints) || got.Affinity != want.Affinity {
			t.Errorf("set %s: %+v, alone %+v", want.Name, got, want)
		}
	}
}

func seeds() []wish {
	good := wish{"enemy", "10.96.0.2", "203.0.113.2", "203.0.113.102", "198.51.100.0/24", "10.244.0.6", `{"10.244.0.6":2}`, "wrr", "TCP", 80, 30081, 10}
	with := func(change func(*wish)) wish {
		w := good
		change(&w)
		return w
	}
	return []wish{
		good,
		with(func(w *wish) { // all that the other has
			w.clusterIP, w.external, w.ingress, w.nodePort = "10.96.0.1", "203.0.113.1;203.0.113.101;192.0.2.1", "203.0.113.1", 30080
		}),
		with(func(w *wish) { w.ranges = nested(500) }),
		with(func(w *wish) {
			w.ranges = "0.0.0.0/0;::/0;10.0.0.0/8;10.0.0.0/8;10.1.0.0/16;not a range;1.2.3.4/99;-j ACCEPT"
		}),
		with(func(w *wish) {
			w.external = "127.0.0.1;0.0.0.0;224.0.0.1;255.255.255.255;::ffff:10.96.0.1;fe80::1%lo;010.96.0.1"
		}),
		with(func(w *wish) { w.endpoint = "127.0.0.1" }),
		with(func(w *wish) { w.endpoint = "10.96.0.1" }),
		with(func(w *wish) { w.weights = `{"10.244.0.6":-1,"10.244.0.6":1e99}` }),
		with(func(w *wish) { w.scheduler = "rr -t 10.96.0.1:80" }),
		with(func(w *wish) { w.port, w.nodePort, w.timeout = -1, 1<<31-1, -1<<31 }),
		with(func(w *wish) { w.protocol, w.clusterIP = "tcp\n", "10.96.0.2\n" }),
	}
}

// nested is n ranges: every second a single address of its own, the others
// inside or beside each other.
func nested(n int) string {
	var out []string
	for i := range n {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, byte(i / 8), byte(i * 32)}), 15+i%18)
		if i%2 == 1 {
			p = netip.PrefixFrom(netip.AddrFrom4([4]byte{203, 0, byte(i / 100), byte(2 * i)}), 32)
		}
		out = append(out, p.String())
	}
	return strings.Join(out, ";")
}

// TestFiveHundredRanges proves that the ranges of one frontend cost the others
// nothing, and that none of them is lost.
func TestFiveHundredRanges(t *testing.T) {
	w := seeds()[0]
	w.ranges = nested(500)
	enemy, slice := w.objects()
	table, _ := balance.Build(node, []*corev1.Service{enemy}, func(types.NamespacedName) []*discoveryv1.EndpointSlice {
		return []*discoveryv1.EndpointSlice{slice}
	})
	fe, ok := table.Frontend(dataplane.Key{Addr: netip.MustParseAddr("203.0.113.102"), Protocol: dataplane.TCP, Port: 80})
	if !ok || len(fe.Allowed) == 0 {
		t.Fatalf("frontend: %+v", fe)
	}
	for text := range strings.SplitSeq(w.ranges, ";") {
		wanted := netip.MustParsePrefix(text).Masked()
		if !slices.ContainsFunc(fe.Allowed, func(p netip.Prefix) bool { return p.Bits() <= wanted.Bits() && p.Contains(wanted.Addr()) }) {
			t.Errorf("range %s is allowed no more", text)
		}
	}
	start := time.Now()
	for _, r := range renderers() {
		if text, err := r.Render(table); err != nil {
			t.Errorf("%s: %v", r.name, err)
		} else if len(text) > 1<<20 {
			t.Errorf("%s: %d bytes for one Service", r.name, len(text))
		}
	}
	t.Logf("rendered by all in %s", time.Since(start).Round(time.Millisecond))
}

// TestNothing proves that no field of a Service or its slice is needed for the
// others to be read: every one is left out in every combination (fault 78).
func TestNothing(t *testing.T) {
	clear := []func(*corev1.Service, *discoveryv1.EndpointSlice){
		func(s *corev1.Service, _ *discoveryv1.EndpointSlice) { s.Spec.ClusterIP = "" },
		func(s *corev1.Service, _ *discoveryv1.EndpointSlice) { s.Spec.Ports = nil },
		func(s *corev1.Service, _ *discoveryv1.EndpointSlice) { s.Spec.ExternalIPs = nil },
		func(s *corev1.Service, _ *discoveryv1.EndpointSlice) { s.Status = corev1.ServiceStatus{} },
		func(s *corev1.Service, _ *discoveryv1.EndpointSlice) { s.Spec.SessionAffinityConfig = nil },
		func(_ *corev1.Service, e *discoveryv1.EndpointSlice) { e.Endpoints = nil },
		func(_ *corev1.Service, e *discoveryv1.EndpointSlice) { e.Endpoints = []discoveryv1.Endpoint{{}} },
		func(_ *corev1.Service, e *discoveryv1.EndpointSlice) { e.Ports = nil },
		func(_ *corev1.Service, e *discoveryv1.EndpointSlice) { e.Ports = []discoveryv1.EndpointPort{{}} },
		func(s *corev1.Service, _ *discoveryv1.EndpointSlice) { s.Spec.Type = "" },
	}
	for mask := range 1 << len(clear) {
		svc, slice := seeds()[0].objects()
		for i, c := range clear {
			if mask>>i&1 == 1 {
				c(svc, slice)
			}
		}
		table, _ := balance.Build(node, []*corev1.Service{svc}, func(types.NamespacedName) []*discoveryv1.EndpointSlice {
			return []*discoveryv1.EndpointSlice{slice}
		})
		for _, r := range renderers() {
			if _, err := r.Render(table); err != nil {
				t.Errorf("left out %b: %s: %v", mask, r.name, err)
			}
		}
	}
}
