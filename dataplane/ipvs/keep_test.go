package ipvs_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/ipvs"
	"github.com/toyproxy/toyproxy/test/lab"
)

func contains(s, part string) bool { return strings.Contains(s, part) }

// both is a table with Services of both families.
func both(n *node) *builder {
	b := newTable()
	for f, vip := range vips() {
		b.add("default/web:http", vip, dataplane.TCP, 80, on(f, 8080, n.Pod(1), n.Pod(2))...)
		b.add("default/web:dns", vip, dataplane.UDP, 53, on(f, 5353, n.Pod(2))...)
		b.add("default/web:empty", vip, dataplane.TCP, 81)
	}
	return b
}

// Each kind of drift is found, named and repaired, and nothing else is done.
func TestDrift(t *testing.T) {
	n := newNode(t, ipvs.Config{}, lab.WithPods(2))
	table := both(n).Table
	n.sync(table)
	good := n.dump()
	for _, c := range []struct{ damage, want string }{
		{"ipvsadm -d -t 10.96.0.10:80 -r 10.244.0.12:8080",
			"+ real server 10.244.0.12:8080 of tcp 10.96.0.10:80 for default/web:http: real server 10.244.0.12:8080 missing"},
		{"ipvsadm -e -t 10.96.0.10:80 -r 10.244.0.12:8080 -m -w 5",
			"~ real server 10.244.0.12:8080 of tcp 10.96.0.10:80 for default/web:http: weight 5, want 1"},
		{"ipvsadm -a -t 10.96.0.10:80 -r 10.244.0.12 -i", "- real server 10.244.0.12:80 of tcp 10.96.0.10:80 for default/web:http: real server not wanted"},
		{"ipvsadm -a -t 10.96.0.10:80 -r 10.244.0.99:8080 -m",
			"- real server 10.244.0.99:8080 of tcp 10.96.0.10:80 for default/web:http: real server not wanted"},
		{"ipvsadm -E -t 10.96.0.10:80 -s lc", "~ virtual server tcp 10.96.0.10:80 for default/web:http: scheduler lc, want rr"},
		{"ipvsadm -E -t 10.96.0.10:80 -s rr -p 30", "~ virtual server tcp 10.96.0.10:80 for default/web:http: flags 0x1, want 0x0 (none)"},
		{"ipvsadm -D -u 10.96.0.10:53", "+ virtual server udp 10.96.0.10:53 for default/web:dns: virtual server missing\n" +
			"+ real server 10.244.0.12:5353 of udp 10.96.0.10:53 for default/web:dns: real server 10.244.0.12:5353 missing"},
		{"ipvsadm -A -t 10.96.0.10:99 -s rr", "- virtual server tcp 10.96.0.10:99: virtual server not wanted"},
		{"ip route del local 10.96.0.10 dev lo table local", "+ local route 10.96.0.10 for default/web: address 10.96.0.10 missing"},
		{"ip -6 route del local fd00:10:96::10 dev lo table local", "+ local route fd00:10:96::10 for default/web: address fd00:10:96::10 missing"},
		{"ip route replace local 10.96.0.10 dev lo table local proto 84 src 192.0.2.1",
			"~ local route 10.96.0.10 for default/web: source 192.0.2.1, want 10.244.0.1: local clients would send from a wrong address"},
		{"ip route add local 10.96.0.77 dev lo table local proto 84", "- local route 10.96.0.77: address not wanted"},
		{"ipset del TOY-VS-4 10.96.0.10,tcp:80", "+ ipset TOY-VS-4 entry 10.96.0.10,tcp:80 for default/web:http: entry missing"},
		{"ipset add TOY-VIP-6 fd00:10:96::77", "- ipset TOY-VIP-6 entry fd00:10:96::77: entry not wanted"},
		{"ipset flush TOY-HAIRPIN-6", "+ ipset TOY-HAIRPIN-6 entry fd00:10:244::11,tcp:8080,fd00:10:244::11 for default/web:http: entry missing\n" +
			"+ ipset TOY-HAIRPIN-6 entry fd00:10:244::12,tcp:8080,fd00:10:244::12 for default/web:http: entry missing\n" +
			"+ ipset TOY-HAIRPIN-6 entry fd00:10:244::12,udp:5353,fd00:10:244::12 for default/web:dns: entry missing"},
		{"sysctl -qw net.ipv4.vs.conntrack=0",
			"~ sysctl net.ipv4.vs.conntrack: is 0, want 1: rules and masquerading see flows only if they are tracked"},
		{n.iptables + " -t nat -F TOY-SERVICES", "~ " + n.iptables + " nat chain TOY-SERVICES: rule"},
		{n.ip6tables + " -t filter -D INPUT 2", "+ " + n.ip6tables + " filter jumps in INPUT: jump to TOY-FILTER missing in INPUT"},
	} {
		n.Node.Run(strings.Fields(c.damage)...)
		if got := strings.TrimSuffix(text(n.sync(table)), "\n"); !strings.HasPrefix(got, c.want) || strings.Count(got, "\n") != strings.Count(c.want, "\n") {
			t.Errorf("after %s the changes are\n%s\nwant\n%s", c.damage, got, c.want)
		}
	}
	if diff := cmp.Diff(good, n.dump()); diff != "" {
		t.Errorf("after all repairs (-before +after):\n%s", diff)
	}
}

