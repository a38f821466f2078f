package coredns

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"

	mdns "github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func split(key string) (name, namespace string) {
	name, namespace, _ = strings.Cut(key, ".")
	return name, namespace
}

func compareKeys(a, b metav1.Object) int {
	return cmp.Or(cmp.Compare(fmt.Sprintf("%T", a), fmt.Sprintf("%T", b)), cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
}

// types that are asked for; A and AAAA most.
var types = []uint16{
	mdns.TypeA, mdns.TypeA, mdns.TypeA, mdns.TypeA, mdns.TypeAAAA, mdns.TypeAAAA, mdns.TypeSRV, mdns.TypeSRV, mdns.TypeSRV, mdns.TypePTR, mdns.TypeCNAME,
	mdns.TypeTXT, mdns.TypeNS, mdns.TypeSOA, mdns.TypeMX, mdns.TypeANY, mdns.TypeHTTPS, mdns.TypeSVCB, mdns.TypeHINFO, mdns.TypeCAA, mdns.TypeNAPTR,
}

// questions asks n times and more: all corners, then for what the cluster has, for what is near it, and for garbage.
func (g *generator) questions(n int) []mdns.Question {
	names := g.names()
	out := g.corners()
	for len(out) < n {
		name := g.spoil(pick(g, names...))
		if _, ok := mdns.IsDomainName(name); !ok {
			continue
		}
		q := mdns.Question{Name: mdns.Fqdn(name), Qtype: pick(g, types...), Qclass: mdns.ClassINET}
		if strings.HasSuffix(strings.ToLower(q.Name), ".arpa.") && !g.chance(5) {
			q.Qtype = mdns.TypePTR
		}
		if strings.HasPrefix(q.Name, "_") && g.chance(2) {
			q.Qtype = mdns.TypeSRV
		}
		if g.chance(100) {
			q.Qclass = pick[uint16](g, mdns.ClassCHAOS, mdns.ClassANY, mdns.ClassHESIOD)
		}
		if g.chance(200) {
			q.Qtype = mdns.TypeAXFR
		}
		out = append(out, q)
	}
	return out
}

// fixed are names that do not depend on what Services and Pods there are.
func fixed() []string {
	names := []string{"example.com", "www.example.com", "in-addr.arpa", "ip6.arpa", "0.244.10.in-addr.arpa", "local", "notcluster.local", domain}
	for _, label := range []string{"svc", "pod", "dns", "ns.dns", "dns-version", "apex.dns", "any", "x"} {
		names = append(names, label+"."+domain)
	}
	for _, s := range append(spaces, "missing") {
		names = append(names, s+".svc."+domain, s+".pod."+domain)
	}
	return names
}

// corners asks each of them for each type, in small letters and in mixed.
func (g *generator) corners() []mdns.Question {
	var out []mdns.Question
	for _, name := range fixed() {
		for _, qtype := range types[3:] {
			out = append(out, mdns.Question{Name: mdns.Fqdn(name), Qtype: qtype, Qclass: mdns.ClassINET},
				mdns.Question{Name: mdns.Fqdn(g.mixCase(name)), Qtype: qtype, Qclass: mdns.ClassINET})
		}
	}
	return out
}

// names are those of the cluster, of all trees.
func (g *generator) names() []string {
	names := fixed()
	for _, obj := range g.objects {
		names = append(names, g.namesOf(obj)...)
	}
	return names
}

// namesOf are those of an object, some of which it would have if it were another.
func (g *generator) namesOf(obj metav1.Object) []string {
	switch obj := obj.(type) {
	case *corev1.Pod:
		var names []string
		for _, ip := range obj.Status.PodIPs {
			addr := netip.MustParseAddr(ip.IP)
			names = append(names, dashes(addr)+"."+obj.Namespace+".pod."+domain, reverse(addr))
		}
		return names
	case *corev1.Service:
		base := obj.Name + "." + obj.Namespace + ".svc." + domain
		names := []string{base, base, base, "_http._tcp." + base, pick(g, "_dns._udp.", "_dns-tcp._tcp.", "_https._tcp.", "_any._sctp.") + base}
		for _, ip := range obj.Spec.ClusterIPs {
			if addr, err := netip.ParseAddr(ip); err == nil {
				names = append(names, reverse(addr))
			}
		}
		return names
	case *discoveryv1.EndpointSlice:
		base := obj.Labels[discoveryv1.LabelServiceName] + "." + obj.Namespace + ".svc." + domain
		var names []string
		for _, e := range obj.Endpoints {
			label := dashes(netip.MustParseAddr(e.Addresses[0]))
			if e.Hostname != nil {
				label = *e.Hostname
			}
			names = append(names, label+"."+base)
		}
		return names
	}
	return nil
}

func dashes(addr netip.Addr) string {
	return strings.NewReplacer(".", "-", ":", "-").Replace(addr.String())
}

func reverse(addr netip.Addr) string {
	name, err := mdns.ReverseAddr(addr.String())
	if err != nil {
		panic(err) // an address has a reverse name
	}
	return strings.TrimSuffix(name, ".")
}

// spoil changes a name, half of the time, into one that is near it.
func (g *generator) spoil(name string) string {
	labels := strings.Split(name, ".")
	i := g.IntN(len(labels))
	switch g.IntN(24) {
	case 0, 1:
		return g.mixCase(name)
	case 2:
		labels[i] = "*"
	case 3:
		labels[i] = pick(g, "any", "nope", "x", "default")
	case 4:
		return pick(g, "x", "_tcp", "_udp", "*", "any", "1-2-3-4") + "." + name
	case 5:
		return pick(g, "_http._tcp", "http.tcp", "_http.tcp", "_._tcp", "_http._", "_nope._tcp", "a.b", "_any._any", "*._tcp") + "." + name
	case 6:
		return "a.b.c." + name
	case 7:
		labels = append(labels[:i:i], labels[i+1:]...)
	case 8:
		labels[i] = strings.TrimPrefix(labels[i], "_")
	case 9:
		labels[i] += pick(g, "x", "-", "0", `\.x`, `\000`, `\\`)
	case 10:
		labels[i] = pick(g, "010-244-0-3", "10-244-0", "10-244-0-300", "fd00-10-244-0-0-0-0-3", "fd00--", "--", "1-2-3-4", "10-244-0-1", strings.Repeat("a", 63))
	case 11:
		return g.mixCase("x." + name)
	}
	return strings.Join(labels, ".")
}

func (g *generator) mixCase(name string) string {
	mixed := []byte(name)
	for i, c := range mixed {
		if c >= 'a' && c <= 'z' && g.chance(2) {
			mixed[i] = c - 'a' + 'A'
		}
	}
	return string(mixed)
}
