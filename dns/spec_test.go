package dns

import (
	"testing"
)

// specified has the objects behind the examples of the specification: version 1.1.1,
// sections 2.2 to 2.6.
func specified() *Zone {
	return newZone(
		svc("kubernetes", "10.3.0.1,2001:db8::1", "https:443"),
		svc("headless", "None", "https:443"),
		eps("headless", "v4", "https:443", "10.3.0.100=my-pet", "10.3.0.101=my-pet-2", "10.3.0.102"),
		eps("headless", "v6", "https:443", "2001:db8::100=my-pet", "2001:db8::102"),
		svc("foo", "name:www.example.com"),
		pod("a", "10.3.0.7"),
	)
}

func TestSpecificationClusterIP(t *testing.T) {
	want(t, specified(), `
	dns-version.cluster.local TXT
		NOERROR
		dns-version.cluster.local. 28800 IN TXT "1.1.0"
	kubernetes.default.svc.cluster.local A
		NOERROR
		kubernetes.default.svc.cluster.local. 5 IN A 10.3.0.1
	kubernetes.default.svc.cluster.local AAAA
		NOERROR
		kubernetes.default.svc.cluster.local. 5 IN AAAA 2001:db8::1
	_https._tcp.kubernetes.default.svc.cluster.local SRV
		NOERROR
		_https._tcp.kubernetes.default.svc.cluster.local. 5 IN SRV 0 50 443 kubernetes.default.svc.cluster.local.
		extra kubernetes.default.svc.cluster.local. 5 IN A 10.3.0.1
		extra kubernetes.default.svc.cluster.local. 5 IN AAAA 2001:db8::1
	1.0.3.10.in-addr.arpa PTR
		NOERROR
		1.0.3.10.in-addr.arpa. 5 IN PTR kubernetes.default.svc.cluster.local.
	1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa PTR
		NOERROR
		1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa. 5 IN PTR kubernetes.default.svc.cluster.local.
	`)
}

func TestSpecificationHeadless(t *testing.T) {
	want(t, specified(), `
	headless.default.svc.cluster.local A
		NOERROR
		headless.default.svc.cluster.local. 5 IN A 10.3.0.100
		headless.default.svc.cluster.local. 5 IN A 10.3.0.101
		headless.default.svc.cluster.local. 5 IN A 10.3.0.102
	headless.default.svc.cluster.local AAAA
		NOERROR
		headless.default.svc.cluster.local. 5 IN AAAA 2001:db8::100
		headless.default.svc.cluster.local. 5 IN AAAA 2001:db8::102
	my-pet.headless.default.svc.cluster.local A
		NOERROR
		my-pet.headless.default.svc.cluster.local. 5 IN A 10.3.0.100
	my-pet.headless.default.svc.cluster.local AAAA
		NOERROR
		my-pet.headless.default.svc.cluster.local. 5 IN AAAA 2001:db8::100
	10-3-0-102.headless.default.svc.cluster.local A
		NOERROR
		10-3-0-102.headless.default.svc.cluster.local. 5 IN A 10.3.0.102
	2001-db8--102.headless.default.svc.cluster.local AAAA
		NOERROR
		2001-db8--102.headless.default.svc.cluster.local. 5 IN AAAA 2001:db8::102
	_https._tcp.headless.default.svc.cluster.local SRV
		NOERROR
		_https._tcp.headless.default.svc.cluster.local. 5 IN SRV 0 20 443 10-3-0-102.headless.default.svc.cluster.local.
		_https._tcp.headless.default.svc.cluster.local. 5 IN SRV 0 20 443 2001-db8--102.headless.default.svc.cluster.local.
		_https._tcp.headless.default.svc.cluster.local. 5 IN SRV 0 20 443 my-pet-2.headless.default.svc.cluster.local.
		_https._tcp.headless.default.svc.cluster.local. 5 IN SRV 0 20 443 my-pet.headless.default.svc.cluster.local.
		extra 10-3-0-102.headless.default.svc.cluster.local. 5 IN A 10.3.0.102
		extra 2001-db8--102.headless.default.svc.cluster.local. 5 IN AAAA 2001:db8::102
		extra my-pet-2.headless.default.svc.cluster.local. 5 IN A 10.3.0.101
		extra my-pet.headless.default.svc.cluster.local. 5 IN A 10.3.0.100
		extra my-pet.headless.default.svc.cluster.local. 5 IN AAAA 2001:db8::100
	100.0.3.10.in-addr.arpa PTR
		NOERROR
		100.0.3.10.in-addr.arpa. 5 IN PTR my-pet.headless.default.svc.cluster.local.
	`)
}

func TestSpecificationNames(t *testing.T) {
	want(t, specified(), `
	foo.default.svc.cluster.local A
		NOERROR
		foo.default.svc.cluster.local. 5 IN CNAME www.example.com.
		chase www.example.com.
	foo.default.svc.cluster.local CNAME
		NOERROR
		foo.default.svc.cluster.local. 5 IN CNAME www.example.com.
	10-3-0-7.default.pod.cluster.local A
		NOERROR
		10-3-0-7.default.pod.cluster.local. 5 IN A 10.3.0.7
	cluster.local NS
		NOERROR
		cluster.local. 5 IN NS ns.dns.cluster.local.
		extra ns.dns.cluster.local. 5 IN A 10.96.0.53
	cluster.local SOA
		NOERROR
		cluster.local. 5 IN SOA ns.dns.cluster.local. hostmaster.cluster.local. 1800000000 7200 1800 86400 5
	ns.dns.cluster.local A
		NOERROR
		ns.dns.cluster.local. 5 IN A 10.96.0.53
	`)
}
