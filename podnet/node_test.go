package podnet

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPodsReachEachOther(t *testing.T) {
	n := newNode(t)
	nets := create(t, n, requests("a", "b")...)
	serve(t, n, "b", 8080)
	for i, want := range []string{"10.244.0.3", "fd00:10:244::3"} {
		to := netip.AddrPortFrom(nets[1].Addrs[i], 8080)
		if to.Addr().String() != want {
			t.Errorf("b has %s, want %s", to.Addr(), want)
		}
		if got, err := dialFrom(n, "a", to); err != nil || got != nets[0].Addrs[i].String() {
			t.Errorf("a to %s: saw %q, %v", to, got, err)
		}
		if got, err := dialFrom(n, "b", to); err != nil || got != nets[1].Addrs[i].String() {
			t.Errorf("b to itself: saw %q, %v", got, err)
		}
		if got, err := dial(to); err != nil || got != gateway(podRanges[i]).String() {
			t.Errorf("node to %s: saw %q, %v", to, got, err)
		}
	}
	if got := sh(t, "bridge -d link show dev %s", nets[0].HostLink); !strings.Contains(got, "hairpin on") {
		t.Errorf("the port is not in hairpin mode:\n%s", got)
	}
}

// Fault 35: a Service whose endpoint is a Pod on the client's own bridge, and
// fault 14: the client's own Pod. Both sysctls of br_netfilter.
func TestServiceOnOneBridge(t *testing.T) {
	for _, call := range []string{"0", "1"} {
		t.Run("bridge-nf-call-iptables "+call, func(t *testing.T) {
			n := newNode(t)
			nets := create(t, n, requests("a", "b")...)
			serve(t, n, "b", 8080)
			sh(t, "for f in /proc/sys/net/bridge/bridge-nf-call-ip*tables; do test ! -e $f || echo %s > $f; done", call)
			for _, r := range []struct{ tool, vip, to, pods string }{
				{"iptables", "10.96.0.10", nets[1].Addrs[0].String(), "10.244.0.0/24"},
				{"ip6tables", "fd00:10:96::10", "[" + nets[1].Addrs[1].String() + "]", "fd00:10:244::/64"},
			} {
				for _, chain := range []string{"PREROUTING", "OUTPUT"} {
					sh(t, "%s -t nat -A %s -d %s -p tcp --dport 80 -j DNAT --to-destination %s:8080", r.tool, chain, r.vip, r.to)
				}
				to := strings.Trim(r.to, "[]")
				sh(t, "%s -t nat -A POSTROUTING -s %s -d %s -j MASQUERADE", r.tool, to, to)
				vip := netip.AddrPortFrom(netip.MustParseAddr(r.vip), 80)
				for _, from := range []string{"a", "b"} {
					if got, err := dialFrom(n, from, vip); err != nil || got == "" {
						t.Errorf("%s to %s: %q, %v", from, vip, got, err)
					}
				}
				if got, err := dial(vip); err != nil || got == "" {
					t.Errorf("node to %s: %q, %v", vip, got, err)
				}
			}
		})
	}
}

