package dns

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	mdns "github.com/miekg/dns"
)

func TestNameOrTypeMissing(t *testing.T) {
	z := newZone(
		svc("web", "10.96.0.10", "http:80"),
		svc("hl", "None", "http:80"),
		eps("hl", "a", "http:80", "!10.244.0.5"),
		namespace("empty"), pod("p.busy"),
	)
	want(t, z, `
	web.default.svc.cluster.local AAAA
		no data
	web.default.svc.cluster.local TXT
		no data
	web.default.svc.cluster.local HINFO
		no data
	web.default.svc.cluster.local SOA
		no data
	web.default.svc.cluster.local ANY
		no data
	nope.default.svc.cluster.local A
		no name
	nope.default.svc.cluster.local AAAA
		no name
	nope.default.svc.cluster.local TXT
		no name
	nope.default.svc.cluster.local SRV
		no name
	nope.default.svc.cluster.local SOA
		no name
	web.nope.svc.cluster.local A
		no name
	nope.svc.cluster.local A
		no name
	default.svc.cluster.local A
		no data
	default.svc.cluster.local TXT
		no data
	svc.cluster.local A
		no data
	pod.cluster.local A
		no data
	default.pod.cluster.local A
		no data
	empty.svc.cluster.local A
		no data
	busy.svc.cluster.local A
		no data
	hl.default.svc.cluster.local A
		no name
	a.web.default.svc.cluster.local A
		no name
	_http._tcp.hl.default.svc.cluster.local SRV
		no name
	other.cluster.local A
		no name
	cluster.local A
		no data
	example.com A
		not ours
	notcluster.local A
		not ours
	`)
}

// TestEmptyNonTerminals: a name that has names below it exists (RFC 8020), so that a
// resolver which asks label by label goes on.
func TestEmptyNonTerminals(t *testing.T) {
	z := newZone(svc("web", "10.96.0.10", "http:80", ":81/udp"), svc("hl", "None"), eps("hl", "a", "dns:53/udp", "10.0.0.1"))
	want(t, z, `
	_tcp.web.default.svc.cluster.local A
		no data
	_udp.web.default.svc.cluster.local A
		no name
	_udp.hl.default.svc.cluster.local SRV
		no data
	_tcp.hl.default.svc.cluster.local SRV
		no name
	_http._tcp.web.default.svc.cluster.local A
		no data
	_dns._udp.hl.default.svc.cluster.local A
		no data
	dns.cluster.local A
		no data
	dns-version.cluster.local A
		no data
	ns.dns.cluster.local TXT
		no data
	`)
}

func TestPorts(t *testing.T) {
	z := newZone(
		svc("hl", "None"),
		eps("hl", "a", "http:8080,:9090", "10.0.0.1=one", "10.0.0.2"),
		svc("named", "10.96.0.11", "http:80", ":81", "dns:53", "dns-u:53/udp"),
	)
	want(t, z, `
	_http._tcp.hl.default.svc.cluster.local SRV
		NOERROR
		_http._tcp.hl.default.svc.cluster.local. 5 IN SRV 0 50 8080 10-0-0-2.hl.default.svc.cluster.local.
		_http._tcp.hl.default.svc.cluster.local. 5 IN SRV 0 50 8080 one.hl.default.svc.cluster.local.
		extra 10-0-0-2.hl.default.svc.cluster.local. 5 IN A 10.0.0.2
		extra one.hl.default.svc.cluster.local. 5 IN A 10.0.0.1
	_HTTP._TCP.hl.default.svc.cluster.local SRV
		NOERROR
		_HTTP._TCP.hl.default.svc.cluster.local. 5 IN SRV 0 50 8080 10-0-0-2.hl.default.svc.cluster.local.
		_HTTP._TCP.hl.default.svc.cluster.local. 5 IN SRV 0 50 8080 one.hl.default.svc.cluster.local.
		extra 10-0-0-2.hl.default.svc.cluster.local. 5 IN A 10.0.0.2
		extra one.hl.default.svc.cluster.local. 5 IN A 10.0.0.1
	named.default.svc.cluster.local SRV
		NOERROR
		extra named.default.svc.cluster.local. 5 IN A 10.96.0.11
		named.default.svc.cluster.local. 5 IN SRV 0 25 53 named.default.svc.cluster.local.
		named.default.svc.cluster.local. 5 IN SRV 0 25 80 named.default.svc.cluster.local.
		named.default.svc.cluster.local. 5 IN SRV 0 25 81 named.default.svc.cluster.local.
	_._tcp.named.default.svc.cluster.local SRV
		no name
	_http._udp.named.default.svc.cluster.local SRV
		no name
	http.tcp.named.default.svc.cluster.local SRV
		no name
	_https._tcp.named.default.svc.cluster.local SRV
		no name
	`)
}

