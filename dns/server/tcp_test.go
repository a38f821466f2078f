package server

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	mdns "github.com/miekg/dns"
)

// dial opens a connection to a server.
func dial(t testing.TB, at string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// framed is a message as TCP carries it.
func framed(t testing.TB, m *mdns.Msg) []byte {
	t.Helper()
	packet, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(packet))), packet...)
}

// next reads one message of a connection.
func next(t testing.TB, r io.Reader) *mdns.Msg {
	t.Helper()
	var length uint16
	if err := binary.Read(r, binary.BigEndian, &length); err != nil {
		t.Fatal(err)
	}
	packet := make([]byte, length)
	if _, err := io.ReadFull(r, packet); err != nil {
		t.Fatal(err)
	}
	m := new(mdns.Msg)
	if err := m.Unpack(packet); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestPipelining: many queries of one connection, sent at once and in odd pieces, are
// all answered; what takes longer does not hold up what does not (RFC 7766).
func TestPipelining(t *testing.T) {
	loopback(t)
	dir := t.TempDir()
	save(t, dir, service("web", "10.96.0.10"))
	hold := make(chan struct{})
	r := serveResolver(t, func(w mdns.ResponseWriter, m *mdns.Msg) {
		if m.Question[0].Qtype == mdns.TypeA {
			<-hold
		}
		records("300 A 198.51.100.7")(w, m)
	})
	l := start(t, dir, forwardTo(r.at))
	conn := dial(t, l.at)
	slow := query("slow.example", mdns.TypeA)
	all := framed(t, slow)
	asked := map[uint16]bool{}
	for i := range 50 {
		m := query("web.default.svc.cluster.local", mdns.TypeA)
		m.Id = slow.Id + 1 + uint16(i)
		asked[m.Id] = true
		all = append(all, framed(t, m)...)
	}
	for len(all) > 0 {
		n := min(7, len(all))
		if _, err := conn.Write(all[:n]); err != nil {
			t.Fatal(err)
		}
		all = all[n:]
	}
	read := bufio.NewReader(conn)
	for range 50 {
		reply := next(t, read)
		if !asked[reply.Id] {
			t.Fatalf("answer %d was not asked for, or twice", reply.Id)
		}
		delete(asked, reply.Id)
		expect(t, "a quick one", reply, "10.96.0.10")
	}
	close(hold)
	reply := next(t, read)
	expect(t, "the slow one", reply, "198.51.100.7")
	if reply.Id != slow.Id {
		t.Error("answer to another question")
	}
}

// TestStreamsOfOneClient: a client with more connections than one may have loses the
// last, and keeps nobody else out.
func TestStreamsOfOneClient(t *testing.T) {
	st := streams{open: map[net.Conn]netip.Addr{}}
	greedy, other := addrPort("10.244.0.5:1").Addr(), addrPort("10.244.0.6:1").Addr()
	pipe := func() net.Conn { a, _ := net.Pipe(); return a }
	for i := range mostOfOne + 1 {
		if got, want := st.admit(pipe(), greedy), i < mostOfOne; got != want {
			t.Fatalf("connection %d admitted: %t", i, got)
		}
	}
	conn := pipe()
	if !st.admit(conn, other) {
		t.Error("another client is kept out")
	}
	st.leave(conn)
	if len(st.open) != mostOfOne {
		t.Errorf("%d connections are open", len(st.open))
	}
	for i := len(st.open); i < mostStreams; i++ {
		st.open[pipe()] = other
	}
	if st.admit(pipe(), addrPort("10.244.0.7:1").Addr()) {
		t.Error("more connections than there may be")
	}
}

// TestEndOfStreams: at the end of the server idle connections are closed, and no new
// ones taken in.
func TestEndOfStreams(t *testing.T) {
	loopback(t)
	dir := t.TempDir()
	save(t, dir, service("web", "10.96.0.10"))
	l := start(t, dir, nil)
	conn := dial(t, l.at)
	_, _ = conn.Write(framed(t, query("web.default.svc.cluster.local", mdns.TypeA)))
	expect(t, "before", next(t, conn), "10.96.0.10")
	half := dial(t, l.at)
	_, _ = half.Write([]byte{0})
	if err := l.stop(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{conn, half} {
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the connection is open after the end: %v", err)
		}
	}
	if _, err := net.Dial("tcp", l.at); err == nil {
		t.Error("the port is open after the end")
	}
}
