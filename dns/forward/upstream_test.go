package forward

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	mdns "github.com/miekg/dns"
)

// TestLongAnswer: what is too long for UDP is asked for again by TCP.
func TestLongAnswer(t *testing.T) {
	r := serve(t, func(m *mdns.Msg, tcp bool) *mdns.Msg {
		reply := saying("60 A 10.0.0.1")(m, tcp)
		if !tcp {
			reply.Answer, reply.Truncated = nil, true
		}
		return reply
	})
	f := newForwarder(new(clock), 0, all(r.at))
	want(t, resolve(t, f, "a."), "NOERROR 10.0.0.1/60")
	if r.tcp.Load() != 1 {
		t.Errorf("asked %d times by TCP", r.tcp.Load())
	}
}

// TestWithoutEDNS: a resolver that does not understand EDNS is asked without, and from
// then on at once.
func TestWithoutEDNS(t *testing.T) {
	r := serve(t, func(m *mdns.Msg, tcp bool) *mdns.Msg {
		if m.IsEdns0() != nil {
			return failing(mdns.RcodeFormatError)(m, tcp)
		}
		return saying("60 A 10.0.0.1")(m, tcp)
	})
	f := newForwarder(new(clock), 0, all(r.at))
	want(t, resolve(t, f, "a."), "NOERROR 10.0.0.1/60")
	want(t, resolve(t, f, "b."), "NOERROR 10.0.0.1/60")
	if n := r.asked.Load(); n != 3 {
		t.Errorf("asked %d times", n)
	}
}

// TestForgedAnswers: packets that do not answer the question, by number, name, type or
// kind, are passed over; the true answer behind them counts.
func TestForgedAnswers(t *testing.T) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	forge := func(m *mdns.Msg, change func(*mdns.Msg)) []byte {
		reply := saying("60 A 10.6.6.6")(m, false)
		change(reply)
		packet, _ := reply.Pack()
		return packet
	}
	go func() {
		buffer := make([]byte, 512)
		n, from, err := conn.ReadFrom(buffer)
		m := new(mdns.Msg)
		if err != nil || m.Unpack(buffer[:n]) != nil {
			return
		}
		true_, _ := saying("60 A 10.0.0.1")(m, false).Pack()
		for _, packet := range [][]byte{
			forge(m, func(f *mdns.Msg) { f.Id++ }),
			forge(m, func(f *mdns.Msg) { f.Response = false }),
			forge(m, func(f *mdns.Msg) { f.Question[0].Name = "b." }),
			forge(m, func(f *mdns.Msg) { f.Question[0].Qtype = mdns.TypeAAAA }),
			forge(m, func(f *mdns.Msg) { f.Question = nil }),
			{1, 2, 3}, true_,
		} {
			_, _ = conn.WriteTo(packet, from)
		}
	}()
	f := newForwarder(new(clock), 0, all(netip.MustParseAddrPort(conn.LocalAddr().String())))
	want(t, resolve(t, f, "a."), "NOERROR 10.0.0.1/60")
}

// TestLostPacket: who says nothing the first time is asked once more.
func TestLostPacket(t *testing.T) {
	var first atomic.Bool
	r := serve(t, func(m *mdns.Msg, tcp bool) *mdns.Msg {
		if first.CompareAndSwap(false, true) {
			return nil
		}
		return saying("60 A 10.0.0.1")(m, tcp)
	})
	f := newForwarder(new(clock), 0, all(r.at))
	want(t, resolve(t, f, "a."), "NOERROR 10.0.0.1/60")
}

// TestNumbers: the numbers of queries differ, as do the ports that they leave from.
func TestNumbers(t *testing.T) {
	var mu sync.Mutex
	ids := map[uint16]bool{}
	r := serve(t, func(m *mdns.Msg, tcp bool) *mdns.Msg {
		mu.Lock()
		defer mu.Unlock()
		ids[m.Id] = true
		return saying("0 A 10.0.0.1")(m, tcp)
	})
	f := newForwarder(new(clock), 0, all(r.at))
	for range 20 {
		resolve(t, f, "a.")
	}
	mu.Lock()
	defer mu.Unlock()
	if len(ids) < 15 {
		t.Errorf("%d numbers for 20 queries", len(ids))
	}
}

// TestRest: each failure in a row doubles the time for which one is asked last.
func TestRest(t *testing.T) {
	u, now := &upstream{}, time.Unix(1, 0)
	var rests []time.Duration
	for range 8 {
		u.fared(net.ErrClosed, now)
		rests = append(rests, u.rests(now).Sub(now))
	}
	if want := []time.Duration{1, 2, 4, 8, 16, 30, 30, 30}; !slices.EqualFunc(rests, want, func(a, b time.Duration) bool { return a == b*time.Second }) {
		t.Errorf("rests %v", rests)
	}
	if u.fared(nil, now); !u.rests(now).IsZero() {
		t.Error("it rests after an answer")
	}
}

func TestParseUpstream(t *testing.T) {
	for text, want := range map[string]string{"192.0.2.53": "192.0.2.53:53", "192.0.2.53:5353": "192.0.2.53:5353", "2001:db8::53": "[2001:db8::53]:53",
		"[2001:db8::53]": "[2001:db8::53]:53", "[2001:db8::53]:54": "[2001:db8::53]:54", "": "", "dns.example": "", "192.0.2.53:x": ""} {
		got, err := ParseUpstream(text)
		if (err == nil) != (want != "") || err == nil && got.String() != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}
