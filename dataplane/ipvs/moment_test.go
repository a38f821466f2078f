package ipvs_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/ipvs"
	"github.com/toyproxy/toyproxy/test/lab"
)

// Wherever a pass is cut short: a Service that was there before and is there
// after answers, and no daemon of the node ever does in its place.
func TestNoGap(t *testing.T) {
	n := newNode(t, ipvs.Config{}, lab.WithPods(3))
	n.Node.Serve(dataplane.TCP, 22)
	n.Pod(1).Serve(dataplane.TCP, 8080)
	n.Pod(2).Serve(dataplane.TCP, 9090)
	before := newTable().add("default/web", "10.96.0.10", dataplane.TCP, 80, on(dataplane.IPv4, 8080, n.Pod(1))...)
	before.add("default/old", "10.96.0.11", dataplane.TCP, 22, on(dataplane.IPv4, 8080, n.Pod(1))...)
	// Another endpoint, another target port; a port more, an address more, one less.
	after := newTable().add("default/web", "10.96.0.10", dataplane.TCP, 80, on(dataplane.IPv4, 9090, n.Pod(2))...)
	after.add("default/web:ssh", "10.96.0.10", dataplane.TCP, 22, on(dataplane.IPv4, 9090, n.Pod(2))...)
	after.add("default/new", "10.96.0.12", dataplane.TCP, 22, on(dataplane.IPv4, 9090, n.Pod(2))...)
	for cut, done := 0, false; !done; cut++ {
		n.apply(n.plan(before.Table))
		done = n.applyUntil(n.plan(after.Table), cut)
		if got := lab.Probe(n.Pod(3), dataplane.TCP, addrPort("10.96.0.10:80"), lab.Options{}); got.Fate != lab.OK {
			t.Errorf("cut %d: the Service: %s", cut, got)
		}
		for _, to := range []string{"10.96.0.10:22", "10.96.0.11:22", "10.96.0.12:22"} {
			if got := lab.Probe(n.Pod(3), dataplane.TCP, addrPort(to), lab.Options{Timeout: 100 * time.Millisecond}); got.Endpoint == "N" {
				t.Errorf("cut %d: %s reaches a daemon of the node", cut, to)
			}
		}
	}
}

// A set that is full makes room, while rules use it, and keeps its entries.
func TestFullSet(t *testing.T) {
	n := newNode(t, ipvs.Config{}, lab.WithPods(2))
	n.Pod(2).Serve(dataplane.TCP, 8080)
	n.Node.Run("ipset", "create", "TOY-VS-4", "hash:ip,port", "maxelem", "2")
	n.Node.Run("ipset", "create", "TOY-VS-4-NEXT", "hash:ip,port") // of a pass that was killed
	b := newTable()
	for i := range 80 {
		b.add(fmt.Sprintf("default/web-%d", i), "10.96.0.10", dataplane.TCP, uint16(1000+i), on(dataplane.IPv4, 8080, n.Pod(2))...)
		if i == 1 {
			n.sync(b.Table)
		}
	}
	changes := text(n.sync(b.Table))
	if want := "~ ipset TOY-VS-4: room for 2 entries, 80 are needed\n"; !strings.HasPrefix(changes, want) {
		t.Errorf("changes begin %q", changes[:min(len(changes), 200)])
	}
	for _, port := range []uint16{1000, 1079} {
		if got := lab.Probe(n.Pod(1), dataplane.TCP, addrPort(fmt.Sprintf("10.96.0.10:%d", port)), lab.Options{}); got.Fate != lab.OK {
			t.Errorf("port %d: %s", port, got)
		}
	}
	if got := n.Node.Run("ipset", "list", "-n"); strings.Contains(got, "NEXT") {
		t.Errorf("sets left: %s", got)
	}
}

