package dns

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	mdns "github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/toyproxy/toyproxy/cluster"
)

var noon = time.Unix(1_800_000_000, 0)

// newZone has cluster.local, TTL 5, and these objects.
func newZone(objs ...metav1.Object) *Zone {
	z := New(Options{Domain: "cluster.local", TTL: 5, Server: []netip.Addr{netip.MustParseAddr("10.96.0.53")}})
	z.Load(came(objs...), noon)
	return z
}

// came are the events of objects that are new.
func came(objs ...metav1.Object) []cluster.Event {
	var events []cluster.Event
	for _, o := range objs {
		events = append(events, cluster.Event{Object: refOf(o), New: o})
	}
	return events
}

// gone are the events of objects that go.
func gone(objs ...metav1.Object) []cluster.Event {
	var events []cluster.Event
	for _, o := range objs {
		events = append(events, cluster.Event{Object: refOf(o), Old: o})
	}
	return events
}

func refOf(o metav1.Object) cluster.Ref {
	kind := cluster.Namespace
	switch o.(type) {
	case *corev1.Service:
		kind = cluster.Service
	case *corev1.Pod:
		kind = cluster.Pod
	case *discoveryv1.EndpointSlice:
		kind = cluster.EndpointSlice
	}
	return cluster.MakeRef(kind, o.GetNamespace(), o.GetName())
}

// meta reads "web" as of namespace default, "web.shop" as of shop.
func meta(name string) metav1.ObjectMeta {
	name, namespace, ok := strings.Cut(name, ".")
	if !ok {
		namespace = "default"
	}
	return metav1.ObjectMeta{Name: name, Namespace: namespace}
}

// svc is a Service with ClusterIPs, "None", or "name:TARGET" for an ExternalName, and
// ports such as "http:80/tcp", ":80".
func svc(name, ips string, ports ...string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: meta(name)}
	if target, ok := strings.CutPrefix(ips, "name:"); ok {
		s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, target
		return s
	}
	s.Spec.Type = corev1.ServiceTypeClusterIP
	s.Spec.ClusterIPs = strings.Split(ips, ",")
	s.Spec.ClusterIP = s.Spec.ClusterIPs[0]
	for _, p := range ports {
		name, protocol, number := parsePort(p)
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: name, Protocol: protocol, Port: number})
	}
	return s
}

func parsePort(text string) (name string, protocol corev1.Protocol, number int32) {
	name, rest, _ := strings.Cut(text, ":")
	digits, proto, ok := strings.Cut(rest, "/")
	if !ok {
		proto = "tcp"
	}
	fmt.Sscan(digits, &number)
	return name, corev1.Protocol(strings.ToUpper(proto)), number
}

// eps is an EndpointSlice SERVICE-SUFFIX with ports "http:80,dns:53/udp" and endpoints
// "10.0.0.1", "10.0.0.1=hostname", "!10.0.0.1" (not ready).
func eps(service, suffix, ports string, endpoints ...string) *discoveryv1.EndpointSlice {
	m := meta(service)
	s := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name + "-" + suffix,
		Labels: map[string]string{discoveryv1.LabelServiceName: m.Name}}, AddressType: discoveryv1.AddressTypeIPv4}
	for _, p := range strings.Split(ports, ",") {
		if name, protocol, number := parsePort(p); p != "" {
			s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: &name, Protocol: &protocol, Port: &number})
		}
	}
	for _, e := range endpoints {
		text, unready := strings.CutPrefix(e, "!")
		addr, host, ok := strings.Cut(text, "=")
		ready := !unready
		ep := discoveryv1.Endpoint{Addresses: []string{addr}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}
		if ok {
			ep.Hostname = &host
		}
		if strings.Contains(addr, ":") {
			s.AddressType = discoveryv1.AddressTypeIPv6
		}
		s.Endpoints = append(s.Endpoints, ep)
	}
	return s
}

func pod(name string, ips ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: meta(name)}
	for _, ip := range ips {
		p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: ip})
	}
	return p
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// ask returns the zone's answer to "NAME TYPE" in lines: the rcode, then the records of
// the sections, sorted, those of authority begun with "authority" and of extra with
// "extra". A SOA is told by its owner alone.
func ask(z *Zone, question string) string {
	name, typ, _ := strings.Cut(question, " ")
	a := z.Answer(mdns.Question{Name: mdns.Fqdn(name), Qtype: mdns.StringToType[typ], Qclass: mdns.ClassINET})
	if !a.Ours {
		return "not ours"
	}
	lines := []string{mdns.RcodeToString[a.Rcode]}
	for prefix, rrs := range map[string][]mdns.RR{"": a.Answer, "authority ": a.Authority, "extra ": a.Extra} {
		for _, rr := range rrs {
			text := strings.Join(strings.Fields(rr.String()), " ")
			if rr.Header().Rrtype == mdns.TypeSOA && prefix != "" {
				text = rr.Header().Name + " SOA"
			}
			lines = append(lines, prefix+text)
		}
	}
	slices.Sort(lines[1:])
	if a.Chase != "" {
		lines = append(lines, "chase "+a.Chase)
	}
	return strings.Join(lines, "\n")
}

// want checks answers: questions, each followed by its answer with indented lines.
// "no data" and "no name" stand for what denies.
func want(t *testing.T, z *Zone, script string) {
	t.Helper()
	var question string
	answers := map[string][]string{}
	var order []string
	for line := range strings.Lines(script) {
		text := strings.TrimSpace(line)
		switch {
		case text == "":
		case strings.HasPrefix(line, "\t\t"):
			answers[question] = append(answers[question], text)
		default:
			question = text
			order = append(order, question)
		}
	}
	for _, q := range order {
		expected := strings.Join(answers[q], "\n")
		if domain := domainOf(z, q); expected == "no data" {
			expected = "NOERROR\nauthority " + domain + " SOA"
		} else if expected == "no name" {
			expected = "NXDOMAIN\nauthority " + domain + " SOA"
		}
		if got := ask(z, q); got != expected {
			t.Errorf("%s:\n%s\nwant\n%s", q, got, expected)
		}
	}
}

// domainOf is the end of the question's name that is the zone's.
func domainOf(z *Zone, question string) string {
	name, _, _ := strings.Cut(question, " ")
	name = mdns.Fqdn(name)
	return name[max(0, len(name)-len(z.domain)):]
}
