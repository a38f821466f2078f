package xtables

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/toyproxy/toyproxy/dataplane"
)

// walkOne sends a packet through PREROUTING with one chain of ours in it.
func walkOne(rules ...string) dataplane.Trace {
	r := Ruleset{Chains: []Chain{{Table: NAT, Name: Prefix + "SERVICES", Rules: rules}, {Table: NAT, Name: Prefix + "DROP", Rules: []string{"-j DROP"}}},
		Jumps: []Jump{{Table: NAT, Base: "PREROUTING", Rule: "-j " + Prefix + "SERVICES"}}}
	w := Walker{Rules: r.Rules(), Describe: func(Taken) (dataplane.Subject, string) { return 0, "" }, Packet: dataplane.Packet{
		Key: dataplane.Key{Addr: netip.MustParseAddr("10.96.0.10"), Protocol: dataplane.TCP, Port: 80},
		Src: netip.MustParseAddr("10.244.0.9"), In: "br0", Own: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}}
	return w.Finish(w.Hook(NAT, "PREROUTING", w.Start()))
}

// TestMatches proves what each match says of one packet, alone and negated.
func TestMatches(t *testing.T) {
	for match, want := range map[string]bool{
		"-s 10.244.0.0/16": true, "-s 192.0.2.0/24": false, "-d 10.96.0.10/32": true, "-d 10.96.0.10": true, "-d 10.96.0.11/32": false,
		"-p tcp": true, "-p 6": true, "-p udp": false, "-p tcp -m tcp --dport 80": true, "-p tcp -m tcp --dport 79:81": true, "-p tcp -m tcp --dport 81": false,
		"-i br0": true, "-i br+": true, "-i eth0": false, "-o lo": false, "-m addrtype --src-type LOCAL": false,
		"-m mark --mark 0x0/0xc000": true, "-m mark --mark 0x4000/0xc000": false, "-m connmark --mark 0x1": false,
		"-m conntrack --ctstate NEW": true, "-m conntrack --ctstate INVALID": false, "-m conntrack --ctstate RELATED,NEW": true, "-m conntrack --ctstate DNAT": false,
		"-m conntrack --ctorigdst 10.96.0.0/12": true, `-m comment --comment "a -j ACCEPT \" b"`: true, "-m recent --update": false,
	} {
		for _, not := range []bool{false, true} {
			rule := match
			if i := strings.LastIndex(" "+match, " -"); not && strings.Contains(match, "comment") {
				continue
			} else if not {
				rule = match[:i] + "! " + match[i:]
			}
			tr := walkOne(rule + " -g " + Prefix + "DROP")
			if fate, ok := tr.Answer(); !ok || len(tr.Notes) > 0 || (fate == dataplane.Dropped) == (want == not) {
				t.Errorf("%s: %s, notes %q", rule, fate, tr.Notes)
			}
		}
	}
}

// TestNotUnderstood proves that what a walk knows nothing of is named, and taken
// not to match.
func TestNotUnderstood(t *testing.T) {
	for _, rule := range []string{"-m length --length 100 -j DROP", "-m set --match-set x src -j DROP", "-o eth0 -j DROP", "-j SOMETHING", "-j TOY-SVC-AAAAAAAAAAAAAAAA"} {
		tr := walkOne(rule)
		if fate, _ := tr.Answer(); fate != dataplane.Passed || len(tr.Notes) != 1 {
			t.Errorf("%s: %s, notes %q", rule, fate, tr.Notes)
		}
	}
}

// FuzzWalk proves that no rule makes a walk panic, go round for ever, or lose a
// part of the packet: the kernel may hold anything.
func FuzzWalk(f *testing.F) {
	for _, seed := range []string{"", "-j", "!", "-s", `-m comment --comment "`, "-g TOY-SERVICES", "-j TOY-SERVICES", "-m statistic --mode random --probability 0.5 -j DNAT --to-destination 10.0.0.1:80",
		"-m statistic --probability 7 -j TOY-DROP", "! -m statistic --probability -1 -j RETURN", "-j MARK --set-xmark 0x1/0x", "-j DNAT"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, rule string) {
		if strings.ContainsAny(rule, "\n\x00") {
			return
		}
		sum := 0.0
		for _, o := range walkOne(rule, "-m mark --mark 0x0 -j ACCEPT").Outcomes {
			sum += o.Share
		}
		if sum < 0.999 || sum > 1.001 {
			t.Errorf("after %q %g of the packet is left", rule, sum)
		}
	})
}
