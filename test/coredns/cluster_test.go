package coredns

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	domain = "cluster.local"
	// undeclared is a namespace that has objects, but is none itself.
	undeclared = "undeclared"
)

// generator makes a cluster whose objects meet: few names, few Pods behind many Services.
type generator struct {
	*rand.Rand
	objects []metav1.Object
	vips    netip.Addr
	vips6   netip.Addr
	pods    []netip.Addr // of Pods, of both families in turn
}

// spaces have names that could be taken for something else.
var spaces = []string{"default", "shop", "any", "svc", "pod", "kube-system", "empty", undeclared}

func newCluster(seed uint64) *generator {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 53)), vips: netip.MustParseAddr("10.96.0.1"), vips6: netip.MustParseAddr("fd00:10:96::1")}
	for _, name := range spaces {
		if name != undeclared {
			g.objects = append(g.objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
	}
	four, six := netip.MustParseAddr("10.244.0.0"), netip.MustParseAddr("fd00:10:244::")
	for i := range 60 {
		g.pod(i, four, six)
		g.pods = append(g.pods, four, six)
		four, six = four.Next(), six.Next()
	}
	g.clusterIPs()
	g.headless()
	g.aliases()
	// slices that belong to no Service
	g.slice("nobody.default", "a", false, 2)
	g.slice("out.default", "a", false, 2)
	return g
}

func meta(name, namespace string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: namespace}
}

func pick[T any](g *generator, from ...T) T { return from[g.IntN(len(from))] }

// chance is true one time in n.
func (g *generator) chance(n int) bool { return g.IntN(n) == 0 }

// space is a namespace that may have objects.
func (g *generator) space() string {
	if g.chance(20) {
		return undeclared
	}
	return pick(g, "default", "shop", "any", "svc", "pod", "kube-system")
}

func (g *generator) pod(i int, four, six netip.Addr) {
	p := &corev1.Pod{ObjectMeta: meta(fmt.Sprintf("pod-%d", i), g.space())}
	p.Status.PodIPs = []corev1.PodIP{{IP: four.String()}, {IP: six.String()}}
	switch {
	case g.chance(10):
		p.Status.PodIPs = p.Status.PodIPs[1:]
	case g.chance(10):
		p.Status.PodIPs = nil
	case g.chance(8):
		p.Status.PodIPs = []corev1.PodIP{{IP: "192.0.2.77"}} // the node's own
	case g.chance(12):
		p.Status.Phase = corev1.PodSucceeded
	case g.chance(12):
		p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1_800_000_000, 0)}
	}
	g.objects = append(g.objects, p)
}

// names of Services: some could be taken for something else.
func (g *generator) name(kind string, i int) string {
	if i < 6 {
		return []string{"web", "any", "svc", "ns", "dns-version", "10-96-0-1"}[i] + kind
	}
	return fmt.Sprintf("%s-%d", pick(g, "api", "db", "x"), i) + kind
}

var portLists = [][]corev1.ServicePort{
	nil,
	{{Name: "http", Port: 80, Protocol: "TCP"}},
	{{Port: 80, Protocol: "TCP"}},
	{{Name: "http", Port: 80, Protocol: "TCP"}, {Name: "https", Port: 443, Protocol: "TCP"}},
	{{Name: "dns", Port: 53, Protocol: "UDP"}, {Name: "dns-tcp", Port: 53, Protocol: "TCP"}},
	{{Name: "http", Port: 80, Protocol: "TCP"}, {Port: 81, Protocol: "UDP"}, {Name: "any", Port: 82, Protocol: "SCTP"}},
}

func (g *generator) clusterIPs() {
	for i := range 60 {
		s := &corev1.Service{ObjectMeta: meta(g.name("", i), g.space())}
		s.Spec.Type = pick(g, corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer)
		ips := []string{g.vips.String(), g.vips6.String()}
		g.vips, g.vips6 = g.vips.Next(), g.vips6.Next()
		switch g.IntN(4) {
		case 0:
			slices.Reverse(ips)
		case 1:
			ips = ips[1:]
		case 2:
			ips = ips[:1]
		}
		s.Spec.ClusterIPs, s.Spec.ClusterIP = ips, ips[0]
		s.Spec.ExternalIPs = pick(g, nil, []string{"198.51.100.7"})
		s.Spec.Ports = slices.Clone(pick(g, portLists...))
		g.objects = append(g.objects, s)
		if g.chance(2) {
			g.slice(s.Name+"."+s.Namespace, "a", false, g.IntN(4))
		}
	}
}

