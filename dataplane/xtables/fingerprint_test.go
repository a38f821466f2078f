package xtables

import (
	"encoding/binary"
	"hash/maphash"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/lab"
)

// TestFingerprint proves that the fingerprint is another one after whatever anybody
// does to rules, that it stays when nobody does anything, whatever packets count,
// and that asking for it brings no table into being.
func TestFingerprint(t *testing.T) {
	eachTool(t, func(t *testing.T, node *lab.Host, tool Tool) {
		take := func() (out string) {
			node.Do(func() {
				var err error
				if out, err = Fingerprint(); err != nil {
					t.Fatal(err)
				}
			})
			return out
		}
		if take(); strings.Contains(node.Run(tool.program("save")), "*") {
			t.Error("the question made a table")
		}
		iptables := func(args ...string) { node.Run(append([]string{tool.program(""), "-w"}, args...)...) }
		last := take()
		for _, change := range [][]string{
			{"-A", "OUTPUT", "-p", "udp", "--dport", "53", "-j", "ACCEPT"},
			{"-R", "OUTPUT", "1", "-p", "udp", "--dport", "54", "-j", "ACCEPT"},
			{"-N", "OTHERS"},
			{"-A", "OTHERS", "-m", "statistic", "--mode", "random", "--probability", "0.25", "-j", "ACCEPT"},
			{"-R", "OTHERS", "1", "-m", "statistic", "--mode", "random", "--probability", "0.26", "-j", "ACCEPT"},
			{"-A", "OUTPUT", "-j", "OTHERS"},
			{"-P", "FORWARD", "DROP"},
			{"-P", "FORWARD", "ACCEPT"},
			{"-D", "OUTPUT", "1"},
			{"-F", "OUTPUT"},
		} {
			iptables(change...)
			next := take()
			if next == last {
				t.Errorf("iptables %v did not change it", change)
			}
			lab.Probe(node, dataplane.TCP, netip.AddrPortFrom(node.Addr(tool.Family), 9), lab.Options{Timeout: time.Second})
			node.Run(tool.program("save"))
			if last = take(); last != next {
				t.Errorf("after iptables %v packets changed it:\n%s\n%s", change, next, last)
			}
		}
	})
}

// TestEntriesThatLie proves that entries of impossible lengths are an error.
func TestEntriesThatLie(t *testing.T) {
	var h maphash.Hash
	for _, f := range []format{formatOf(4), formatOf(6)} {
		entry := make([]byte, 200)
		for _, length := range []int{0, 1, f.counters + counterLength - 1, 201, 65535} {
			binary.NativeEndian.PutUint16(entry[f.next:], uint16(length))
			if err := f.hashEntries(entry, &h); err == nil {
				t.Errorf("an entry of %d bytes in %d is none", length, len(entry))
			}
		}
		binary.NativeEndian.PutUint16(entry[f.next:], 200)
		if err := f.hashEntries(entry, &h); err != nil {
			t.Error(err)
		}
		if err := f.hashEntries(entry[:f.counters], &h); err == nil {
			t.Error("half an entry is none")
		}
	}
}
