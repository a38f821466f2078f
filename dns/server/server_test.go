package server

import (
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	mdns "github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/toyproxy/toyproxy/cluster"
)

// TestNextQuerySees: an object that changed before a query has changed its answer
// (lesson L20), by UDP and TCP alike.
func TestNextQuerySees(t *testing.T) {
	loopback(t)
	dir := t.TempDir()
	l := start(t, dir, func(c *Config) { c.Log = LogOff })
	for i := range 1000 {
		network := []string{"udp", "tcp"}[i%10/9] // every tenth by TCP
		ip := fmt.Sprintf("10.96.%d.%d", i/250, i%250+1)
		save(t, dir, service("web", ip))
		reply := ask(t, network, l.at, query("web.default.svc.cluster.local", mdns.TypeA))
		if got := addresses(reply); len(got) != 1 || got[0] != ip {
			t.Fatalf("round %d: %v just after %s was written", i, got, ip)
		}
		if i%7 == 0 {
			if err := services(dir).Delete(named("web")); err != nil {
				t.Fatal(err)
			}
			expect(t, "just after it was deleted", ask(t, network, l.at, query("web.default.svc.cluster.local", mdns.TypeA)), "NXDOMAIN")
		}
	}
}

// TestLongAnswers: by UDP as long as the client says it can take, with TC; by TCP all
// (coredns/coredns#4684).
func TestLongAnswers(t *testing.T) {
	loopback(t)
	dir := t.TempDir()
	svc, slice := headless("many", 100)
	save(t, dir, svc, slice)
	l := start(t, dir, nil)
	for _, c := range []struct {
		network string
		edns    uint16
		most    int
		whole   bool
	}{
		{"udp", 0, 512, false}, {"udp", 100, 512, false}, {"udp", 800, 800, false}, {"udp", 1232, 1232, false}, {"udp", 4096, 1232, false},
		{"tcp", 0, 65535, true}, {"tcp", 512, 65535, true},
	} {
		m := query("many.default.svc.cluster.local", mdns.TypeA)
		if c.edns > 0 {
			m.SetEdns0(c.edns, false)
		}
		reply := ask(t, c.network, l.at, m)
		reply.Compress = true // as it came
		packet, err := reply.Pack()
		if err != nil {
			t.Fatal(err)
		}
		if whole := len(reply.Answer) == 100; whole != c.whole || reply.Truncated == c.whole || len(packet) > c.most {
			t.Errorf("%s with %d: %d records in %d bytes, TC %t", c.network, c.edns, len(reply.Answer), len(packet), reply.Truncated)
		}
		if opt := reply.IsEdns0(); (opt != nil) != (c.edns > 0) {
			t.Errorf("%s with %d: OPT %v", c.network, c.edns, opt)
		}
	}
}

// TestOddPackets: what is no ordinary query gets the response code that says so, or no
// answer at all, and never ends the server.
func TestOddPackets(t *testing.T) {
	loopback(t)
	dir := t.TempDir()
	save(t, dir, service("web", "10.96.0.10"))
	l := start(t, dir, nil)
	web := query("web.default.svc.cluster.local", mdns.TypeA)
	edit := func(change func(m *mdns.Msg)) []byte {
		m := web.Copy()
		change(m)
		packet, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		return packet
	}
	for name, c := range map[string]struct {
		packet []byte
		want   string
	}{
		"good":             {edit(func(*mdns.Msg) {}), "NOERROR"},
		"two questions":    {edit(func(m *mdns.Msg) { m.Question = append(m.Question, m.Question[0]) }), "FORMERR"},
		"no question":      {edit(func(m *mdns.Msg) { m.Question = nil }), "FORMERR"},
		"a notification":   {edit(func(m *mdns.Msg) { m.Opcode = mdns.OpcodeNotify }), "NOTIMP"},
		"an update":        {edit(func(m *mdns.Msg) { m.Opcode = mdns.OpcodeUpdate }), "NOTIMP"},
		"EDNS 1":           {edit(func(m *mdns.Msg) { m.SetEdns0(1232, false); m.IsEdns0().SetVersion(1) }), "BADVERS"},
		"EDNS twice":       {edit(func(m *mdns.Msg) { m.SetEdns0(1232, false); m.Extra = append(m.Extra, m.Extra[0]) }), "FORMERR"},
		"a transfer":       {edit(func(m *mdns.Msg) { m.Question[0].Qtype = mdns.TypeAXFR }), "REFUSED"},
		"class HESIOD":     {edit(func(m *mdns.Msg) { m.Question[0].Qclass = mdns.ClassHESIOD }), "REFUSED"},
		"cut off":          {edit(func(*mdns.Msg) {})[:20], "FORMERR"},
		"a loop of labels": {mustHex("123401000001000000000000c00c00010001"), "FORMERR"},
		"a response":       {edit(func(m *mdns.Msg) { m.Response = true }), ""},
		"half a header":    {edit(func(*mdns.Msg) {})[:11], ""},
		"nothing":          {nil, ""},
	} {
		conn, err := net.Dial("udp", l.at)
		if err != nil {
			t.Fatal(err)
		}
		// The good one behind it tells when there is nothing more to come.
		good := web.Copy()
		good.Id = web.Id + 1
		last, _ := good.Pack()
		_, _ = conn.Write(c.packet)
		_, _ = conn.Write(last)
		if got := nextBefore(t, conn, good.Id); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		_ = conn.Close()
	}
}

