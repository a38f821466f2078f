package podnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/test/sandbox"
)

// member reads "a 192.168.60.11,fd00:60::11 10.244.1.0/24".
func member(text string) Member {
	words := strings.Fields(text)
	m := Member{Name: words[0]}
	for a := range strings.SplitSeq(words[1], ",") {
		m.Addrs = append(m.Addrs, netip.MustParseAddr(a))
	}
	if len(words) > 2 {
		m.PodRanges = prefixes(strings.Split(words[2], ",")...)
	}
	return m
}

func members(texts ...string) []Member {
	var out []Member
	for _, t := range texts {
		out = append(out, member(t))
	}
	return out
}

// threeNodes are two neighbours and one that lies in a range of its own.
func threeNodes() []Member {
	return members(
		"a 192.168.60.11,fd00:60::11 10.244.1.0/24,fd00:10:244:1::/64",
		"b 192.168.60.12,fd00:60::12 10.244.2.0/24,fd00:10:244:2::/64",
		"c 192.168.61.13,fd00:61::13 10.244.3.0/24,fd00:10:244:3::/64")
}

// newUnderlay puts the test into a machine of its own.
func newUnderlay(t *testing.T, ms ...Member) *Underlay {
	t.Helper()
	sandbox.Node(t)
	cfg := UnderlayConfig{Members: ms, StateDir: t.TempDir(), NetnsDir: filepath.Join(t.TempDir(), "netns")}
	u := remake(t, cfg)
	t.Cleanup(func() {
		if p, err := u.Remove(context.Background()); err == nil {
			p.Apply(context.Background())
		}
	})
	return u
}

func remake(t *testing.T, cfg UnderlayConfig) *Underlay {
	t.Helper()
	u, err := NewUnderlay(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// build plans and applies, and checks that then nothing is left to do.
func build(t *testing.T, u *Underlay) {
	t.Helper()
	p, err := u.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	again, err := u.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	noChanges(t, again)
}

func tearDown(t *testing.T, u *Underlay) {
	t.Helper()
	p, err := u.Remove(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// ask dials a port that nobody serves until the host refuses it, which shows that
// packets go there and back: links take a moment to be up.
func ask(t *testing.T, u *Underlay, from, to string) {
	t.Helper()
	dial := func() error {
		c, err := net.DialTimeout("tcp", net.JoinHostPort(to, "9"), 300*time.Millisecond)
		if err == nil {
			c.Close()
		}
		return err
	}
	var err error
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if from == "" {
			err = dial()
		} else {
			err = Do(u.node.Path(from), dial)
		}
		if errors.Is(err, unix.ECONNREFUSED) {
			return
		}
	}
	t.Errorf("from %q to %s: %v", from, to, err)
}

func TestUnderlayJoinsNodes(t *testing.T) {
	u := newUnderlay(t, threeNodes()...)
	before := dumps(t, u.node)
	build(t, u)
	for i, pod := range []string{"10.244.1.9/32", "10.244.2.9/32", "10.244.3.9/32"} {
		sh(t, "nsenter --net=%s ip addr add %s dev lo", u.node.Path(string(rune('a'+i))), pod)
	}
	for _, from := range []string{"a", "b", "c"} {
		for _, to := range []string{"192.168.60.11", "fd00:60::12", "192.168.61.13", "fd00:61::13", "10.244.1.9", "10.244.2.9", "10.244.3.9", "192.168.60.1", "192.168.61.1"} {
			ask(t, u, from, to)
		}
	}
	for _, to := range []string{"192.168.60.11", "fd00:60::12", "192.168.61.13"} {
		ask(t, u, "", to)
	}
	if names, err := UnderlayNodes(u.node.cfg.StateDir); err != nil || fmt.Sprint(names) != "[a b c]" {
		t.Errorf("recorded nodes %v, %v", names, err)
	}
	tearDown(t, u)
	if after := dumps(t, u.node); after != before {
		t.Errorf("after removal:\n%s\nbefore:\n%s", after, before)
	}
}

func TestUnderlayIsRepaired(t *testing.T) {
	for i, damage := range []string{
		"nsenter --net=$D/a ip route del 10.244.2.0/24",
		"nsenter --net=$D/a ip -6 route del default",
		"nsenter --net=$D/b ip addr del 192.168.60.12/24 dev eth0",
		"nsenter --net=$D/b ip link set eth0 down",
		"nsenter --net=$D/c ip link del eth0",
		"nsenter --net=$D/toyproxy+wire ip link del wire",
		"ip link del toywire0",
		"ip addr flush dev toywire0",
		"umount $D/b && rm $D/b",
		"nsenter --net=$D/a ip addr add 192.168.60.99/24 dev eth0",
		"nsenter --net=$D/a ip route add 10.99.0.0/16 via 192.168.60.12 dev eth0 proto 84",
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Log(damage)
			u := newUnderlay(t, threeNodes()...)
			build(t, u)
			sh(t, "D=%s; %s", u.node.cfg.NetnsDir, damage)
			p, err := u.Plan(t.Context())
			if err != nil || len(p.Changes()) == 0 {
				t.Fatalf("the damage is not seen: %v", err)
			}
			build(t, u)
			ask(t, u, "a", "192.168.60.12")
			ask(t, u, "c", "192.168.60.11")
		})
	}
}

func TestUnderlayFollowsItsNodes(t *testing.T) {
	u := newUnderlay(t, threeNodes()...)
	build(t, u)
	cfg := u.cfg
	cfg.Members = members("a 192.168.60.21,fd00:60::11 10.244.9.0/24,fd00:10:244:1::/64", "c 192.168.61.13 10.244.3.0/24")
	u2 := remake(t, cfg)
	build(t, u2)
	if names, _ := u2.Nodes(); fmt.Sprint(names) != "[a c]" {
		t.Errorf("nodes %v, want a and c", names)
	}
	ask(t, u2, "c", "192.168.60.21")
	out := sh(t, "nsenter --net=%s ip route", u.node.Path("c"))
	if !strings.Contains(out, "10.244.9.0/24 via 192.168.60.21") || strings.Contains(out, "10.244.2.0/24") || strings.Contains(out, "10.244.1.0/24") {
		t.Errorf("routes of c:\n%s", out)
	}
	tearDown(t, u2)
}

// TestUnderlayKilledAtEachStep proves that whatever a kill leaves is finished by
// the next pass, and removed without one.
func TestUnderlayKilledAtEachStep(t *testing.T) {
	steps := 1
	for n := 0; n <= steps; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			u := newUnderlay(t, members("a 192.168.60.11 10.244.1.0/24", "b 192.168.60.12 10.244.2.0/24")...)
			before := dumps(t, u.node)
			kill := func() {
				p, err := u.Plan(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				wire := p.(*wirePlan)
				steps = len(wire.steps)
				if err := u.save(*wire.next); err != nil {
					t.Fatal(err)
				}
				k, err := openKernel()
				if err != nil {
					t.Fatal(err)
				}
				defer k.close()
				if err := run(t.Context(), k, wire.steps[:n]); err != nil {
					t.Fatal(err)
				}
			}
			kill()
			build(t, u)
			tearDown(t, u)
			kill()
			tearDown(t, u)
			if after := dumps(t, u.node); after != before {
				t.Errorf("after removal:\n%s\nbefore:\n%s", after, before)
			}
		})
	}
}

