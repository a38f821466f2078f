package server

import (
	"net"
	"net/netip"
	"testing"
	"time"

	mdns "github.com/miekg/dns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/test/sandbox"
)

func prefixes(texts ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, t := range texts {
		out = append(out, netip.MustParsePrefix(t))
	}
	return out
}

func addrPort(text string) netip.AddrPort { return netip.MustParseAddrPort(text) }

// loopback sets up loopback in the network namespace of the calling thread: that of all
// tests of this package, unless the test is in one of its own.
func loopback(t testing.TB) {
	t.Helper()
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		t.Skipf("SKIP(kernel): loopback: %v", err)
	}
}

// TestRepliesComeFromTheAddressAsked: a server that listens on all addresses answers
// from the one that a query came to, of both families, or the client (or the rewriting
// of a Service's address) would not know the answer.
func TestRepliesComeFromTheAddressAsked(t *testing.T) {
	sandbox.Node(t)
	loopback(t)
	lo, _ := netlink.LinkByName("lo")
	asked := []string{"192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2"}
	for _, a := range asked {
		bits := map[bool]string{true: "/32", false: "/128"}[netip.MustParseAddr(a).Is4()]
		addr, err := netlink.ParseAddr(a + bits)
		if err == nil {
			addr.Flags = unix.IFA_F_NODAD // usable at once
			err = netlink.AddrAdd(lo, addr)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	save(t, dir, service("web", "10.96.0.10"))
	l := start(t, dir, func(c *Config) { c.Listen = ":0" })
	packet, _ := query("web.default.svc.cluster.local", mdns.TypeA).Pack()
	for _, from := range asked {
		for _, to := range asked {
			if netip.MustParseAddr(from).Is4() != netip.MustParseAddr(to).Is4() {
				continue
			}
			server := netip.AddrPortFrom(netip.MustParseAddr(to), l.Addr().Port())
			if by := answeredBy(t, packet, netip.MustParseAddr(from), server); by != server {
				t.Errorf("asked %s from %s: answer of %s", server, from, by)
			}
		}
	}
}

// answeredBy sends a query until something comes back, and returns from where. An
// address that was just added may not be in use at once.
func answeredBy(t *testing.T, packet []byte, from netip.Addr, server netip.AddrPort) netip.AddrPort {
	t.Helper()
	var conn *net.UDPConn
	eventually(t, "a socket", func() (ok bool) {
		var err error
		conn, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0)))
		return err == nil
	})
	defer conn.Close()
	var by netip.AddrPort
	eventually(t, "an answer", func() bool {
		_, _ = conn.WriteToUDPAddrPort(packet, server)
		_ = conn.SetReadDeadline(time.Now().Add(patience / 20))
		var err error
		_, by, err = conn.ReadFromUDPAddrPort(make([]byte, 512))
		return err == nil
	})
	return netip.AddrPortFrom(by.Addr().Unmap(), by.Port())
}

// TestPortTaken: a second server on the port is told who has it.
func TestPortTaken(t *testing.T) {
	loopback(t)
	l := start(t, t.TempDir(), nil)
	if _, err := Open(t.Context(), Config{Listen: l.at}); err == nil {
		t.Error("two servers share a port")
	}
}