// TestManyPorts: N endpoints and M ports make N×M records, every target of which has its
// address beside it and resolves.
func TestManyPorts(t *testing.T) {
	const n = 40
	var addrs []string
	for i := range n {
		addrs = append(addrs, fmt.Sprintf("10.1.0.%d", i))
	}
	z := newZone(svc("hl", "None"), eps("hl", "a", "http:80,dns:53/udp,:99", addrs...))
	a := z.Answer(mdns.Question{Name: "hl.default.svc.cluster.local.", Qtype: mdns.TypeSRV, Qclass: mdns.ClassINET})
	if len(a.Answer) != 3*n || len(a.Extra) != n {
		t.Fatalf("%d SRV records and %d addresses, want %d and %d", len(a.Answer), len(a.Extra), 3*n, n)
	}
	for _, rr := range a.Answer {
		srv := rr.(*mdns.SRV)
		if got := ask(z, srv.Target+" A"); srv.Port == 0 || srv.Weight != 1 || !strings.HasPrefix(got, "NOERROR\n"+srv.Target) {
			t.Errorf("%v: target answers %s", srv, got)
		}
	}
}

func TestWildcardsAreNone(t *testing.T) {
	z := newZone(svc("web", "10.96.0.10", "any:80"), svc("any", "10.96.0.12"), svc("any.any", "10.96.0.13"), pod("p", "10.0.0.9"))
	want(t, z, `
	*.default.svc.cluster.local A
		no name
	*.default.svc.cluster.local SRV
		no name
	web.*.svc.cluster.local A
		no name
	*.web.default.svc.cluster.local A
		no name
	any.web.default.svc.cluster.local A
		no name
	web.any.svc.cluster.local A
		no name
	*.*.svc.cluster.local A
		no name
	*.default.pod.cluster.local A
		no name
	any.default.pod.cluster.local A
		no name
	_*._tcp.web.default.svc.cluster.local SRV
		no name
	_any._any.web.default.svc.cluster.local SRV
		no name
	_any._tcp.web.default.svc.cluster.local SRV
		NOERROR
		_any._tcp.web.default.svc.cluster.local. 5 IN SRV 0 100 80 web.default.svc.cluster.local.
		extra web.default.svc.cluster.local. 5 IN A 10.96.0.10
	any.default.svc.cluster.local A
		NOERROR
		any.default.svc.cluster.local. 5 IN A 10.96.0.12
	any.any.svc.cluster.local A
		NOERROR
		any.any.svc.cluster.local. 5 IN A 10.96.0.13
	`)
}

func TestPodNames(t *testing.T) {
	z := newZone(namespace("other"), pod("a", "10.244.0.12", "fd00::a:1"), pod("b", "fd00::"), pod("none"), svc("web", "10.96.0.10"))
	want(t, z, `
	10-244-0-12.default.pod.cluster.local A
		NOERROR
		10-244-0-12.default.pod.cluster.local. 5 IN A 10.244.0.12
	10-244-0-12.default.pod.cluster.local AAAA
		no data
	fd00--a-1.default.pod.cluster.local AAAA
		NOERROR
		fd00--a-1.default.pod.cluster.local. 5 IN AAAA fd00::a:1
	FD00--A-1.default.pod.cluster.local AAAA
		NOERROR
		FD00--A-1.default.pod.cluster.local. 5 IN AAAA fd00::a:1
	fd00--.default.pod.cluster.local AAAA
		NOERROR
		fd00--.default.pod.cluster.local. 5 IN AAAA fd00::
	fd00-0-0-0-0-0-a-1.default.pod.cluster.local AAAA
		no name
	10-244-0-99.default.pod.cluster.local A
		no name
	10-244-0-12.other.pod.cluster.local A
		no name
	10-244-0-12.nope.pod.cluster.local A
		no name
	coredns.default.pod.cluster.local A
		no name
	1-2-3.default.pod.cluster.local A
		no name
	010-244-0-12.default.pod.cluster.local A
		no name
	10.244.0.12.default.pod.cluster.local A
		no name
	x.10-244-0-12.default.pod.cluster.local A
		no name
	`)
}

