package ipvs_test

import (
	"strings"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/ipvs"
	"github.com/toyproxy/toyproxy/test/lab"
)

// neighbour reports whether the host outside gets an answer when it asks on its
// link for the hardware address of another. Only IPv4 asks by ARP.
func neighbour(h *lab.Host, addr string) bool {
	const link = "lan0"
	h.Run("ip", "neigh", "flush", "dev", link)
	h.Run("ip", "route", "replace", addr, "dev", link)
	defer h.Run("ip", "route", "del", addr, "dev", link)
	lab.Probe(h, dataplane.UDP, addrPort(addr+":9"), lab.Options{Timeout: 300 * time.Millisecond})
	return contains(h.Run("ip", "neigh", "show", addr), "lladdr")
}

// With StrictARP neighbours do not learn that the node takes packets to ClusterIPs;
// of external addresses they never do. Without it, and after removal, the kernel is
// as before.
func TestStrictARP(t *testing.T) {
	n := newNode(t, ipvs.Config{}, lab.WithPods(2))
	dir := t.TempDir()
	b := newTable().add("default/web", "10.96.0.10", dataplane.TCP, 80, on(dataplane.IPv4, 8080, n.Pod(2))...).
		add("default/web", "203.0.113.7", dataplane.TCP, 80, on(dataplane.IPv4, 8080, n.Pod(2))...)
	arp := func() string {
		return strings.TrimSpace(n.Node.Run("sysctl", "-n", "net.ipv4.conf.all.arp_ignore", "net.ipv4.conf.all.arp_announce"))
	}
	for _, c := range []struct {
		strict   bool
		sysctls  string
		external bool
	}{{false, "0\n0", false}, {true, "1\n2", false}, {false, "0\n0", false}, {true, "1\n2", false}} {
		n.backend = ipvs.New(ipvs.Config{StateDir: dir, StrictARP: c.strict})
		n.sync(b.Table)
		if got := arp(); got != c.sysctls {
			t.Errorf("strict %v: %q", c.strict, got)
		}
		if got := neighbour(n.Outside, "10.96.0.10"); got == c.strict {
			t.Errorf("strict %v: a neighbour that asks for a ClusterIP gets an answer: %v", c.strict, got)
		}
		if neighbour(n.Outside, "203.0.113.7") {
			t.Errorf("strict %v: a neighbour that asks for an external address gets an answer", c.strict)
		}
	}
	n.remove()
	if got := arp(); got != "0\n0" {
		t.Errorf("after removal: %q", got)
	}
}

// Timeouts are set when somebody asks for them, and put back.
func TestTimeouts(t *testing.T) {
	n := newNode(t, ipvs.Config{}, lab.WithPods(0))
	dir := t.TempDir()
	held := func() string { return strings.TrimSpace(n.Node.Run("ipvsadm", "-L", "--timeout")) }
	before := held()
	for _, c := range []struct {
		timeouts ipvs.Timeouts
		want     string
	}{
		{ipvs.Timeouts{}, before},
		{ipvs.Timeouts{TCP: time.Hour, UDP: 30 * time.Second}, "Timeout (tcp tcpfin udp): 3600 120 30"},
		{ipvs.Timeouts{TCP: 2 * time.Hour}, "Timeout (tcp tcpfin udp): 7200 120 300"},
		{ipvs.Timeouts{}, before},
		{ipvs.Timeouts{TCPFin: time.Minute}, "Timeout (tcp tcpfin udp): 900 60 300"},
	} {
		n.backend = ipvs.New(ipvs.Config{StateDir: dir, Timeouts: c.timeouts})
		n.sync(newTable().Table)
		if got := held(); got != c.want {
			t.Errorf("%+v: %s, want %s", c.timeouts, got, c.want)
		}
	}
	n.remove()
	if got := held(); got != before {
		t.Errorf("after removal %s, before %s", got, before)
	}
}
