package conntrack

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/iptables"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
	"github.com/toyproxy/toyproxy/test/lab"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }

// silence is how long a test waits for an answer that it expects not to come.
const silence = 250 * time.Millisecond

// stage is a lab whose node runs a backend and a cleaner.
type stage struct {
	*lab.Lab
	t       *testing.T
	family  dataplane.Family
	backend dataplane.Backend
	cleaner *Cleaner
}

// eachFamily runs a test of the iptables backend in a lab of its own for each
// family.
func eachFamily(t *testing.T, test func(s *stage)) {
	for _, f := range []dataplane.Family{dataplane.IPv4, dataplane.IPv6} {
		t.Run(f.String(), func(t *testing.T) { test(newStage(t, f)) })
	}
}

// newStage builds a lab. A rule that looks at the state of flows stands in the
// node all the time: without one the kernel stops to track them when the last
// rule of the backend goes, and hides every fault. Uncaught packets leave by the
// default route, so that flows are made.
func newStage(t *testing.T, f dataplane.Family) *stage {
	t.Helper()
	lab.Require(t, lab.Namespaces)
	engine, need := xtables.NFT, lab.IptablesNFT
	if need.Missing() != nil {
		engine, need = xtables.Legacy, lab.IptablesLegacy
	}
	lab.Require(t, need)
	s := &stage{Lab: lab.New(t), t: t, family: f, backend: iptables.New(iptables.Config{Engine: engine})}
	s.cleaner = New(Config{Journal: filepath.Join(t.TempDir(), "frontends.json")})
	for _, tool := range []string{"iptables-", "ip6tables-"} {
		for _, chain := range []string{"INPUT", "FORWARD", "OUTPUT"} {
			s.Node.Run(tool+engine.String(), "-w", "-A", chain, "-m", "conntrack", "--ctstate", "ESTABLISHED")
		}
	}
	return s
}

// at translates an address of IPv4 to the family of the test.
func (s *stage) at(text string) netip.AddrPort {
	s.t.Helper()
	a := addrPort(text)
	if s.family == dataplane.IPv4 {
		return a
	}
	if a.Addr().IsUnspecified() {
		return netip.AddrPortFrom(netip.IPv6Unspecified(), a.Port())
	}
	twin, ok := lab.Twin(a.Addr())
	if !ok {
		s.t.Fatalf("no twin of %s", a)
	}
	return netip.AddrPortFrom(twin, a.Port())
}

// service adds a Service port with the endpoints pN at a port to a table; without
// any it refuses. The outside reaches it too.
func (s *stage) service(b *builder, kind dataplane.Kind, at string, p dataplane.Protocol, endpoints ...string) *builder {
	s.t.Helper()
	route := dataplane.Route{Verdict: dataplane.Refuse}
	if len(endpoints) > 0 {
		var to []string
		for _, e := range endpoints {
			to = append(to, s.at(e).String())
		}
		route = b.set(strings.Join([]string{kind.String(), at, p.String()}, " "), p, to...)
		route.Masquerade = true
	}
	b.frontend(kind, s.at(at).String(), p, route)
	return b
}

// rules programs a table, as an agent does before it looks at flows.
func (s *stage) rules(t dataplane.Table) {
	s.t.Helper()
	s.Node.Do(func() {
		err := s.cleaner.Expect(s.t.Context(), t)
		if err != nil {
			s.t.Fatal(err)
		}
		p, err := s.backend.Plan(s.t.Context(), t)
		if err == nil {
			err = p.Apply(s.t.Context())
		}
		if err != nil {
			s.t.Fatalf("rules: %v", err)
		}
	})
}

// clean removes what is stale, requires that nothing is then, and returns what
// was.
func (s *stage) clean(t dataplane.Table) []dataplane.Change {
	s.t.Helper()
	var done []dataplane.Change
	s.Node.Do(func() {
		p, err := s.cleaner.Plan(s.t.Context(), t)
		if err != nil {
			s.t.Fatalf("plan: %v", err)
		}
		done = p.Changes()
		for range 2 { // what is gone already is no error
			if err := p.Apply(s.t.Context()); err != nil {
				s.t.Fatalf("apply: %v", err)
			}
		}
		again, err := s.cleaner.Plan(s.t.Context(), t)
		if err != nil {
			s.t.Fatalf("second plan: %v", err)
		}
		for _, c := range again.Changes() {
			s.t.Errorf("still stale: %s", c)
		}
	})
	return done
}

// pass is rules and clean.
func (s *stage) pass(b *builder) []dataplane.Change {
	s.t.Helper()
	s.rules(b.Table)
	return s.clean(b.Table)
}

// tracked returns the flows of the node to a destination.
func (s *stage) tracked(to netip.AddrPort) (out []Flow) {
	s.t.Helper()
	s.Node.Do(func() {
		k, err := openKernel()
		if err != nil {
			s.t.Fatal(err)
		}
		defer k.close()
		all, err := k.flows(s.t.Context(), dataplane.FamilyOf(to.Addr()))
		if err != nil {
			s.t.Fatal(err)
		}
		for _, f := range all {
			if f.Original.Destination == to {
				out = append(out, f)
			}
		}
	})
	return out
}

// client is a program that always sends from one port.
type client struct {
	stage *stage
	host  *lab.Host
	to    netip.AddrPort
	port  uint16
}

func (s *stage) client(h *lab.Host, to string, port uint16) client {
	return client{s, h, s.at(to), port}
}

// want sends one datagram and checks what becomes of it: "p2", "TIMEOUT".
func (c client) want(want string) {
	c.stage.t.Helper()
	opt := lab.Options{Source: c.port}
	if want == lab.Timeout.String() {
		opt.Timeout = silence
	}
	out := lab.Probe(c.host, dataplane.UDP, c.to, opt)
	got := out.Fate.String()
	if out.Fate == lab.OK {
		got = out.Endpoint
	}
	if got != want {
		c.stage.t.Errorf("%s from port %d to %s: %s, want %s", c.host.Name, c.port, c.to, out, want)
	}
}

// TestExplain proves that a kernel without the feature is told from a user
// without the right.
func TestExplain(t *testing.T) {
	if err := explain("dump", unix.EINVAL); !errors.Is(err, dataplane.ErrUnsupported) || !strings.Contains(err.Error(), "nf_conntrack_netlink") {
		t.Errorf("%v", err)
	}
	if err := explain("dump", unix.EPERM); errors.Is(err, dataplane.ErrUnsupported) || !strings.Contains(err.Error(), "CAP_NET_ADMIN") {
		t.Errorf("%v", err)
	}
}