func TestReadiness(t *testing.T) {
	objs := func(publish bool) *Zone {
		s := svc("hl", "None")
		s.Spec.PublishNotReadyAddresses = publish
		return newZone(s, eps("hl", "a", "http:80", "10.0.0.1=up", "!10.0.0.2=down", "!10.0.0.3"))
	}
	want(t, objs(false), `
	hl.default.svc.cluster.local A
		NOERROR
		hl.default.svc.cluster.local. 5 IN A 10.0.0.1
	_http._tcp.hl.default.svc.cluster.local SRV
		NOERROR
		_http._tcp.hl.default.svc.cluster.local. 5 IN SRV 0 100 80 up.hl.default.svc.cluster.local.
		extra up.hl.default.svc.cluster.local. 5 IN A 10.0.0.1
	down.hl.default.svc.cluster.local A
		no name
	2.0.0.10.in-addr.arpa PTR
		not ours
	`)
	want(t, objs(true), `
	hl.default.svc.cluster.local A
		NOERROR
		hl.default.svc.cluster.local. 5 IN A 10.0.0.1
		hl.default.svc.cluster.local. 5 IN A 10.0.0.2
		hl.default.svc.cluster.local. 5 IN A 10.0.0.3
	_http._tcp.hl.default.svc.cluster.local SRV
		NOERROR
		_http._tcp.hl.default.svc.cluster.local. 5 IN SRV 0 33 80 10-0-0-3.hl.default.svc.cluster.local.
		_http._tcp.hl.default.svc.cluster.local. 5 IN SRV 0 33 80 down.hl.default.svc.cluster.local.
		_http._tcp.hl.default.svc.cluster.local. 5 IN SRV 0 33 80 up.hl.default.svc.cluster.local.
		extra 10-0-0-3.hl.default.svc.cluster.local. 5 IN A 10.0.0.3
		extra down.hl.default.svc.cluster.local. 5 IN A 10.0.0.2
		extra up.hl.default.svc.cluster.local. 5 IN A 10.0.0.1
	down.hl.default.svc.cluster.local A
		NOERROR
		down.hl.default.svc.cluster.local. 5 IN A 10.0.0.2
	10-0-0-3.hl.default.svc.cluster.local A
		NOERROR
		10-0-0-3.hl.default.svc.cluster.local. 5 IN A 10.0.0.3
	2.0.0.10.in-addr.arpa PTR
		NOERROR
		2.0.0.10.in-addr.arpa. 5 IN PTR down.hl.default.svc.cluster.local.
	`)
}

func TestReverseNames(t *testing.T) {
	z := newZone(
		svc("one", "None"), eps("one", "a", "", "10.244.0.5=pet", "fd00::5=pet"), eps("one", "b", "", "fd00::"),
		svc("two", "None"), eps("two", "a", "", "10.244.0.5"),
		svc("web", "10.96.0.10,fd00:10:96::a", "http:80"), pod("p", "10.244.0.77"),
		svc("alias", "name:example.com"), eps("alias", "a", "", "10.244.0.6"), eps("nobody", "a", "", "10.244.0.7"),
	)
	want(t, z, `
	5.0.244.10.in-addr.arpa PTR
		NOERROR
		5.0.244.10.in-addr.arpa. 5 IN PTR 10-244-0-5.two.default.svc.cluster.local.
		5.0.244.10.in-addr.arpa. 5 IN PTR pet.one.default.svc.cluster.local.
	5.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa PTR
		NOERROR
		5.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa. 5 IN PTR pet.one.default.svc.cluster.local.
	0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa PTR
		NOERROR
		0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa. 5 IN PTR fd00--0.one.default.svc.cluster.local.
	fd00--0.one.default.svc.cluster.local AAAA
		NOERROR
		fd00--0.one.default.svc.cluster.local. 5 IN AAAA fd00::
	fd00--.one.default.svc.cluster.local AAAA
		no name
	10.0.96.10.in-addr.arpa PTR
		NOERROR
		10.0.96.10.in-addr.arpa. 5 IN PTR web.default.svc.cluster.local.
	A.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.9.0.0.0.1.0.0.0.0.D.F.ip6.arpa PTR
		NOERROR
		A.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.9.0.0.0.1.0.0.0.0.D.F.ip6.arpa. 5 IN PTR web.default.svc.cluster.local.
	10.0.96.10.in-addr.arpa A
		NOERROR
		authority 10.0.96.10.in-addr.arpa. SOA
	11.0.96.10.in-addr.arpa PTR
		not ours
	77.0.244.10.in-addr.arpa PTR
		not ours
	6.0.244.10.in-addr.arpa PTR
		not ours
	7.0.244.10.in-addr.arpa PTR
		not ours
	0.96.10.in-addr.arpa PTR
		not ours
	010.0.96.10.in-addr.arpa PTR
		not ours
	in-addr.arpa SOA
		not ours
	`)
}

