package iptables

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
	"github.com/toyproxy/toyproxy/test/lab"
	"github.com/toyproxy/toyproxy/test/tables"
)

// TestRulesMet counts with the kernel's own counters how many rules a packet to
// one of many Services meets.
func TestRulesMet(t *testing.T) {
	eachEngine(t, func(t *testing.T, e xtables.Engine) {
		var last netip.AddrPort
		l := programmed(t, e, func(l *lab.Lab, table *dataplane.Table) {
			for i := range 2000 {
				last = netip.MustParseAddrPort(fmt.Sprintf("10.96.%d.%d:80", i/250, 1+i%250))
				tables.Fill(table, i, last, netip.AddrPortFrom(l.Pod(2).IPv4, 8080).String())
			}
			table.Sort()
		})
		tool := "iptables-" + e.String()
		before := rulesMet(l.Node.Run(tool+"-save", "-c", "-t", "nat"))
		if out := lab.Probe(l.Pod(1), dataplane.TCP, last, lab.Options{}); out.Fate != lab.OK {
			t.Fatalf("%s: %s", last, out)
		}
		met := rulesMet(l.Node.Run(tool+"-save", "-c", "-t", "nat"))
		if before != 0 || met == 0 || met >= 60 {
			t.Errorf("one connection to %s met %d rules of table nat (%d before it), want fewer than 60", last, met, before)
		}
		t.Logf("one connection to the last of 2000 Services met %d rules of table nat", met)
	})
}

// rulesMet reads the output of iptables-save -c after one packet of one flow:
// the counters tell which rules matched, and in every chain that it went through
// it met all rules up to the last of those.
func rulesMet(save string) int {
	total, at, chain := 0, 0, ""
	for line := range strings.Lines(save) {
		counters, rest, ok := strings.Cut(strings.TrimPrefix(line, "["), "] -A ")
		if !ok || line[0] != '[' {
			continue
		}
		name, _, _ := strings.Cut(rest, " ")
		if name != chain {
			chain, at = name, 0
		}
		at++
		if !strings.HasPrefix(counters, "0:") {
			total += at
			at = 0
		}
	}
	return total
}