func (g *generator) headless() {
	for i := range 40 {
		s := &corev1.Service{ObjectMeta: meta(g.name("-hl", i), g.space())}
		s.Spec.ClusterIP, s.Spec.ClusterIPs = corev1.ClusterIPNone, []string{corev1.ClusterIPNone}
		s.Spec.Ports = slices.Clone(pick(g, portLists...))
		s.Spec.PublishNotReadyAddresses = g.chance(4)
		g.objects = append(g.objects, s)
		for j := range g.IntN(4) {
			g.slice(s.Name+"."+s.Namespace, string(rune('a'+j)), true, g.IntN(5))
		}
	}
}

// slice adds an EndpointSlice of a Service "NAME.NAMESPACE", whose endpoints are Pods;
// with hosts, some of a StatefulSet.
func (g *generator) slice(service, suffix string, hosts bool, n int) {
	name, namespace := split(service)
	s := &discoveryv1.EndpointSlice{ObjectMeta: meta(name+"-"+suffix, namespace), AddressType: discoveryv1.AddressTypeIPv4}
	s.Labels = map[string]string{discoveryv1.LabelServiceName: name}
	family := g.IntN(2)
	if family == 1 {
		s.AddressType = discoveryv1.AddressTypeIPv6
	}
	for _, p := range pick(g, portLists...) {
		s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: &p.Name, Port: &p.Port, Protocol: &p.Protocol})
	}
	for range n {
		addr := g.pods[2*g.IntN(len(g.pods)/2)+family]
		e := discoveryv1.Endpoint{Addresses: []string{addr.String()}}
		if !g.chance(6) {
			ready := !g.chance(5)
			e.Conditions.Ready = &ready
		}
		if hosts && g.chance(2) {
			host := fmt.Sprintf("%s-%d", name, g.IntN(3))
			e.Hostname = &host
		}
		s.Endpoints = append(s.Endpoints, e)
	}
	g.objects = append(g.objects, s)
}

// aliases adds Services of type ExternalName: within the zone and out of it, in circles,
// and to nothing.
func (g *generator) aliases() {
	for name, target := range map[string]string{
		"out": "www.example.com", "dot": "www.example.com.", "lost-out": "missing.example.net", "ip": "192.0.2.1",
		"in": "web.default.svc." + domain, "twice": "in.default.svc." + domain, "twice-out": "out.default.svc." + domain,
		"lost": "nope.default.svc." + domain, "self": "self.default.svc." + domain, "ping": "pong.default.svc." + domain,
		"pong": "ping.default.svc." + domain, "below": "x.below.default.svc." + domain, "apex": domain,
		"to-pod": "10-244-0-3.shop.pod." + domain,
	} {
		s := &corev1.Service{ObjectMeta: meta(name, "default")}
		s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, target
		g.objects = append(g.objects, s)
	}
	slices.SortStableFunc(g.objects, func(a, b metav1.Object) int { return compareKeys(a, b) })
	web := &corev1.Service{ObjectMeta: meta("web", "default")}
	web.Spec.ClusterIP, web.Spec.ClusterIPs = "10.96.255.1", []string{"10.96.255.1", "fd00:10:96::ff01"}
	web.Spec.Ports = portLists[3]
	g.replace(web)
}

// replace puts an object in the place of that of its name.
func (g *generator) replace(obj metav1.Object) {
	g.remove(obj)
	g.objects = append(g.objects, obj)
}

func (g *generator) remove(obj metav1.Object) {
	g.objects = slices.DeleteFunc(g.objects, func(o metav1.Object) bool { return compareKeys(o, obj) == 0 })
}
