package figures

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/lab"
)

// each is how many endpoints a Service has.
const each = 10

// vip returns the address of Service i.
func vip(i int) netip.Addr {
	n := i + 1
	return netip.AddrFrom4([4]byte{10, 96 + byte(n>>16), byte(n >> 8), byte(n)})
}

// endpoint returns endpoint e of Service i. Those of the first and the last
// Service are where a server listens; the others are nowhere.
func endpoint(i, e, services int) netip.AddrPort {
	if i == 0 || i == services-1 {
		return netip.AddrPortFrom(netip.MustParseAddr("10.244.1.11"), uint16(8080+e))
	}
	n := i*each + e
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, 2 + byte(n>>8)%250, byte(n)}), uint16(8080+n>>16))
}

// services returns the table of n Services, all of whose endpoints are on other
// nodes.
func services(n int) dataplane.Table {
	t := dataplane.Table{Node: dataplane.Node{PodRanges: lab.PodRanges()[:1], ServiceRanges: lab.ServiceRanges()[:1]}}
	for i := range n {
		name := fmt.Sprintf("default/s%05d:http", i)
		route := dataplane.Route{Verdict: dataplane.Forward, Set: name}
		outside := route
		outside.Masquerade = true
		t.Frontends = append(t.Frontends, dataplane.Frontend{
			Key: dataplane.Key{Addr: vip(i), Protocol: dataplane.TCP, Port: 80}, Service: name,
			Routes: [dataplane.Sources]dataplane.Route{route, outside, outside}})
		s := dataplane.EndpointSet{Name: name, Service: name, Protocol: dataplane.TCP}
		for e := range each {
			s.Endpoints = append(s.Endpoints, dataplane.Endpoint{Addr: endpoint(i, e, n), Weight: 1})
		}
		t.Sets = append(t.Sets, s)
	}
	t.Sort()
	return t
}

// only returns the part of the table that is Service i: one side of a delta.
func only(t dataplane.Table, i int) dataplane.Table {
	s := t.Sets[i]
	s.Endpoints = append([]dataplane.Endpoint(nil), s.Endpoints...)
	return dataplane.Table{Node: t.Node, Frontends: t.Frontends[i : i+1], Sets: []dataplane.EndpointSet{s}}
}

// peerIPTables is the same n Services in the shape that kube-proxy gives rules
// of iptables: one list of all Services, and a chain for each endpoint.
func peerIPTables(n int) string {
	var head, dispatch, body strings.Builder
	head.WriteString("*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-MARK-MASQ - [0:0]\n")
	body.WriteString("-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\n")
	for i := range n {
		svc := fmt.Sprintf("KUBE-SVC-%016d", i)
		fmt.Fprintf(&head, ":%s - [0:0]\n", svc)
		fmt.Fprintf(&dispatch, "-A KUBE-SERVICES -d %s/32 -p tcp -m tcp --dport 80 -j %s\n", vip(i), svc)
		fmt.Fprintf(&body, "-A %s ! -s 10.244.0.0/16 -d %s/32 -p tcp -m tcp --dport 80 -j KUBE-MARK-MASQ\n", svc, vip(i))
		for e := range each {
			sep, at := fmt.Sprintf("KUBE-SEP-%016d", i*each+e), endpoint(i, e, n)
			fmt.Fprintf(&head, ":%s - [0:0]\n", sep)
			if e < each-1 {
				fmt.Fprintf(&body, "-A %s -m statistic --mode random --probability %.10f -j %s\n", svc, 1/float64(each-e), sep)
			} else {
				fmt.Fprintf(&body, "-A %s -j %s\n", svc, sep)
			}
			fmt.Fprintf(&body, "-A %s -s %s/32 -j KUBE-MARK-MASQ\n-A %s -p tcp -m tcp -j DNAT --to-destination %s\n", sep, at.Addr(), sep, at)
		}
	}
	return head.String() + dispatch.String() + body.String() + "COMMIT\n"
}

// peerIPTablesChange is what kube-proxy writes when one endpoint of Service i
// changes: that Service's chains, and the list of all Services again.
func peerIPTablesChange(n, i, round int) string {
	var b strings.Builder
	svc, sep := fmt.Sprintf("KUBE-SVC-%016d", i), fmt.Sprintf("KUBE-SEP-%016d", i*each)
	fmt.Fprintf(&b, "*nat\n:KUBE-SERVICES - [0:0]\n:%s - [0:0]\n:%s - [0:0]\n", svc, sep)
	for j := range n {
		fmt.Fprintf(&b, "-A KUBE-SERVICES -d %s/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-%016d\n", vip(j), j)
	}
	for e := range each - 1 {
		fmt.Fprintf(&b, "-A %s -m statistic --mode random --probability %.10f -j KUBE-SEP-%016d\n", svc, 1/float64(each-e), i*each+e)
	}
	fmt.Fprintf(&b, "-A %s -j KUBE-SEP-%016d\n", svc, i*each+each-1)
	fmt.Fprintf(&b, "-A %s -p tcp -m tcp -j DNAT --to-destination 10.244.255.%d:80\nCOMMIT\n", sep, 1+round%200)
	return b.String()
}

// peerNFTables is the same in the shape that kube-proxy gives rules of nftables:
// a map of verdicts to a chain for each Service, which draws among chains of
// endpoints by a map of its own.
func peerNFTables(n int) string {
	var chains, elements strings.Builder
	for i := range n {
		svc := fmt.Sprintf("service-%05d", i)
		var draw []string
		for e := range each {
			ep := fmt.Sprintf("endpoint-%05d-%d", i, e)
			fmt.Fprintf(&chains, "\tchain %s {\n\t\tip saddr %s jump mark-for-masquerade\n\t\tmeta l4proto tcp dnat to %s\n\t}\n", ep, endpoint(i, e, n).Addr(), endpoint(i, e, n))
			draw = append(draw, fmt.Sprintf("%d : goto %s", e, ep))
		}
		fmt.Fprintf(&chains, "\tchain %s {\n\t\tip daddr %s tcp dport 80 ip saddr != 10.244.0.0/16 jump mark-for-masquerade\n\t\tnumgen random mod %d vmap { %s }\n\t}\n",
			svc, vip(i), each, strings.Join(draw, ", "))
		fmt.Fprintf(&elements, "%s . tcp . 80 : goto %s,\n", vip(i), svc)
	}
	return "table ip kube-proxy {\n\tchain mark-for-masquerade {\n\t\tmeta mark set meta mark or 0x4000\n\t}\n" + chains.String() +
		"\tmap service-ips {\n\t\ttype ipv4_addr . inet_proto . inet_service : verdict\n\t\telements = {\n" + elements.String() + "}\n\t}\n" +
		"\tchain services {\n\t\tip daddr . meta l4proto . th dport vmap @service-ips\n\t}\n" +
		"\tchain prerouting {\n\t\ttype nat hook prerouting priority dstnat; policy accept;\n\t\tjump services\n\t}\n}\n"
}

// peerNFTablesChange replaces one endpoint of Service i.
func peerNFTablesChange(i, round int) string {
	return fmt.Sprintf("flush chain ip kube-proxy endpoint-%05d-0\nadd rule ip kube-proxy endpoint-%05d-0 meta l4proto tcp dnat to 10.244.255.%d:80\n", i, i, 1+round%200)
}