// A host that forwards nothing by policy, as Docker leaves it, serves.
func TestForwardPolicyDrop(t *testing.T) {
	n := newNode(t, ipvs.Config{}, lab.WithPods(2))
	n.Pod(2).Serve(dataplane.TCP, 8080)
	b := newTable()
	for f, vip := range vips() {
		b.add("default/web", vip, dataplane.TCP, 80, on(f, 8080, n.Pod(2))...)
	}
	n.sync(b.Table)
	n.Node.Run(n.iptables, "-P", "FORWARD", "DROP")
	n.Node.Run(n.ip6tables, "-P", "FORWARD", "DROP")
	for f, vip := range vips() {
		clients := []*lab.Host{n.Pod(2), n.Node, n.Outside}
		if f == dataplane.IPv4 {
			// With br_netfilter the policy drops neighbour discovery between Pods of
			// one bridge, which is for whoever connects the Pods to mend.
			clients = append(clients, n.Pod(1))
		}
		for _, from := range clients {
			if got := lab.Probe(from, dataplane.TCP, netip.AddrPortFrom(netip.MustParseAddr(vip), 80), lab.Options{}); got.Fate != lab.OK {
				t.Errorf("%s, from %s: %s", f, from.Name, got)
			}
		}
	}
}

// On such a host Pods reach each other directly too, both ways, and nobody else
// gets in by that.
func TestForwardPods(t *testing.T) {
	n := newNode(t, ipvs.Config{}, lab.WithPods(1), lab.SecondNode())
	n.Pod(1).Serve(dataplane.TCP, 8080)
	n.Remote.Serve(dataplane.TCP, 8080)
	n.Node.Run(n.iptables, "-P", "FORWARD", "DROP")
	n.Node.Run(n.ip6tables, "-P", "FORWARD", "DROP")
	try := func(from, to *lab.Host, want lab.Fate) {
		t.Helper()
		for f := range vips() {
			at := netip.AddrPortFrom(to.Addr(f), 8080)
			if got := lab.Probe(from, dataplane.TCP, at, lab.Options{Timeout: 300 * time.Millisecond}); got.Fate != want {
				t.Errorf("%s, from %s to %s: %s, want %s", f, from.Name, to.Name, got, want)
			}
		}
	}
	try(n.Pod(1), n.Remote, lab.Timeout)
	n.sync(newTable().Table)
	try(n.Pod(1), n.Remote, lab.OK)
	try(n.Remote, n.Pod(1), lab.OK)
	try(n.Outside, n.Pod(1), lab.Timeout)
}

// What is not an address of a host does not answer to ping.
func TestPing(t *testing.T) {
	n := newNode(t, ipvs.Config{}, lab.WithPods(2))
	n.sync(newTable().add("default/web", "10.96.0.10", dataplane.TCP, 80, on(dataplane.IPv4, 8080, n.Pod(2))...).Table)
	for _, from := range []*lab.Host{n.Pod(1), n.Node, n.Outside} {
		if err := ping(from, n.Node.IPv4.String()); err != nil {
			t.Errorf("ping of the node from %s: %v", from.Name, err)
		}
		if err := ping(from, "10.96.0.10"); !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("ping of a VIP from %s: %v; want it refused, as by every backend", from.Name, err)
		}
	}
}

// ping waits a moment for the answer to one ICMP echo.
func ping(from *lab.Host, to string) (err error) {
	from.Do(func() {
		var c net.Conn
		if c, err = net.Dial("ip4:icmp", to); err != nil {
			return
		}
		defer c.Close()
		if err = c.SetDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
			return
		}
		// Type 8, code 0, checksum, identifier 7, sequence 1.
		if _, err = c.Write([]byte{8, 0, 0xf7, 0xf7, 0, 7, 0, 1}); err != nil {
			return
		}
		for buf := make([]byte, 128); err == nil; {
			var n int
			n, err = c.Read(buf)
			if n > 0 && buf[0] == 0 || n > 20 && buf[20] == 0 { // with the IP header or without
				return
			}
		}
	})
	return err
}