// nextBefore returns the response code of the packet that comes before one with a
// number; empty when that is the first.
func nextBefore(t *testing.T, conn net.Conn, last uint16) string {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	buffer := make([]byte, 4096)
	got := ""
	for {
		n, err := conn.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		var m mdns.Msg
		if err := m.Unpack(buffer[:n]); err != nil {
			t.Fatalf("reply % x: %v", buffer[:n], err)
		}
		if m.Id == last {
			return got
		}
		got = rcodeName(m.Rcode)
	}
}

func mustHex(text string) []byte {
	b, err := hex.DecodeString(text)
	if err != nil {
		panic(err)
	}
	return b
}

// TestAccess: Pods, nodes and those allowed are served, others refused; a Node that
// goes is served no more.
func TestAccess(t *testing.T) {
	loopback(t)
	dir := t.TempDir()
	save(t, dir, service("web", "10.96.0.10"))
	l := start(t, dir, func(c *Config) { c.Allow = prefixes("10.244.0.0/16", "fd00:10:244::/56") })
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: corev1.NodeSpec{PodCIDRs: []string{"10.245.1.0/24"}},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.11"}, {Type: corev1.NodeHostName, Address: "n1"}}}}
	check := func(when, client, want string) {
		t.Helper()
		packet, _ := query("web.default.svc.cluster.local", mdns.TypeA).Pack()
		x := &exchange{client: addrPort(client)}
		if l.begin(x, packet); mdns.RcodeToString[x.reply.Rcode] != want {
			t.Errorf("%s: client %s has %s, want %s", when, client, mdns.RcodeToString[x.reply.Rcode], want)
		}
	}
	for client, want := range map[string]string{"10.244.3.4:1": "NOERROR", "[::ffff:10.244.3.4]:1": "NOERROR", "[fd00:10:244::5]:1": "NOERROR",
		"127.0.0.9:1": "NOERROR", "[::1]:1": "NOERROR", "10.243.0.1:1": "REFUSED", "[2001:db8::1]:1": "REFUSED", "192.0.2.11:1": "REFUSED"} {
		check("without nodes", client, want)
	}
	save(t, dir, node)
	l.live.catch()
	for client, want := range map[string]string{"192.0.2.11:1": "NOERROR", "10.245.1.7:1": "NOERROR", "192.0.2.12:1": "REFUSED"} {
		check("with a node", client, want)
	}
	node.Status.Addresses[0].Address = "192.0.2.12"
	save(t, dir, node)
	l.live.catch()
	check("with another address", "192.0.2.12:1", "NOERROR")
	check("with another address", "192.0.2.11:1", "REFUSED")
}

// faulty is a source that shows a fault of the program while it is broken.
type faulty struct {
	Source
	broken atomic.Bool
}

func (f *faulty) Catch() ([]cluster.Event, error) {
	if f.broken.Load() {
		panic("a fault")
	}
	return f.Source.Catch()
}

