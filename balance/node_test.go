package balance_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/toyproxy/toyproxy/balance"
	"github.com/toyproxy/toyproxy/dataplane"
)

func addrsOf(texts ...string) []netip.Addr {
	var out []netip.Addr
	for _, text := range texts {
		out = append(out, netip.MustParseAddr(text))
	}
	return out
}

// The rows of scenarios D, and the words of the list.
func TestNodePortAddrs(t *testing.T) {
	own := addrsOf("192.168.99.2", "192.168.0.2", "127.0.0.1", "::1", "2001:db8::1", "2001:db8:99::1", "fe80::1%eth0", "192.168.0.2")
	primary := addrsOf("192.168.0.2", "2001:db8::1")
	const four, six = "192.168.0.2 192.168.99.2 ", "2001:db8::1 2001:db8:99::1 fe80::1"
	for _, tc := range []struct {
		id, list, want string
	}{
		{"D: none", "", four + six},
		{"D: N1's range and loopback", "192.168.0.0/24 127.0.0.1/32", "127.0.0.1 192.168.0.2 " + six},
		{"D: both ranges and one of IPv6", "192.168.0.0/24 192.168.99.0/24 2001:db8::/64", four + "2001:db8::1"},
		{"D: IPv6, N1's only", "192.168.0.0/24 192.168.99.0/24 2001:db8::/64", four + "2001:db8::1"},
		{"D: primary", "primary", "192.168.0.2 2001:db8::1"},
		{"D: IPv6, the second as one address", "192.168.0.0/24 2001:db8::/64 2001:db8:99::1/128", "192.168.0.2 2001:db8::1 2001:db8:99::1"},
		{"localhost", "localhost", "127.0.0.1 ::1"},
		{"all", "all", four + six},
		{"all and localhost", "all localhost", "127.0.0.1 " + four + "::1 " + six},
		{"B11: the zero range overrides", "192.168.0.0/24 0.0.0.0/0", four + six},
		{"B11: a family without a range is all", "192.168.99.2/32", "192.168.99.2 " + six},
		{"host bits", "192.168.0.77/24", "192.168.0.2 " + six},
		{"matches nothing", "203.0.113.0/24 2001:db8:7::/64", ""},
	} {
		t.Run(tc.id, func(t *testing.T) {
			got, err := balance.NodePortAddrs(strings.Fields(tc.list), own, primary)
			if text := strings.Trim(fmt.Sprint(got), "[]"); err != nil || text != tc.want {
				t.Errorf("got %s (%v), want %s", text, err, tc.want)
			}
		})
	}
	for _, bad := range []string{"192.168.0.2", "Primary", "", "::ffff:10.0.0.0/104"} {
		if _, err := balance.NodePortAddrs([]string{bad}, own, primary); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// A load balancer's address on a link of the node is not the node's (B21), unless
// the node is known by it.
func TestWithoutBalancers(t *testing.T) {
	svc := openService()
	svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.9"}, {IP: "192.0.2.1"}, {Hostname: "lb.example.com"}}
	own := addrsOf("192.0.2.1", "192.0.2.9", "10.244.0.1")
	got := balance.WithoutBalancers(own, addrsOf("192.0.2.1"), []*corev1.Service{svc})
	equal(t, "addresses", got, addrsOf("192.0.2.1", "10.244.0.1"))
}

// Node ports on the addresses that there are (scenarios D); the exact address of
// another frontend goes before.
func TestScenariosD(t *testing.T) {
	table, problems := build(openNode(), pods("a", "b@n1"), openService())
	equal(t, "problems", texts(problems), nil)
	checkFlows(t, table, "P CIP:80 = {a:80,b:80} -m", "E N1:30080 = {a:80,b:80} +m", "N1 N1:30080 = {a:80,b:80} +m", "E N2:30080 = {a:80,b:80} +m")
	n := openNode()
	n.Addrs = addrsOf(places["N1"])
	table, _ = build(n, pods("a", "b@n1"), openService())
	checkFlows(t, table, "E N1:30080 = {a:80,b:80} +m", "E N2:30080 = NONE")
}

// D3, D6 to D9: who counts as a Pod, and whose source is rewritten.
func TestDetection(t *testing.T) {
	clusterRange, nodeRange := []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}, []netip.Prefix{netip.MustParsePrefix("10.244.7.0/24")}
	eps := pods("a@n1", "b@n2")

	for _, tc := range []struct {
		id         string
		detect     balance.Detection
		all        bool
		interfaces string
		want       [2]string
	}{
		{"D6: cluster", balance.Detection{ClusterRanges: clusterRange, NodeRanges: nodeRange}, false, "",
			[2]string{"forward,forward+m", "forward,forward+m,forward"}},
		{"D7: node", balance.Detection{Mode: balance.NodeCIDR, NodeRanges: nodeRange}, false, "",
			[2]string{"forward,forward+m", "forward,forward+m,forward"}},
		{"D8: bridge", balance.Detection{Mode: balance.BridgeInterface, Interface: "toybr0"}, false, "toybr0",
			[2]string{"forward,forward+m", "forward,forward+m,forward"}},
		{"D8: prefix", balance.Detection{Mode: balance.InterfaceNamePrefix, Interface: "cali"}, false, "cali+",
			[2]string{"forward,forward+m", "forward,forward+m,forward"}},
		{"D9: nothing to tell by", balance.Detection{}, false, "", [2]string{"forward", "forward,forward+m,forward"}},
		{"D3: all are masqueraded", balance.Detection{ClusterRanges: clusterRange}, true, "",
			[2]string{"forward+m", "forward,forward+m,forward"}},
		{"D3 and D9", balance.Detection{}, true, "", [2]string{"forward+m", "forward,forward+m,forward"}},
	} {
		t.Run(tc.id, func(t *testing.T) {
			n := openNode()
			n.MasqueradeAll = tc.all
			if err := tc.detect.Apply(&n); err != nil {
				t.Fatal(err)
			}
			table, _ := build(n, eps, openService(external))
			equal(t, "interfaces", []string{strings.Join(table.Node.PodInterfaces, " ")}, []string{tc.interfaces})
			for i, addr := range []string{"CIP", "LB1"} {
				fe, _ := table.Frontend(dataplane.Key{Addr: place(addr), Protocol: dataplane.TCP, Port: 80})
				var fates []string
				for _, r := range fe.Routes {
					fates = append(fates, fate(r))
				}
				if got := compact(fates); got != tc.want[i] {
					t.Errorf("%s: %s, want %s", addr, got, tc.want[i])
				}
			}
			// D9: without a detector Pods get what clients outside get.
			lb, _ := table.Frontend(dataplane.Key{Addr: place("LB1"), Protocol: dataplane.TCP, Port: 80})
			tells := len(n.PodRanges)+len(n.PodInterfaces) > 0
			if same := lb.Routes[dataplane.FromPod] == lb.Routes[dataplane.FromOutside]; same == tells {
				t.Errorf("Pods are treated as clients outside: %t", same)
			}
		})
	}
	for _, bad := range []balance.Detection{{Mode: "Nonsense"}, {Mode: balance.BridgeInterface}, {Mode: balance.InterfaceNamePrefix, Interface: "a b"},
		{Mode: balance.BridgeInterface, Interface: "-j"}, {Mode: balance.BridgeInterface, Interface: "sixteen-letters-"}} {
		if err := bad.Apply(&balance.Node{}); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

// compact joins neighbours that are equal.
func compact(in []string) string {
	out := in[:1]
	for _, s := range in[1:] {
		if s != out[len(out)-1] {
			out = append(out, s)
		}
	}
	return strings.Join(out, ",")
}

func TestNodeObject(t *testing.T) {
	nodes := []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n0"}}, {
		ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{corev1.LabelTopologyZone: "z1"}},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeHostName, Address: "n1"}, {Type: corev1.NodeExternalIP, Address: "198.51.100.1"}, {Type: corev1.NodeExternalIP, Address: "2001:db8::1"},
			{Type: corev1.NodeInternalIP, Address: "192.168.0.2"}, {Type: corev1.NodeInternalIP, Address: "192.168.0.3"}}},
	}}
	equal(t, "primary", balance.PrimaryAddrs(nodes, "n1"), addrsOf("192.168.0.2", "2001:db8::1"))
	equal(t, "none", balance.PrimaryAddrs(nodes, "other"), nil)
	equal(t, "all", balance.AddrsOf(nodes, "n1"), addrsOf("198.51.100.1", "2001:db8::1", "192.168.0.2", "192.168.0.3"))
	equal(t, "none of all", balance.AddrsOf(nodes, "n0"), nil)
	equal(t, "zones", []string{balance.ZoneOf(nodes, "n1"), balance.ZoneOf(nodes, "n0"), balance.ZoneOf(nodes, "")}, []string{"z1", "", ""})
}
