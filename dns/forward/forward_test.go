package forward

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	mdns "github.com/miekg/dns"
)

// clock is a time that tests set.
type clock struct{ now atomic.Int64 }

func (c *clock) Now() time.Time          { return time.Unix(1_000_000, c.now.Load()) }
func (c *clock) forward(d time.Duration) { c.now.Add(int64(d)) }
func newForwarder(c *clock, most int, routes ...Route) *Forwarder {
	return New(Config{Routes: routes, Cache: most, Now: c.Now})
}

func all(upstreams ...netip.AddrPort) Route { return Route{Zone: ".", Upstreams: upstreams} }

// resolver is a resolver on a port of loopback.
type resolver struct {
	at    netip.AddrPort
	asked atomic.Int64
	tcp   atomic.Int64
}

// serve answers with what a function makes of a question; nil is silence.
func serve(t *testing.T, answer func(m *mdns.Msg, tcp bool) *mdns.Msg) *resolver {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	packets, err := net.ListenPacket("udp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	r := &resolver{at: netip.MustParseAddrPort(listener.Addr().String())}
	handler := mdns.HandlerFunc(func(w mdns.ResponseWriter, m *mdns.Msg) {
		r.asked.Add(1)
		_, tcp := w.RemoteAddr().(*net.TCPAddr)
		if tcp {
			r.tcp.Add(1)
		}
		if reply := answer(m, tcp); reply != nil {
			_ = w.WriteMsg(reply)
		}
	})
	for _, s := range []*mdns.Server{{Listener: listener, Handler: handler}, {PacketConn: packets, Handler: handler}} {
		up := make(chan struct{})
		s.NotifyStartedFunc = func() { close(up) }
		go func() { _ = s.ActivateAndServe() }()
		<-up
		t.Cleanup(func() { _ = s.Shutdown() })
	}
	return r
}

// saying answers with records of the name asked for.
func saying(texts ...string) func(m *mdns.Msg, tcp bool) *mdns.Msg {
	return func(m *mdns.Msg, _ bool) *mdns.Msg {
		reply := new(mdns.Msg).SetReply(m)
		for _, text := range texts {
			rr, err := mdns.NewRR(m.Question[0].Name + " " + text)
			if err != nil {
				panic(err)
			}
			reply.Answer = append(reply.Answer, rr)
		}
		return reply
	}
}

func failing(rcode int) func(m *mdns.Msg, tcp bool) *mdns.Msg {
	return func(m *mdns.Msg, _ bool) *mdns.Msg { return new(mdns.Msg).SetRcode(m, rcode) }
}

// nobody is where nobody answers.
func nobody(t *testing.T) netip.AddrPort {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return netip.MustParseAddrPort(conn.LocalAddr().String())
}

func question(name string) mdns.Question {
	return mdns.Question{Name: name, Qtype: mdns.TypeA, Qclass: mdns.ClassINET}
}

// resolve returns the answer as text: response code, then addresses with their TTLs.
func resolve(t *testing.T, f *Forwarder, name string) string {
	t.Helper()
	r, err := f.Resolve(t.Context(), question(name), false)
	if err != nil {
		return err.Error()
	}
	out := []string{mdns.RcodeToString[r.Rcode]}
	for _, rr := range r.Answer {
		fields := strings.Fields(rr.String())
		out = append(out, fields[4]+"/"+fields[1])
	}
	return strings.Join(out, " ")
}

func want(t *testing.T, got, wanted string) {
	t.Helper()
	if got != wanted {
		t.Errorf("%s, want %s", got, wanted)
	}
}

// TestRoutes: the longest zone counts, whole labels only; a zone without upstreams, and
// a name without a zone, are nobody's.
func TestRoutes(t *testing.T) {
	rest, corp, lab := serve(t, saying("60 A 10.0.0.1")), serve(t, saying("60 A 10.0.0.2")), serve(t, saying("60 A 10.0.0.3"))
	routes := []Route{{Zone: "corp.example", Upstreams: []netip.AddrPort{corp.at}}, {Zone: "Lab.corp.example.", Upstreams: []netip.AddrPort{lab.at}},
		{Zone: "secret.example"}}
	f := newForwarder(new(clock), 0, append(routes, all(rest.at))...)
	for name, answer := range map[string]string{"example.": "10.0.0.1", "corp.example.": "10.0.0.2", "a.corp.example.": "10.0.0.2",
		"a.LAB.corp.example.": "10.0.0.3", "xcorp.example.": "10.0.0.1"} {
		want(t, resolve(t, f, name), "NOERROR "+answer+"/60")
	}
	for _, f := range []*Forwarder{f, newForwarder(new(clock), 0, routes...)} {
		if _, err := f.Resolve(t.Context(), question("a.secret.example."), false); !errors.Is(err, ErrNoRoute) {
			t.Errorf("a zone of nobody: %v", err)
		}
	}
	f.SetRoutes(nil)
	if _, err := f.Resolve(t.Context(), question("example."), false); !errors.Is(err, ErrNoRoute) {
		t.Errorf("without routes: %v", err)
	}
}

// TestFailover: one that fails is asked last for a while; when all fail the error names
// each.
func TestFailover(t *testing.T) {
	broken, good := serve(t, failing(mdns.RcodeServerFailure)), serve(t, saying("0 A 10.0.0.1"))
	gone, at := nobody(t), new(clock)
	f := newForwarder(at, 0, all(gone, broken.at, good.at))
	var seen []string
	f.config.Observe = func(e Exchange) { seen = append(seen, fmt.Sprint(e.To == gone, e.Rcode, e.Err != nil)) }
	want(t, resolve(t, f, "a."), "NOERROR 10.0.0.1/0")
	if !slices.Equal(seen, []string{"true 0 true", "false 2 false", "false 0 false"}) {
		t.Errorf("exchanges %q", seen)
	}
	seen = nil
	want(t, resolve(t, f, "b."), "NOERROR 10.0.0.1/0")
	if len(seen) != 2 {
		t.Errorf("with one at rest: %q", seen)
	}
	at.forward(2 * restingMost)
	seen = nil
	want(t, resolve(t, f, "c."), "NOERROR 10.0.0.1/0")
	if len(seen) != 3 {
		t.Errorf("after the rest: %q", seen)
	}
	f.SetRoutes([]Route{all(gone, broken.at)})
	if got := resolve(t, f, "d."); !strings.Contains(got, gone.String()+": ") || !strings.Contains(got, broken.at.String()+": answers SERVFAIL") {
		t.Errorf("when all fail: %q", got)
	}
}

// TestCache: an answer is kept for as long as it says, with what is left as its TTL; a
// denial for as long as its SOA says; what fails is not kept.
func TestCache(t *testing.T) {
	r := serve(t, func(m *mdns.Msg, tcp bool) *mdns.Msg {
		switch m.Question[0].Name {
		case "a.":
			return saying("100 A 10.0.0.1", "20 A 10.0.0.2")(m, tcp)
		case "none.":
			reply := failing(mdns.RcodeNameError)(m, tcp)
			soa, _ := mdns.NewRR(". 900 IN SOA ns. host. 1 2 3 4 30")
			reply.Ns = []mdns.RR{soa}
			return reply
		case "bare.":
			return failing(mdns.RcodeNameError)(m, tcp)
		}
		return failing(mdns.RcodeRefused)(m, tcp)
	})
	at := new(clock)
	f := newForwarder(at, 10, all(r.at))
	for _, step := range []struct {
		pass  time.Duration
		name  string
		want  string
		asked int64
	}{
		{0, "a.", "NOERROR 10.0.0.1/100 10.0.0.2/20", 1},
		{5 * time.Second, "A.", "NOERROR 10.0.0.1/15 10.0.0.2/15", 1},
		{14900 * time.Millisecond, "a.", "NOERROR 10.0.0.1/1 10.0.0.2/1", 1},
		{100 * time.Millisecond, "a.", "NOERROR 10.0.0.1/100 10.0.0.2/20", 2},
		{0, "none.", "NXDOMAIN", 3}, {29 * time.Second, "none.", "NXDOMAIN", 3}, {time.Second, "none.", "NXDOMAIN", 4},
		{0, "bare.", "NXDOMAIN", 5}, {0, "bare.", "NXDOMAIN", 6},
	} {
		at.forward(step.pass)
		want(t, resolve(t, f, step.name), step.want)
		if n := r.asked.Load(); n != step.asked {
			t.Errorf("%s after %s: the resolver was asked %d times, want %d", step.name, step.pass, n, step.asked)
		}
	}
	for range 2 {
		resolve(t, f, "refused.")
	}
	if n := r.asked.Load(); n != 8 {
		t.Errorf("a failure was kept: asked %d times", n)
	}
}

// TestCacheIsBounded: in number and in bytes; those used last stay. What others are
// given is theirs.
func TestCacheIsBounded(t *testing.T) {
	c := newCache(3)
	now := time.Unix(1, 0)
	rr, _ := mdns.NewRR("a. 60 IN A 10.0.0.1")
	k := func(i int) key { return key{name: fmt.Sprintf("n%d.", i)} }
	for i := range 5 {
		c.put(k(i), Reply{Answer: []mdns.RR{rr}}, now)
		c.get(k(0), now)
	}
	for i, stays := range []bool{true, false, false, true, true} {
		reply, ok := c.get(k(i), now)
		if ok != stays {
			t.Errorf("answer %d is kept: %t", i, ok)
		}
		if ok {
			reply.Answer[0].Header().Ttl = 1
		}
	}
	if reply, _ := c.get(k(0), now); reply.Answer[0].Header().Ttl != 60 {
		t.Error("a caller has changed what is kept")
	}
	big, _ := mdns.NewRR(`a. 60 IN TXT "` + strings.Repeat("x", 200) + `"`)
	large := Reply{Answer: slices.Repeat([]mdns.RR{big}, 200)}
	c = newCache(100_000)
	for i := range 1000 {
		c.put(k(i), large, now)
	}
	if c.bytes > cacheBytes || c.count() < 100 {
		t.Errorf("%d answers of %d bytes", c.count(), c.bytes)
	}
	c.clear()
	if _, ok := c.get(k(999), now); ok || c.bytes != 0 {
		t.Error("something is left after all is forgotten")
	}
}

// TestOneForAll: those who ask the same at the same time wait for one answer, and who
// gives up leaves it to the others.
func TestOneForAll(t *testing.T) {
	begun, hold := make(chan struct{}, 10), make(chan struct{})
	r := serve(t, func(m *mdns.Msg, tcp bool) *mdns.Msg {
		begun <- struct{}{}
		<-hold
		return saying("60 A 10.0.0.1")(m, tcp)
	})
	f := newForwarder(new(clock), 0, all(r.at))
	impatient, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error)
	go func() {
		_, err := f.Resolve(impatient, question("a."), false)
		gaveUp <- err
	}()
	<-begun
	var waiting sync.WaitGroup
	for range 20 {
		waiting.Go(func() { want(t, resolve(t, f, "A."), "NOERROR 10.0.0.1/60") })
	}
	cancel()
	if err := <-gaveUp; !errors.Is(err, context.Canceled) {
		t.Errorf("who gave up: %v", err)
	}
	close(hold)
	waiting.Wait()
	// A late one may have come after the answer, and asked again.
	if n := r.asked.Load(); n > 3 {
		t.Errorf("the resolver was asked %d times", n)
	}
}
