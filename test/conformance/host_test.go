package conformance

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/lab"
)

// TestForwardDrop proves that a host whose iptables policy for FORWARD is DROP,
// as Docker leaves it, serves all the same (row D11). The native backend has no
// iptables rules to say so with; there somebody else's chain with that policy
// needs the one rule that docs/packet-path.md names.
func TestForwardDrop(t *testing.T) {
	onDoors(t, 2, "", func(t *testing.T, s *stage, b backend) {
		s.Pod(2).Serve(dataplane.TCP, 8080)
		s.dropForwarded(b)
		try := func(when string, want lab.Fate) {
			t.Helper()
			for _, at := range doorsOf() {
				got := lab.Probe(s.Outside, dataplane.TCP, at, lab.Options{Timeout: patience})
				if got.Fate != want {
					t.Errorf("%s: from X to %s: %s, want %s", when, at, got, want)
				}
			}
		}
		s.program("p2 app=web", everyDoor)
		if b.name == "nftables" {
			try("without the rule", lab.Timeout)
			for _, family := range []string{"ip", "ip6"} {
				s.Node.Run("nft", "add rule "+family+" theirs forward ct status dnat accept")
			}
		}
		try("FORWARD DROP", lab.OK)
	})
}

// dropForwarded makes the node drop what it forwards, by means of its own.
func (s *stage) dropForwarded(b backend) {
	s.t.Helper()
	if b.name == "nftables" {
		for _, family := range []string{"ip", "ip6"} {
			s.Node.Run("nft", "add table "+family+" theirs; add chain "+family+" theirs forward { type filter hook forward priority 0; policy drop; }")
		}
		return
	}
	for _, tool := range b.iptables(s.Node) {
		s.Node.Run(tool, "-P", "FORWARD", "DROP")
	}
}

// iptables are the tools, for each family, of the engine that the backend uses.
func (b backend) iptables(h *lab.Host) []string {
	engine := "nft"
	if b.name == "iptables-legacy" || lab.IptablesNFT.Missing() != nil {
		engine = "legacy"
	}
	return []string{"iptables-" + engine, "ip6tables-" + engine}
}

// TestLoopbackNodePort proves that a node port answers on 127.0.0.1 where the
// node's addresses name it and the kernel lets loopback addresses be rewritten
// (row B13); that it is refused where they do not is in scenario
// nodeport-addresses (row B14). Where the backend cannot, it is refused.
func TestLoopbackNodePort(t *testing.T) {
	at := netip.MustParseAddrPort("127.0.0.1:30080")
	onDoors(t, 2, "nodeport primary localhost", func(t *testing.T, s *stage, b backend) {
		s.Pod(2).Serve(dataplane.TCP, 8080)
		s.program("p2 app=web", everyDoor)
		s.Node.Sysctl("net.ipv4.conf.all.route_localnet", "1")
		for range 5 {
			got := lab.Probe(s.Node, dataplane.TCP, at, lab.Options{Timeout: time.Second})
			if !b.loopback && got.Fate == lab.Refused {
				continue
			}
			if got.Name() != "p2:8080" || !s.Node.Owns(got.Peer.Addr()) {
				t.Errorf("from N to %s: %s, want OK by p2 from an address of the node", at, got)
			}
		}
	})
}

// TestAffinityTimeoutChanged proves that a shorter timeout holds for clients
// that are known already, and loses none of them before (row C16).
func TestAffinityTimeoutChanged(t *testing.T) {
	with := func(seconds string) string {
		return strings.Replace(web, "selector: {app: web},",
			"sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: "+seconds+"}}, selector: {app: web},", 1)
	}
	onBackends(t, 3, func(t *testing.T, s *stage, b backend) {
		var from []netip.Addr
		for i := range 20 {
			a := netip.AddrFrom4([4]byte{198, 51, 100, byte(20 + i)})
			s.Outside.AddAddr("lan0", netip.PrefixFrom(a, 32))
			from = append(from, a)
		}
		s.Pod(2).Serve(dataplane.TCP, 8080)
		s.Pod(3).Serve(dataplane.TCP, 8080)
		s.program(podLines(2, 3, "app=web"), with("600"))
		first := s.whoServes(from)
		s.program(podLines(2, 3, "app=web"), with("3"))
		if n := moved(first, s.whoServes(from)); n > 0 {
			t.Errorf("%d of %d clients moved by the change of the timeout alone", n, len(from))
		}
		if b.persists { // the kernel keeps a session while it tracks its connections
			return
		}
		time.Sleep(4 * time.Second) // nothing to poll: each look refreshes the memory
		if moved(first, s.whoServes(from)) == 0 {
			t.Errorf("of %d clients none moved after the new timeout", len(from))
		}
	})
}
