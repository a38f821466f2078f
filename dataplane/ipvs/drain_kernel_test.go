package ipvs_test

import (
	"errors"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/ipvs"
	"github.com/toyproxy/toyproxy/test/lab"
)

// drainStage is a node with a Service of Pods 2 and 3, and connections of Pod 1
// to Pod 2, which leaves the Service.
type drainStage struct {
	*node
	now time.Time
	at  netip.AddrPort
}

func newDrainStage(t *testing.T) *drainStage {
	s := &drainStage{now: time.Now().Truncate(time.Second), at: addrPort("10.96.0.10:80")}
	s.node = newNode(t, ipvs.Config{Clock: func() time.Time { return s.now }}, lab.WithPods(3))
	s.Pod(2).Serve(dataplane.TCP, 8080)
	s.Pod(3).Serve(dataplane.TCP, 8080)
	return s
}

// service is the table with the Service on these Pods.
func (s *drainStage) service(pods ...*lab.Host) dataplane.Table {
	return newTable().add("default/web", "10.96.0.10", dataplane.TCP, 80, on(dataplane.IPv4, 8080, pods...)...).Table
}

// open opens a connection that Pod 2 serves.
func (s *drainStage) open() *lab.Conn {
	s.t.Helper()
	for range 4 {
		if c := lab.Open(s.Pod(1), s.at); c.Outcome.Endpoint == "p2" {
			return c
		} else {
			c.Reset()
		}
	}
	s.t.Fatal("Pod 2 serves nobody")
	return nil
}

// leave takes Pod 2 out of the Service and requires that its connections drain.
func (s *drainStage) leave(left ...*lab.Host) {
	s.t.Helper()
	if got := text(s.sync(s.service(left...))); !strings.Contains(got, "~ real server 10.244.0.12:8080 of tcp 10.96.0.10:80") {
		s.t.Fatalf("Pod 2 leaves; changes:\n%s", got)
	}
	remarks := strings.Join(dataplane.Remarks(s.plan(s.service(left...))), "\n")
	if !strings.HasPrefix(remarks, "real server 10.244.0.12:8080 of tcp 10.96.0.10:80 drains: ") || !strings.HasSuffix(remarks, "for 15m0s at most") {
		s.t.Errorf("remarks %q", remarks)
	}
}

// new requires that new connections go to one Pod only, or are refused.
func (s *drainStage) new(want string) {
	s.t.Helper()
	for range 4 {
		got := lab.Probe(s.Pod(1), dataplane.TCP, s.at, lab.Options{})
		if got.Endpoint != want || want == "" && got.Fate != lab.Refused {
			s.t.Errorf("new connection: %s, want %q", got, want)
		}
	}
}

// A connection outlives its endpoint's leaving, a new process, and the endpoint's
// return (fault 61).
func TestDrain(t *testing.T) {
	s := newDrainStage(t)
	s.sync(s.service(s.Pod(2), s.Pod(3)))
	open := s.open()
	s.leave(s.Pod(3))
	s.new("p3")
	s.backend = ipvs.New(ipvs.Config{StateDir: t.TempDir(), Clock: func() time.Time { return s.now.Add(14 * time.Minute) }})
	if got := text(s.plan(s.service(s.Pod(3))).Changes()); strings.Contains(got, "server") {
		t.Errorf("a new process changes\n%s", got)
	}
	if err := open.Echo(); err != nil {
		t.Errorf("while its endpoint drains: %v", err)
	}
	want := "~ real server 10.244.0.12:8080 of tcp 10.96.0.10:80 for default/web: weight 0, want 1"
	if got := text(s.sync(s.service(s.Pod(2), s.Pod(3)))); !strings.Contains(got, want) {
		t.Errorf("the endpoint returns; changes:\n%s\nwant %s", got, want)
	}
	s.open()
	if err := open.Echo(); err != nil {
		t.Errorf("after its endpoint's return: %v", err)
	}
}