// TestUnderlayKilledWithinAStep proves the same for what a kill leaves between two
// system calls of a step that makes a link: no half of one is taken for somebody
// else's.
func TestUnderlayKilledWithinAStep(t *testing.T) {
	ms := members("a 192.168.60.11 10.244.1.0/24", "b 192.168.60.12 10.244.2.0/24")
	for _, tc := range []struct {
		name, step string
		moves      func(*Underlay, *kernel) []func() error
	}{
		{"this machine's link", "link " + DefaultUplink, (*Underlay).addUplink},
		{"a node's link", "link " + hostLink("node/b", 0), func(u *Underlay, _ *kernel) []func() error {
			return u.addMember(u.node.Path("b"), hostLink("node/b", 0))
		}},
	} {
		for n, moves := 0, 1; n <= moves; n++ {
			t.Run(fmt.Sprint(tc.name, " ", n), func(t *testing.T) {
				u := newUnderlay(t, ms...)
				before := dumps(t, u.node)
				kill := func() { moves = killWithin(t, u, tc.step, n, tc.moves) }
				kill()
				build(t, u)
				ask(t, u, "", "192.168.60.12")
				tearDown(t, u)
				kill()
				tearDown(t, u)
				if after := dumps(t, u.node); after != before {
					t.Errorf("after removal:\n%s\nbefore:\n%s", after, before)
				}
			})
		}
	}
}

