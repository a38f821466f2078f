package server

import (
	"net"
	"strings"
	"testing"
	"time"

	mdns "github.com/miekg/dns"
)

// TestForward: other names are asked of a resolver, in the case the client used, and
// once for as long as the answer says; what the resolver has not is NXDOMAIN.
func TestForward(t *testing.T) {
	loopback(t)
	r := serveResolver(t, func(w mdns.ResponseWriter, m *mdns.Msg) {
		if !strings.EqualFold(m.Question[0].Name, "www.example.org.") {
			_ = w.WriteMsg(new(mdns.Msg).SetRcode(m, mdns.RcodeNameError))
			return
		}
		records("300 A 198.51.100.7")(w, m)
	})
	l := start(t, t.TempDir(), forwardTo(r.at))
	for _, name := range []string{"www.example.org.", "WWW.example.ORG."} {
		reply := ask(t, "udp", l.at, query(name, mdns.TypeA))
		expect(t, name, reply, "198.51.100.7")
		if reply.Authoritative || !reply.RecursionAvailable || reply.Answer[0].Header().Name != name {
			t.Errorf("reply %v", reply)
		}
	}
	expect(t, "another name", ask(t, "tcp", l.at, query("nobody.example.org", mdns.TypeA)), "NXDOMAIN")
	if n := r.count("www.example.org."); n != 1 {
		t.Errorf("the resolver was asked %d times", n)
	}
	if !strings.Contains(l.log.String(), "") {
		t.Error("no log")
	}
}

// TestNobodyToAsk: without a forwarder, or a route, other names are refused; when no
// resolver answers they fail, and the log says why.
func TestNobodyToAsk(t *testing.T) {
	loopback(t)
	refusing := start(t, t.TempDir(), nil)
	expect(t, "without forwarder", ask(t, "udp", refusing.at, query("example.org", mdns.TypeA)), "REFUSED")
	routeless := start(t, t.TempDir(), forwardTo())
	expect(t, "without route", ask(t, "udp", routeless.at, query("example.org", mdns.TypeA)), "REFUSED")
	free, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := addrPort(free.LocalAddr().String())
	_ = free.Close()
	failing := start(t, t.TempDir(), forwardTo(nobody))
	expect(t, "without answer", ask(t, "udp", failing.at, query("example.org", mdns.TypeA)), "SERVFAIL")
	eventually(t, "the log names the resolver", func() bool { return strings.Contains(failing.log.String(), nobody.String()) })
}

// TestExternalName: the records of the name outside follow the CNAME; when it does not
// exist the reply says so; without a forwarder the client has the CNAME.
func TestExternalName(t *testing.T) {
	loopback(t)
	r := serveResolver(t, func(w mdns.ResponseWriter, m *mdns.Msg) {
		if m.Question[0].Name != "db.example.org." {
			_ = w.WriteMsg(new(mdns.Msg).SetRcode(m, mdns.RcodeNameError))
			return
		}
		records("300 A 198.51.100.7", "300 AAAA 2001:db8::7")(w, m)
	})
	dir := t.TempDir()
	save(t, dir, externalName("db", "db.example.org"), externalName("gone", "gone.example.org"))
	l := start(t, dir, forwardTo(r.at))
	expect(t, "A", ask(t, "udp", l.at, query("db.default.svc.cluster.local", mdns.TypeA)), "198.51.100.7", "db.example.org.")
	expect(t, "AAAA", ask(t, "udp", l.at, query("db.default.svc.cluster.local", mdns.TypeAAAA)), "2001:db8::7", "db.example.org.")
	gone := ask(t, "udp", l.at, query("gone.default.svc.cluster.local", mdns.TypeA))
	expect(t, "a target that is not there", gone, "gone.example.org.")
	if gone.Rcode != mdns.RcodeNameError {
		t.Errorf("response code %s", mdns.RcodeToString[gone.Rcode])
	}
	alone := start(t, dir, nil)
	expect(t, "without forwarder", ask(t, "udp", alone.at, query("db.default.svc.cluster.local", mdns.TypeA)), "db.example.org.")
}