// A real server goes when its connections have ended, and at the latest when the
// limit is over; those that are left are cut, not left hanging.
func TestDrainEnds(t *testing.T) {
	s := newDrainStage(t)
	s.sync(s.service(s.Pod(2), s.Pod(3)))
	open := s.open()
	s.leave(s.Pod(3))
	open.Reset()
	s.goes("- real server 10.244.0.12:8080 of tcp 10.96.0.10:80 for default/web: real server not wanted, and all its connections have ended\n", s.Pod(3))

	s.sync(s.service(s.Pod(2), s.Pod(3)))
	open = s.open()
	s.leave(s.Pod(3))
	s.now = s.now.Add(15 * time.Minute)
	s.sync(s.service(s.Pod(3)))
	if got := s.Node.Run("ipvsadm", "-Ln"); strings.Contains(got, "10.244.0.12") {
		t.Errorf("over the limit, and still there:\n%s", got)
	}
	if err := open.Echo(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("over the limit: %v, want it reset", err)
	}
}

// goes waits until the plan for a Service with these Pods has nothing but the one
// change, and makes it. The kernel keeps a reset connection for ten seconds.
func (s *drainStage) goes(change string, pods ...*lab.Host) {
	s.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		p := s.plan(s.service(pods...))
		if got := text(p.Changes()); got == change {
			s.sync(s.service(pods...))
			return
		} else if got != "" || time.Now().After(deadline) {
			s.t.Fatalf("changes %q, want %q", got, change)
		}
	}
}

// A Service without endpoints refuses, and serves those that it serves; one that
// is gone serves nobody (fault 66).
func TestDrainLast(t *testing.T) {
	s := newDrainStage(t)
	s.sync(s.service(s.Pod(2)))
	open := s.open()
	s.leave()
	s.new("")
	if err := open.Echo(); err != nil {
		t.Errorf("no endpoint is left: %v", err)
	}
	s.sync(s.service(s.Pod(3)))
	s.new("p3")
	if err := open.Echo(); err != nil {
		t.Errorf("another endpoint came: %v", err)
	}
	s.sync(newTable().Table)
	if got := s.Node.Run("ipvsadm", "-Ln"); strings.Contains(got, "10.96.0.10") {
		t.Errorf("the Service is gone and has a virtual server:\n%s", got)
	}
	if err := open.Echo(); err == nil {
		t.Error("the Service is gone and serves a client")
	}
}

// A client that always goes to one endpoint turns to another one when that drains.
func TestDrainAffinity(t *testing.T) {
	s := newDrainStage(t)
	sticky := func(pods ...*lab.Host) dataplane.Table {
		b := &builder{s.service(pods...)}
		return b.edit(0, func(_ *dataplane.Frontend, set *dataplane.EndpointSet) { set.Affinity = time.Hour }).Table
	}
	s.sync(sticky(s.Pod(2)))
	open := s.open()
	s.sync(sticky(s.Pod(2), s.Pod(3)))
	s.new("p2")
	s.sync(sticky(s.Pod(3)))
	s.new("p3")
	if err := open.Echo(); err != nil {
		t.Errorf("while its endpoint drains: %v", err)
	}
}

// A UDP endpoint goes at once, whatever it serves: its clients cannot know.
func TestDrainNoUDP(t *testing.T) {
	n := newNode(t, ipvs.Config{}, lab.WithPods(3))
	n.Pod(2).Serve(dataplane.UDP, 5353)
	n.Pod(3).Serve(dataplane.UDP, 5353)
	dns := func(pod *lab.Host) dataplane.Table {
		return newTable().add("default/dns", "10.96.0.10", dataplane.UDP, 53, on(dataplane.IPv4, 5353, pod)...).Table
	}
	n.sync(dns(n.Pod(2)))
	if got := lab.Probe(n.Pod(1), dataplane.UDP, addrPort("10.96.0.10:53"), lab.Options{}); got.Endpoint != "p2" {
		t.Fatalf("before: %s", got)
	}
	n.sync(dns(n.Pod(3)))
	if got := n.Node.Run("ipvsadm", "-Ln"); strings.Contains(got, "10.244.0.12") {
		t.Errorf("the old endpoint is still there:\n%s", got)
	}
}

// step makes one change as who follows a table does.
func (s *drainStage) step(f dataplane.Follower, before, after dataplane.Table) string {
	s.t.Helper()
	var changes []dataplane.Change
	s.Node.Do(func() {
		p, err := f.PlanChange(s.t.Context(), dataplane.Delta{Before: before, After: after})
		if errors.Is(err, dataplane.ErrForgotten) {
			p, err = f.Plan(s.t.Context(), after)
		}
		if err == nil {
			changes, err = p.Changes(), p.Apply(s.t.Context())
		}
		if err != nil {
			s.t.Fatal(err)
		}
	})
	return text(changes)
}