// A node with IPv6 switched off, as in many containers, is served in IPv4; when
// that happens later, what is there of IPv6 goes.
func TestIPv6Off(t *testing.T) {
	n := newNode(t, ipvs.Config{}, lab.WithPods(2))
	table := both(n).Table
	n.Pod(1).Serve(dataplane.TCP, 8080)
	n.Pod(2).Serve(dataplane.TCP, 8080)
	n.sync(table)
	n.Node.Sysctl("net.ipv6.conf.lo.disable_ipv6", "1")
	n.sync(table)
	if got := lab.Probe(n.Pod(1), dataplane.TCP, addrPort("10.96.0.10:80"), lab.Options{}); got.Fate != lab.OK {
		t.Errorf("IPv4: %s", got)
	}
	if got := n.Node.Run("ipvsadm", "-Sn") + n.Node.Run("ipset", "list", "-n"); contains(got, "fd00") || contains(got, "-6\n") {
		t.Errorf("IPv6 is left:\n%s", got)
	}
}

// What somebody else put there survives us and our removal.
func TestForeign(t *testing.T) {
	n := newNode(t, ipvs.Config{}, lab.WithPods(2))
	for _, c := range []string{
		"ipvsadm -A -t 192.0.2.1:9000 -s wlc", "ipvsadm -a -t 192.0.2.1:9000 -r 10.244.0.12:9000 -m -w 7",
		"ipvsadm -A -f 7 -s rr", "ipvsadm -A -t 198.51.100.7:80 -s sh", "ipvsadm -A -t 10.96.0.99:80 -s lc",
		"ipset create OTHER hash:ip", "ipset add OTHER 10.96.0.10", "ip route add local 198.51.100.9 dev lo table local proto 99",
		n.iptables + " -A INPUT -s 198.51.100.1 -j DROP", "sysctl -qw net.ipv4.vs.expire_nodest_conn=1",
		// Bring every table into being, so that dumps can be compared.
		n.ip6tables + " -t nat -L -n", n.ip6tables + " -t filter -L -n", n.iptables + " -t nat -L -n",
	} {
		n.Node.Run(strings.Fields(c)...)
	}
	before := n.dump()
	b := both(n)
	b.add("default/theirs", "198.51.100.7", dataplane.TCP, 80, on(dataplane.IPv4, 8080, n.Pod(1))...)
	b.add("default/theirs-too", "10.96.0.99", dataplane.TCP, 80, on(dataplane.IPv4, 8080, n.Pod(1))...)
	for _, pod := range n.Pods {
		pod.Serve(dataplane.TCP, 8080)
	}
	p := n.plan(b.Table)
	err := n.tryApply(p)
	if err == nil || !contains(err.Error(), "default/theirs-too") || !contains(err.Error(), "ipvsadm -D -t 198.51.100.7:80") || !contains(err.Error(), "default/theirs") {
		t.Errorf("a virtual server of somebody else in the way: %v", err)
	}
	if got := lab.Probe(n.Outside, dataplane.TCP, addrPort("10.96.0.10:80"), lab.Options{}); got.Fate != lab.OK {
		t.Errorf("the other Services: %s", got)
	}
	save := n.Node.Run("ipvsadm", "-Sn")
	for _, l := range []string{"-A -t 192.0.2.1:9000 -s wlc\n", "-a -t 192.0.2.1:9000 -r 10.244.0.12:9000 -m -w 7\n", "-A -f 7 -s rr\n", "-A -t 198.51.100.7:80 -s sh\n", "-A -t 10.96.0.99:80 -s lc\n"} {
		if !contains(save, l) {
			t.Errorf("%q is gone:\n%s", l, save)
		}
	}
	n.remove()
	if diff := cmp.Diff(before, n.dump()); diff != "" {
		t.Errorf("after removal (-before +after):\n%s", diff)
	}
}

// A pass that is cut short anywhere is finished, or undone, by the next.
func TestCutShort(t *testing.T) {
	n := newNode(t, ipvs.Config{}, lab.WithPods(2))
	n.sync(both(n).Table)
	n.remove()
	clean := n.dump()
	b := both(n).Table
	for stop := 0; ; stop += 7 {
		done := n.applyUntil(n.plan(b), stop)
		if stop%2 == 0 {
			n.sync(b)
		}
		n.remove()
		if diff := cmp.Diff(clean, n.dump()); diff != "" {
			t.Fatalf("cut short after %d looks at the context, then removed (-clean +now):\n%s", stop, diff)
		}
		if done {
			break
		}
	}
}

// applyUntil applies with a context that ends after so many looks at it, and
// reports whether the plan was done by then.
func (n *node) applyUntil(p dataplane.Plan, looks int) bool {
	n.t.Helper()
	ctx := &fading{Context: context.Background(), left: looks}
	var err error
	n.Node.Do(func() { err = p.Apply(ctx) })
	return err == nil
}

// fading is a context that ends after some calls of Err.
type fading struct {
	context.Context
	left int
}

func (f *fading) Err() error {
	if f.left--; f.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestFlushedSets proves that a virtual server whose mark of ownership somebody
// has taken away is known again by being what is wanted.
func TestFlushedSets(t *testing.T) {
	n := newNode(t, ipvs.Config{}, lab.WithPods(2))
	clean := n.dump()
	b := both(n)
	b.add("default/outer", "198.51.100.7", dataplane.TCP, 80, on(dataplane.IPv4, 8080, n.Pod(1))...)
	n.sync(b.Table)
	before := n.dump()
	n.Node.Run("ipset", "flush")
	n.sync(b.Table)
	if diff := cmp.Diff(before, n.dump()); diff != "" {
		t.Errorf("after the repair (-before +after):\n%s", diff)
	}
	n.remove()
	if diff := cmp.Diff(clean, n.dump()); diff != "" {
		t.Errorf("after removal (-before +after):\n%s", diff)
	}
}
