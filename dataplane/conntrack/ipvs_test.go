package conntrack

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/ipvs"
	"github.com/toyproxy/toyproxy/test/lab"
)

// eachFamilyIPVS is eachFamily for the IPVS backend. The test calls back to
// change to the iptables backend.
func eachFamilyIPVS(t *testing.T, test func(s *stage, back func())) {
	lab.Require(t, lab.Namespaces, lab.IPVS, lab.IPSet)
	for _, f := range []dataplane.Family{dataplane.IPv4, dataplane.IPv6} {
		t.Run(f.String(), func(t *testing.T) {
			s := newStage(t, f)
			after, before := s.backend, ipvs.New(ipvs.Config{StateDir: t.TempDir()})
			s.backend, s.cleaner.config.Virtual = before, true
			test(s, func() { s.backend, s.cleaner.config.Virtual = successor{after, before}, false })
		})
	}
}

// successor is a backend that also removes what IPVS has left, as an agent does.
type successor struct {
	dataplane.Backend
	before *ipvs.Backend
}

func (s successor) Plan(ctx context.Context, t dataplane.Table) (dataplane.Plan, error) {
	rules, err := s.Backend.Plan(ctx, t)
	if err != nil {
		return nil, err
	}
	left, err := s.before.Leftovers(ctx)
	return dataplane.Plans{rules, left}, err
}

// soon is want for a client that sends again until a second has passed: shortly
// after a real server has gone the kernel ends its connections, with their flows,
// and an answer that is under way just then is lost.
func (c client) soon(want string) {
	c.stage.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		out := lab.Probe(c.host, dataplane.UDP, c.to, lab.Options{Source: c.port, Timeout: silence})
		if out.Fate == lab.OK && out.Endpoint == want {
			return
		}
		if time.Now().After(deadline) {
			c.stage.t.Errorf("%s from port %d to %s: %s, want %s", c.host.Name, c.port, c.to, out, want)
			return
		}
	}
}

// TestIPVS proves that flows which IPVS translates are judged like the others: the
// kernel has their endpoint as the source of answers.
func TestIPVS(t *testing.T) {
	eachFamilyIPVS(t, func(s *stage, back func()) {
		s.serve(dataplane.UDP)
		build := func(endpoint string) *builder {
			b := s.service(newTable(), dataplane.ClusterIP, vip, dataplane.UDP, endpoint)
			s.service(b, dataplane.ExternalIP, external, dataplane.UDP, endpoint)
			for i := range b.Frontends { // the kernel itself ends a masqueraded flow that leaves by another link
				b.Frontends[i].Routes[dataplane.FromPod].Masquerade = false
			}
			return b
		}
		clients := []client{s.client(s.Pod(1), vip, 4000), s.client(s.Node, vip, 4001), s.client(s.Outside, external, 4002)}
		want := func(endpoint string) {
			s.t.Helper()
			for _, c := range clients {
				c.soon(endpoint)
			}
		}
		clients[0].want("TIMEOUT") // before there are rules
		if done := s.pass(build(p2)); len(done) != 1 {
			t.Errorf("removed %v, want the flow from before the rules", done)
		}
		want("p2")
		for _, c := range s.pass(build(p2)) {
			t.Errorf("nothing changed: %s", c)
		}
		s.pass(build(p3))
		want("p3")
		for _, c := range s.pass(build(p3)) {
			t.Errorf("nothing changed any more: %s", c)
		}
		// Older kernels do not end the connections of a real server that goes.
		s.Node.Sysctl("net.ipv4.vs.expire_nodest_conn", "0")
		back()
		s.pass(build(p3))
		want("p3")
		for _, c := range s.pass(build(p3)) {
			t.Errorf("nothing changed since iptables: %s", c)
		}
	})
}

// TestCut proves that a connection which IPVS cuts, because another backend takes
// over and is not to wait, ends for the client at once.
func TestCut(t *testing.T) {
	eachFamilyIPVS(t, func(s *stage, back func()) {
		s.serve(dataplane.TCP)
		b := s.service(newTable(), dataplane.ClusterIP, vip, dataplane.TCP, p2)
		s.backend = ipvs.New(ipvs.Config{StateDir: t.TempDir(), DrainLimit: -1})
		s.pass(b)
		open := lab.Open(s.Pod(1), s.client(s.Pod(1), vip, 0).to)
		if err := open.Echo(); err != nil {
			t.Fatal(err)
		}
		waits := s.backend.(*ipvs.Backend)
		back()
		s.backend = successor{s.backend.(successor).Backend, waits}
		s.cleaner.config.RealServers = waits.RealServers
		s.pass(b)
		if err := open.Echo(); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the connection: %v, want it reset", err)
		}
	})
}