// TestServiceChangesKind: after an ExternalName has become a Service of the cluster,
// and back, the next answer is of the new kind (kubernetes/ingress-nginx#8308).
func TestServiceChangesKind(t *testing.T) {
	loopback(t)
	dir := t.TempDir()
	l := start(t, dir, nil)
	_, slice := headless("s", 2)
	bare, _ := headless("s", 0)
	for range 3 {
		save(t, dir, externalName("s", "old.example"))
		expect(t, "ExternalName", ask(t, "udp", l.at, query("s.default.svc.cluster.local", mdns.TypeA)), "old.example.")
		save(t, dir, service("s", "10.96.0.44"), slice)
		expect(t, "ClusterIP", ask(t, "udp", l.at, query("s.default.svc.cluster.local", mdns.TypeA)), "10.96.0.44")
		save(t, dir, bare)
		expect(t, "headless", ask(t, "udp", l.at, query("s.default.svc.cluster.local", mdns.TypeA)), "10.244.0.1", "10.244.0.2")
	}
}

// TestLoop: a resolver that sends queries back is found, named, and asked no more; other
// resolvers go on, and so does the cluster's zone. When it has been put right it is
// asked again.
func TestLoop(t *testing.T) {
	loopback(t)
	dir := t.TempDir()
	save(t, dir, service("web", "10.96.0.10"))
	good := serveResolver(t, records("300 A 198.51.100.7"))
	var l *lab
	ready := make(chan struct{})
	bad := serveResolver(t, func(w mdns.ResponseWriter, m *mdns.Msg) {
		<-ready
		reply, _, err := (&mdns.Client{Timeout: patience}).Exchange(m.Copy(), l.at)
		if err != nil {
			return
		}
		_ = w.WriteMsg(reply)
	})
	l = start(t, dir, forwardTo(bad.at, good.at))
	close(ready)
	eventually(t, "the resolver is named", func() bool { return strings.Contains(l.told.String(), bad.at.String()+" sends queries back") })
	if got := l.config.Forwarder.Looping(); len(got) != 1 || got[0] != bad.at {
		t.Errorf("looping: %v", got)
	}
	expect(t, "another name", ask(t, "udp", l.at, query("example.org", mdns.TypeA)), "198.51.100.7")
	expect(t, "the zone", ask(t, "udp", l.at, query("web.default.svc.cluster.local", mdns.TypeA)), "10.96.0.10")
	if n := bad.count("example.org."); n != 0 {
		t.Errorf("the resolver in the circle was asked %d times", n)
	}
}

// TestSlowResolver: while a resolver is silent, clients that ask for the cluster's names
// are answered at once; the end of the server waits for who was promised an answer.
func TestSlowResolver(t *testing.T) {
	loopback(t)
	dir := t.TempDir()
	save(t, dir, service("web", "10.96.0.10"))
	begun, hold := make(chan struct{}, 10), make(chan struct{})
	r := serveResolver(t, func(w mdns.ResponseWriter, m *mdns.Msg) {
		if m.Question[0].Qtype == mdns.TypeA {
			begun <- struct{}{}
			<-hold
		}
		records("300 A 198.51.100.7")(w, m)
	})
	l := start(t, dir, forwardTo(r.at))
	slow := make(chan *mdns.Msg, 2)
	for _, network := range []string{"udp", "tcp"} {
		go func() {
			reply, _, _ := (&mdns.Client{Net: network, Timeout: patience}).Exchange(query(network+".example", mdns.TypeA), l.at)
			slow <- reply
		}()
		<-begun
	}
	expect(t, "meanwhile", ask(t, "udp", l.at, query("web.default.svc.cluster.local", mdns.TypeA)), "10.96.0.10")
	ended := make(chan error)
	go func() { ended <- l.stop() }()
	time.AfterFunc(50*time.Millisecond, func() { close(hold) })
	for range 2 {
		if reply := <-slow; reply == nil {
			t.Error("a query in progress has no answer at the end")
		} else {
			expect(t, "at the end", reply, "198.51.100.7")
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