// The whole machine's paths, as `ip netns` knows no others.
func TestIPNetnsExec(t *testing.T) {
	n := newNode(t)
	cfg := n.cfg
	cfg.NetnsDir, cfg.EtcNetnsDir = "", ""
	n = node(t, cfg)
	r := requests("pod-a")[0]
	r.DNS = DNS{Servers: []netip.Addr{netip.MustParseAddr("10.96.0.53")}, Search: []string{"default.svc.cluster.local"}, Options: []string{"ndots:5"}}
	net := create(t, n, r)[0]
	if got := sh(t, "ip netns list"); !strings.Contains(got, "pod-a") {
		t.Errorf("ip netns list: %q", got)
	}
	got := sh(t, "ip netns exec pod-a sh -c 'cat /etc/resolv.conf /etc/hosts; ip addr show eth0'")
	for _, want := range []string{"nameserver 10.96.0.53", "search default.svc.cluster.local", "options ndots:5", net.Addrs[1].String() + "\tpod-a", "inet " + net.Addrs[0].String() + "/32"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
	r.DNS = DNS{}
	create(t, n, r)
	if _, err := os.Stat("/etc/netns/pod-a/resolv.conf"); err == nil {
		t.Error("resolv.conf stayed after the DNS server went")
	}
	removeAll(n)
	if _, err := os.Stat("/etc/netns"); err == nil {
		t.Error("/etc/netns stayed, which did not exist before")
	}
}

func TestRemoveLeavesTheNodeAsItWas(t *testing.T) {
	n := newNode(t)
	sh(t, "ip link set lo up; ip link add up0 type veth peer up1; ip addr add 192.0.2.1/24 dev up0; ip link set up0 up; ip link set up1 up")
	sh(t, "echo 0 > /proc/sys/net/ipv4/ip_forward; echo 0 > /proc/sys/net/ipv4/conf/all/accept_redirects")
	poll(t, "IPv6 link-local addresses", func() bool {
		addrs := sh(t, "ip -6 addr show scope link")
		return strings.Count(addrs, "fe80:") == 2 && !strings.Contains(addrs, "tentative")
	})
	before := dumps(t, n)
	create(t, n, requests("a", "b")...)
	if now := dumps(t, n); now == before {
		t.Fatal("the dumps see nothing of the Pods")
	}
	removeAll(n)
	if after := dumps(t, n); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	p, err := n.Remove(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	noChanges(t, p)
}

func TestPlanWritesNothing(t *testing.T) {
	n := newNode(t)
	before := dumps(t, n)
	p, err := n.Create(t.Context(), requests("a"))
	if err != nil || len(p.Changes()) == 0 {
		t.Fatalf("plan: %v, %v", p, err)
	}
	if after := dumps(t, n); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}

func TestNoRequestsMakeNoBridge(t *testing.T) {
	n := newNode(t)
	p, err := n.Create(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	noChanges(t, p)
}

// A node without Pods forwards by wish, to endpoints elsewhere, and is left as it was.
func TestForwardWithoutPods(t *testing.T) {
	cfg := newNode(t).cfg
	cfg.Forward = true
	n := node(t, cfg)
	sh(t, "echo 0 > /proc/sys/net/ipv4/ip_forward; echo 0 > /proc/sys/net/ipv4/conf/all/accept_redirects")
	before := dumps(t, n)
	create(t, n)
	if got := sh(t, "cat /proc/sys/net/ipv4/ip_forward; ip -o link show type bridge"); strings.TrimSpace(got) != "1" {
		t.Errorf("ip_forward and bridges: %q, want 1 and none", got)
	}
	removeAll(n)
	if after := dumps(t, n); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}

func TestServiceRangeStaysOnTheNode(t *testing.T) {
	n := newNode(t)
	sh(t, "ip link set lo up; ip link add up0 type veth peer up1; ip addr add 192.0.2.1/24 dev up0; ip link set up0 up; ip route add default via 192.0.2.10")
	create(t, n, requests("a")...)
	for _, vip := range []string{"10.96.0.10", "fd00:10:96::10"} {
		if got := sh(t, "ip route get %s", vip); !strings.Contains(got, "dev "+DefaultBridge) {
			t.Errorf("%s leaves the node: %s", vip, got)
		}
	}
}

func TestForeignObjectsAreNamedAndLeft(t *testing.T) {
	for _, tc := range []struct{ name, make, want, still string }{
		{"bridge", "ip link add toybr0 type bridge", "link toybr0 (bridge) exists and was not made by toyproxy", "ip link show toybr0"},
		{"address", "ip link add x type bridge; ip addr add 10.244.0.77/32 dev x", "x has the address 10.244.0.77/32", "ip link show x"},
		{"namespace", "ip netns add pod-a", "/run/netns/pod-a exists and was not made by toyproxy", "ip netns exec pod-a true"},
		{"plain file", "mkdir -p /run/netns; touch /run/netns/pod-a", "remove it with `rm /run/netns/pod-a`", "test -f /run/netns/pod-a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := newNode(t).cfg
			cfg.NetnsDir = ""
			n := node(t, cfg)
			sh(t, "%s", tc.make)
			t.Cleanup(func() { sh(t, "ip netns del pod-a 2>/dev/null || rm -f /run/netns/pod-a") })
			p, err := n.Create(t.Context(), requests("pod-a"))
			got := ""
			if err != nil {
				got = err.Error()
			} else if len(p.Failures) > 0 {
				got = p.Failures[0].Err.Error()
			}
			if !strings.Contains(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if err == nil {
				if err := p.Apply(t.Context()); err != nil {
					t.Error(err)
				}
			}
			removeAll(n)
			sh(t, "%s", tc.still)
		})
	}
}

func TestForeignEtcFileIsLeft(t *testing.T) {
	n := newNode(t)
	path := n.etcPath("a", "hosts")
	if err := replaceFile(path, "127.0.0.1 mine\n"); err != nil {
		t.Fatal(err)
	}
	p, err := n.Create(t.Context(), requests("a"))
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Notes) != 1 || !strings.Contains(p.Notes[0], path) {
		t.Errorf("notes: %q", p.Notes)
	}
	if err := p.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	removeAll(n)
	if b, err := os.ReadFile(path); err != nil || string(b) != "127.0.0.1 mine\n" {
		t.Errorf("%s: %q, %v", path, b, err)
	}
	os.RemoveAll(filepath.Dir(path))
}

// Faults 85 and 88: a pool of one address.
func TestExhaustedRange(t *testing.T) {
	n := newNode(t, "10.244.0.0/30")
	p, err := n.Create(context.Background(), requests("a", "b"))
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Failures) != 1 || p.Failures[0].Name != "b" || !strings.Contains(p.Failures[0].Err.Error(), "exhausted") {
		t.Fatalf("failures: %v", p.Failures)
	}
	if err := p.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	if nets, err := n.Networks(); err != nil || len(nets) != 1 {
		t.Errorf("networks: %v, %v", nets, err)
	}
	if got := sh(t, "ip -o link show type veth | wc -l; ls %s", n.cfg.NetnsDir); got != "1\na\n" {
		t.Errorf("left behind: %q", got)
	}
	remove(t, n, "a")
	create(t, n, requests("b")...)
}

func TestAddressIsNotReusedAtOnce(t *testing.T) {
	n := newNode(t)
	first := create(t, n, requests("a")...)[0].Addrs[0]
	remove(t, n, "a")
	renewed := requests("a")
	renewed[0].DNS = DNS{Servers: []netip.Addr{netip.MustParseAddr("10.96.0.53")}} // whose file goes and comes too
	second := create(t, n, renewed...)[0].Addrs[0]
	renewed[0].Renew = true
	third := create(t, n, renewed...)[0].Addrs[0]
	if first == second || second == third || first == third {
		t.Errorf("got %s, %s, %s", first, second, third)
	}
}