func TestExternalNames(t *testing.T) {
	z := newZone(
		svc("out", "name:www.example.com"), svc("dot", "name:www.example.com."), svc("ip", "name:192.0.2.1"),
		svc("in", "name:web.default.svc.cluster.local"), svc("web", "10.96.0.10", "http:80"),
		svc("chain", "name:in.default.svc.cluster.local"), svc("chain-out", "name:out.default.svc.cluster.local"),
		svc("lost", "name:nope.default.svc.cluster.local"), svc("self", "name:self.default.svc.cluster.local"),
		svc("ping", "name:pong.default.svc.cluster.local"), svc("pong", "name:ping.default.svc.cluster.local"),
	)
	const soa = "authority cluster.local. SOA"
	cname := func(name, target string) string {
		return name + ".default.svc.cluster.local. 5 IN CNAME " + target
	}
	const d = ".default.svc.cluster.local"
	for q, expected := range map[string][]string{
		"out" + d + " MX":                 {"NOERROR", cname("out", "www.example.com."), "chase www.example.com."},
		"out" + d + " ANY":                {"NOERROR", cname("out", "www.example.com.")},
		"dot" + d + " A":                  {"NOERROR", cname("dot", "www.example.com."), "chase www.example.com."},
		"below.out" + d + " A":            {"NXDOMAIN", soa},
		"_http._tcp.out" + d + " SRV":     {"NXDOMAIN", soa},
		"ip" + d + " A":                   {"NXDOMAIN", soa},
		"in" + d + " A":                   {"NOERROR", cname("in", "web"+d+"."), "web" + d + ". 5 IN A 10.96.0.10"},
		"in" + d + " AAAA":                {"NOERROR", soa, cname("in", "web"+d+".")},
		"in" + d + " CNAME":               {"NOERROR", cname("in", "web"+d+".")},
		"chain" + d + " A":                {"NOERROR", cname("chain", "in"+d+"."), cname("in", "web"+d+"."), "web" + d + ". 5 IN A 10.96.0.10"},
		"chain-out" + d + " A":            {"NOERROR", cname("chain-out", "out"+d+"."), cname("out", "www.example.com."), "chase www.example.com."},
		"lost" + d + " A":                 {"NXDOMAIN", soa, cname("lost", "nope"+d+".")},
		"self" + d + " A":                 {"NOERROR", soa, cname("self", "self"+d+".")},
		"ping" + d + " A":                 {"NOERROR", soa, cname("ping", "pong"+d+"."), cname("pong", "ping"+d+".")},
		"oUt.default.svc.CLUSTER.local A": {"NOERROR", "oUt.default.svc.CLUSTER.local. 5 IN CNAME www.example.com.", "chase www.example.com."},
	} {
		if got := ask(z, q); got != strings.Join(expected, "\n") {
			t.Errorf("%s:\n%s\nwant\n%s", q, got, strings.Join(expected, "\n"))
		}
	}
}

// TestCaseIsKept: owners have the case of the question, and so has the zone in targets.
func TestCaseIsKept(t *testing.T) {
	z := newZone(svc("web", "10.96.0.10", "http:80"))
	want(t, z, `
	WEB.Default.svc.Cluster.LOCAL A
		NOERROR
		WEB.Default.svc.Cluster.LOCAL. 5 IN A 10.96.0.10
	_Http._Tcp.WEB.Default.svc.Cluster.LOCAL SRV
		NOERROR
		_Http._Tcp.WEB.Default.svc.Cluster.LOCAL. 5 IN SRV 0 100 80 web.default.svc.Cluster.LOCAL.
		extra web.default.svc.Cluster.LOCAL. 5 IN A 10.96.0.10
	NOPE.Default.svc.Cluster.LOCAL A
		no name
	Cluster.LOCAL NS
		NOERROR
		Cluster.LOCAL. 5 IN NS ns.dns.Cluster.LOCAL.
		extra ns.dns.Cluster.LOCAL. 5 IN A 10.96.0.53
	`)
}