// killWithin applies a plan up to the first n moves of the step that makes a link,
// and returns how many moves that step has.
func killWithin(t *testing.T, u *Underlay, object string, n int, moves func(*Underlay, *kernel) []func() error) int {
	t.Helper()
	p, err := u.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wire := p.(*wirePlan)
	at := slices.IndexFunc(wire.steps, func(s step) bool { return strings.HasPrefix(s.change.Object, object) })
	if at < 0 {
		t.Fatalf("no step makes %s", object)
	}
	k, err := openKernel()
	if err != nil {
		t.Fatal(err)
	}
	defer k.close()
	all := moves(u, k)
	if err := errors.Join(u.save(*wire.next), run(t.Context(), k, wire.steps[:at]), inOrder(all[:n])); err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// TestUnderlayWithoutRecord proves that nodes are recognised by their marks.
func TestUnderlayWithoutRecord(t *testing.T) {
	u := newUnderlay(t, threeNodes()...)
	before := dumps(t, u.node)
	build(t, u)
	sh(t, "rm %s", filepath.Join(u.node.cfg.StateDir, underlayFile))
	u2 := remake(t, UnderlayConfig{StateDir: u.cfg.StateDir, NetnsDir: u.node.cfg.NetnsDir})
	if names, err := u2.Nodes(); err != nil || fmt.Sprint(names) != "[a b c]" {
		t.Errorf("nodes %v, %v", names, err)
	}
	tearDown(t, u2)
	after := dumps(t, u.node)
	sh(t, "umount %s", u.node.cfg.NetnsDir)
	// who made the directory of the namespaces was written in the record alone
	if strings.ReplaceAll(after, "\n\n", "\n") == "" || len(after) > len(before)+2 {
		t.Errorf("after removal:\n%s\nbefore:\n%s", after, before)
	}
}

func TestUnderlayLeavesOthersAlone(t *testing.T) {
	for _, tc := range []struct{ name, there, away, want string }{
		{"a namespace", "mkdir -p $D; touch $D/b; unshare --net=$D/b true", "umount $D/b", "network namespace b exists"},
		{"a link", "ip link add toywire0 type bridge", "", "link toywire0 (bridge) exists"},
		{"an address", "ip link add other type bridge; ip addr add 192.168.60.7/28 dev other", "", "other has the address 192.168.60.7/28"},
		{"a route", "ip link set lo up; ip route add 192.168.0.0/16 dev lo", "", "a route to 192.168.0.0/16"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			u := newUnderlay(t, threeNodes()...)
			sh(t, "D=%s; %s", u.node.cfg.NetnsDir, tc.there)
			before := dumps(t, u.node)
			if _, err := u.Plan(t.Context()); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("plan: %v, want %q", err, tc.want)
			}
			tearDown(t, u)
			if after := dumps(t, u.node); after != before {
				t.Errorf("removal changed what is somebody else's:\n%s\nbefore:\n%s", after, before)
			}
			sh(t, "D=%s; %s", u.node.cfg.NetnsDir, tc.away)
		})
	}
}

func TestUnderlayRefuses(t *testing.T) {
	for _, tc := range []struct {
		want    string
		members []Member
	}{
		{"Node b has the address", members("b 10.0.0.1", "c 10.0.0.1")},
		{"overlaps 10.244.0.0/16 of Node b", members("b 10.0.0.1 10.244.0.0/16", "c 10.0.0.2 10.244.3.0/24")},
		{"lies beside its Pod range", members("b 10.244.0.9 10.244.0.0/24")},
		{"lies beside the Pod range 10.244.3.0/24 of Node b", members("b 10.0.0.1 10.244.3.0/24", "c 10.244.3.7 10.244.4.0/24")},
		{"holds neighbours of the address 10.0.0.1 of Node b", members("b 10.0.0.1 10.244.3.0/24", "c 10.1.0.1 10.0.0.128/25")},
		{"too small", members("b 10.0.0.1 10.244.3.0/31")},
		{"no IPv6 address", members("b 10.0.0.1 10.244.0.0/24,fd00::/64")},
		{"namespace name", []Member{{Name: "-x"}}},
	} {
		if _, err := NewUnderlay(UnderlayConfig{Members: tc.members}); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v: %v, want %q", tc.members, err, tc.want)
		}
	}
}

func TestMemberAmongServices(t *testing.T) {
	services := prefixes("10.96.0.0/12")
	for _, tc := range []struct{ member, field, want string }{
		{"b 10.96.0.9 10.244.3.0/24", "status.addresses", "lies in the Service range 10.96.0.0/12"},
		{"b 10.0.0.1 10.100.0.0/24", "spec.podCIDRs", "overlaps Pod range 10.100.0.0/24"},
	} {
		got := member(tc.member).Faults(nil, services)
		if len(got) != 1 || got[0].Field != tc.field || !strings.Contains(got[0].Message, tc.want) {
			t.Errorf("%s: %v, want %s: %q", tc.member, got, tc.field, tc.want)
		}
	}
	if got := member("b 10.0.0.1 10.244.3.0/24").Faults(nil, services); len(got) > 0 {
		t.Errorf("a good one: %v", got)
	}
}