// Whoever follows a table by its changes lets endpoints drain too, and takes them
// away when it is time, whatever the next change is about.
func TestDrainFollowed(t *testing.T) {
	s := newDrainStage(t)
	follower := s.backend.Follow()
	step := func(before, after dataplane.Table) string { return s.step(follower, before, after) }
	all, left := s.service(s.Pod(2), s.Pod(3)), s.service(s.Pod(3))
	step(dataplane.Table{}, all)
	open := s.open()
	if got := step(all, left); !strings.HasPrefix(got, "~ real server 10.244.0.12:8080 ") || strings.Count(got, "\n") != 2 {
		t.Errorf("Pod 2 leaves; changes (its hairpin entry is one):\n%s", got)
	}
	if err := open.Echo(); err != nil {
		t.Errorf("while its endpoint drains: %v", err)
	}
	if got := step(dataplane.Table{}, dataplane.Table{}); got != "" {
		t.Errorf("nothing has changed, but\n%s", got)
	}
	s.now = s.now.Add(15 * time.Minute)
	if got := step(dataplane.Table{}, dataplane.Table{}); !strings.HasPrefix(got, "- real server 10.244.0.12:8080 ") {
		t.Errorf("over the limit; changes:\n%s", got)
	}
	if got := text(s.plan(left).Changes()); got != "" {
		t.Errorf("a whole pass finds\n%s", got)
	}
}

// local is a table with a Service of Pods 2 and 3 of which clients from outside have only
// those given; without any they are dropped.
func (s *drainStage) local(pods ...*lab.Host) dataplane.Table {
	b := newTable().add("default/web", "10.96.0.10", dataplane.TCP, 80, on(dataplane.IPv4, 8080, s.Pod(2), s.Pod(3))...)
	outside := &b.Frontends[0].Routes[dataplane.FromOutside]
	*outside = dataplane.Route{Verdict: dataplane.Drop}
	if len(pods) > 0 {
		*outside = dataplane.Route{Set: "default/web-local"}
		b.Sets = append(b.Sets, dataplane.EndpointSet{Name: "default/web-local", Service: "default/web", Protocol: dataplane.TCP,
			Endpoints: on(dataplane.IPv4, 8080, pods...)})
		b.Sort()
	}
	return b.Table
}

// A class of sources with endpoints of its own, the last of which leaves: whoever
// it serves stays served, and nobody new is.
func TestDrainByMark(t *testing.T) {
	t.Run("passes", func(t *testing.T) {
		s := newDrainStage(t)
		s.drainByMark(func(_, after dataplane.Table) string { return text(s.sync(after)) })
	})
	t.Run("followed", func(t *testing.T) {
		s := newDrainStage(t)
		f := s.backend.Follow()
		s.drainByMark(func(before, after dataplane.Table) string {
			got := s.step(f, before, after)
			if left := text(s.plan(after).Changes()); left != "" {
				t.Errorf("a pass finds\n%s", left)
			}
			return got
		})
	})
}

func (s *drainStage) drainByMark(move func(before, after dataplane.Table) string) {
	one, none := s.local(s.Pod(2)), s.local()
	move(dataplane.Table{}, one)
	open := lab.Open(s.Outside, s.at)
	if got := move(one, none); !strings.Contains(got, "~ real server 10.244.0.12:8080 of IPv4 mark ") {
		s.t.Fatalf("the last local endpoint leaves; changes:\n%s", got)
	}
	if err := open.Echo(); err != nil {
		s.t.Errorf("while it drains: %v", err)
	}
	if got := lab.Probe(s.Outside, dataplane.TCP, s.at, lab.Options{Timeout: 300 * time.Millisecond}); got.Fate != lab.Timeout {
		s.t.Errorf("new connection: %s, want it dropped", got)
	}
	move(none, one)
	if err := open.Echo(); err != nil {
		s.t.Errorf("the endpoint is back: %v", err)
	}
	move(one, none)
	s.now = s.now.Add(15 * time.Minute)
	move(none, none)
	if got := s.Node.Run("ipvsadm", "-Ln") + s.Node.Run("ipset", "list", "-n"); strings.Contains(got, "FWM") || strings.Contains(got, "TOY-MARK") {
		s.t.Errorf("over the limit, and still there:\n%s", got)
	}
}