func TestOtherDomains(t *testing.T) {
	for _, domain := range []string{"k8s.example.com", "K8S.Example.Com.", "local", "svc.cluster.local", "a.b.c.d.e"} {
		z := New(Options{Domain: domain, TTL: 600})
		z.Load(came(svc("web", "10.96.0.10", "http:80"), svc("kube-dns.kube-system", "10.96.0.53")), noon)
		lower := strings.ToLower(strings.TrimSuffix(domain, "."))
		q := "web.default.svc." + lower
		if got, expected := ask(z, q+" A"), "NOERROR\n"+q+". 600 IN A 10.96.0.10"; got != expected {
			t.Errorf("%s: %s", domain, got)
		}
		if got := ask(z, "ns.dns."+lower+" A"); got != "NOERROR\nns.dns."+lower+". 600 IN A 10.96.0.53" {
			t.Errorf("%s: %s", domain, got)
		}
		a := z.Answer(mdns.Question{Name: "nope." + lower + ".", Qtype: mdns.TypeA, Qclass: mdns.ClassINET})
		if soa := a.Authority[0].(*mdns.SOA); soa.Hdr.Ttl != 300 || soa.Minttl != 600 {
			t.Errorf("%s: %v", domain, soa)
		}
	}
}

func TestRefused(t *testing.T) {
	z := newZone(svc("web", "10.96.0.10", "http:80"))
	for _, q := range []mdns.Question{
		{Name: "web.default.svc.cluster.local.", Qtype: mdns.TypeA, Qclass: mdns.ClassCHAOS},
		{Name: "web.default.svc.cluster.local.", Qtype: mdns.TypeA, Qclass: mdns.ClassANY},
		{Name: "cluster.local.", Qtype: mdns.TypeAXFR, Qclass: mdns.ClassINET},
		{Name: "cluster.local.", Qtype: mdns.TypeIXFR, Qclass: mdns.ClassINET},
		{Name: "10.0.96.10.in-addr.arpa.", Qtype: mdns.TypeAXFR, Qclass: mdns.ClassINET},
	} {
		if a := z.Answer(q); !a.Ours || a.Rcode != mdns.RcodeRefused {
			t.Errorf("%v: %+v", q, a)
		}
	}
}

// TestHostileNames: whatever a name holds, nothing panics and nothing is found.
func TestHostileNames(t *testing.T) {
	z := newZone(svc("web", "10.96.0.10", "http:80"), pod("p", "10.0.0.1"))
	names := []string{"", ".", "..", ".cluster.local.", "..svc.cluster.local.", ".default.svc.cluster.local.", `web\.default.svc.cluster.local.`,
		`foo\.cluster.local.`, `\000.default.svc.cluster.local.`, `a\\.default.svc.cluster.local.`, "_.web.default.svc.cluster.local.", "_._.web.default.svc.cluster.local.",
		"-.default.pod.cluster.local.", "--.default.pod.cluster.local.", "---.default.pod.cluster.local.", "fe80--1%25eth0.default.pod.cluster.local.",
		"1-2-3-4-5-6-7-8-9.default.pod.cluster.local.", strings.Repeat("a.", 120) + "cluster.local.", ".in-addr.arpa.", "....in-addr.arpa.", "ip6.arpa.",
		strings.Repeat("z.", 32) + "ip6.arpa.", strings.Repeat("0.", 31) + "0ip6.arpa.", strings.Repeat("00", 32) + "ip6.arpa."}
	for _, name := range names {
		for _, qtype := range []uint16{mdns.TypeA, mdns.TypeSRV, mdns.TypePTR, mdns.TypeTXT} {
			if a := z.Answer(mdns.Question{Name: name, Qtype: qtype, Qclass: mdns.ClassINET}); len(a.Answer) > 0 {
				t.Errorf("%q: %v", name, a.Answer)
			}
		}
	}
	// the dot is part of a label, so the name is not of the zone
	if a := z.Answer(mdns.Question{Name: `foo\.cluster.local.`, Qtype: mdns.TypeA, Qclass: mdns.ClassINET}); a.Ours {
		t.Error("an escaped dot ends no label")
	}
	if !slices.Contains(z.Records(), "web.default.svc.cluster.local. 5 IN A 10.96.0.10") {
		t.Error("Records lacks a Service")
	}
}