// TestFault: a fault of the program costs the query that shows it a SERVFAIL, is told,
// and ends nothing.
func TestFault(t *testing.T) {
	loopback(t)
	source := &faulty{}
	l := start(t, t.TempDir(), func(c *Config) { source.Source, c.Source = c.Source, source })
	eventually(t, "ready", l.Ready)
	source.broken.Store(true)
	save(t, l.dir, service("web", "10.96.0.10"))
	for _, network := range []string{"udp", "tcp"} {
		expect(t, network, ask(t, network, l.at, query("web.default.svc.cluster.local", mdns.TypeA)), "SERVFAIL")
	}
	eventually(t, "it is told", func() bool {
		text := l.told.String()
		return strings.Contains(text, "a query showed a fault") && strings.Contains(text, "a change showed a fault")
	})
	source.broken.Store(false)
	expect(t, "afterwards", ask(t, "udp", l.at, query("web.default.svc.cluster.local", mdns.TypeA)), "10.96.0.10")
}

// TestVersion: the server says who it is, in class CH only.
func TestVersion(t *testing.T) {
	loopback(t)
	l := start(t, t.TempDir(), nil)
	m := query("Version.Bind", mdns.TypeTXT)
	m.Question[0].Qclass = mdns.ClassCHAOS
	reply := ask(t, "udp", l.at, m)
	if len(reply.Answer) != 1 || !strings.Contains(reply.Answer[0].String(), `"toyproxy 1.2.3"`) {
		t.Errorf("version: %v", reply)
	}
	m.Question[0].Name = "hostname.bind."
	expect(t, "another name", ask(t, "udp", l.at, m), "REFUSED")
}

// TestQueryLog: one line a query, as CoreDNS writes it; errors only when only they are
// asked for.
func TestQueryLog(t *testing.T) {
	loopback(t)
	dir := t.TempDir()
	save(t, dir, service("web", "10.96.0.10"))
	for level, want := range map[LogLevel][]string{
		LogAll:    {`"A IN web.default.svc.cluster.local. udp 47 false 512" NOERROR qr,aa,rd 92 0.`, `"A IN \"evil\010.example. udp`, `REFUSED qr,rd`},
		LogErrors: {`"A IN \"evil\010.example. udp`},
		LogOff:    nil,
	} {
		l := start(t, dir, func(c *Config) { c.Log = level })
		ask(t, "udp", l.at, query("web.default.svc.cluster.local", mdns.TypeA))
		ask(t, "udp", l.at, query("\"evil\\010.example", mdns.TypeA))
		if err := l.stop(); err != nil {
			t.Fatal(err)
		}
		text := l.log.String()
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s: %q is not in the log:\n%s", level, w, text)
			}
		}
		if lines := map[LogLevel]int{LogAll: 2, LogErrors: 1}[level]; strings.Count(text, "\n") != lines {
			t.Errorf("%s: %q, want %d lines", level, text, lines)
		}
	}
}

// TestWeb: metrics have CoreDNS's names; health and readiness follow the server's life.
func TestWeb(t *testing.T) {
	loopback(t)
	dir := t.TempDir()
	save(t, dir, service("web", "10.96.0.10"))
	l := start(t, dir, nil)
	ask(t, "tcp", l.at, query("web.default.svc.cluster.local", mdns.TypeA))
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		l.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		text, _ := io.ReadAll(w.Result().Body)
		return w.Code, string(text)
	}
	server := `server="dns://127.0.0.1:0"`
	for _, want := range []string{
		`toyproxy_dns_requests_total{family="1",proto="tcp",` + server + `,type="A",view="",zone="cluster.local."} 1`,
		`toyproxy_dns_responses_total{plugin="kubernetes",rcode="NOERROR",` + server + `,view="",zone="cluster.local."} 1`,
		`toyproxy_dns_request_duration_seconds_count{` + server + `,view="",zone="cluster.local."} 1`,
		`toyproxy_dns_object_events_total{kind="Service",operation="added"} 1`,
	} {
		// The reply is sent before it is counted.
		eventually(t, want, func() bool { _, text := get("/metrics"); return strings.Contains(text, want) })
	}
	for _, path := range []string{"/health", "/ready"} {
		if code, text := get(path); code != http.StatusOK || text != "OK" {
			t.Errorf("%s: %d %q", path, code, text)
		}
	}
	if err := l.stop(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/health", "/ready"} {
		if code, _ := get(path); code != http.StatusServiceUnavailable {
			t.Errorf("%s at the end: %d", path, code)
		}
	}
}
