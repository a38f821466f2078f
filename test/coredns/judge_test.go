package coredns

import (
	"bytes"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	mdns "github.com/miekg/dns"

	"github.com/toyproxy/toyproxy/test/coredns/apiserver"
)

// judge is a CoreDNS that serves the objects of an API server.
type judge struct {
	addr string
	conn *mdns.Conn
	pid  int
}

// corefile is that of a cluster, without a cache: TTLs are to be seen as they are.
const corefile = `.:%d {
    errors
    kubernetes %s in-addr.arpa ip6.arpa {
        endpoint %s
        pods verified
        ttl 5
        fallthrough in-addr.arpa ip6.arpa
    }
    forward . %s
}
`

// startJudge builds CoreDNS and starts it; it ends with the test.
func startJudge(t testing.TB, api *apiserver.Server, upstream string) *judge {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "coredns")
	began := time.Now()
	if out, err := exec.Command("go", "build", "-o", program, "./server").CombinedOutput(); err != nil {
		t.Fatalf("build of CoreDNS: %v\n%s", err, out)
	}
	t.Logf("CoreDNS built in %.1f s", time.Since(began).Seconds())
	web := httptest.NewServer(api)
	t.Cleanup(web.Close)
	t.Cleanup(web.CloseClientConnections)

	port := freePort(t)
	config := filepath.Join(dir, "Corefile")
	if err := os.WriteFile(config, fmt.Appendf(nil, corefile, port, domain, web.URL, upstream), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.Command(program, "-conf", config)
	cmd.Stdout, cmd.Stderr = &log, &log
	// it ends with us, however we end
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("CoreDNS said:\n%s", log.String())
		}
	})
	j := &judge{addr: fmt.Sprintf("127.0.0.1:%d", port), pid: cmd.Process.Pid}
	t.Cleanup(func() { j.close() })
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if m, err := j.try(mdns.Question{Name: domain + ".", Qtype: mdns.TypeSOA, Qclass: mdns.ClassINET}); err == nil && m.Rcode == mdns.RcodeSuccess {
			return j
		}
		if len(ended) > 0 {
			break
		}
	}
	t.Fatal("CoreDNS does not answer")
	return nil
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func (j *judge) close() {
	if j.conn != nil {
		j.conn.Close()
		j.conn = nil
	}
}

// try asks by TCP, so that no answer is cut; a connection serves many questions.
func (j *judge) try(q mdns.Question) (*mdns.Msg, error) {
	m := new(mdns.Msg)
	m.Id, m.RecursionDesired, m.Question = mdns.Id(), true, []mdns.Question{q}
	client := mdns.Client{Net: "tcp", Timeout: 10 * time.Second}
	if j.conn != nil {
		if answer, _, err := client.ExchangeWithConn(m, j.conn); err == nil {
			return answer, nil
		}
		j.close() // a server closes one after some time, or some questions
	}
	conn, err := client.Dial(j.addr)
	if err != nil {
		return nil, err
	}
	j.conn = conn
	answer, _, err := client.ExchangeWithConn(m, conn)
	return answer, err
}

func (j *judge) ask(t testing.TB, q mdns.Question) *mdns.Msg {
	t.Helper()
	m, err := j.try(q)
	if err != nil {
		t.Fatalf("CoreDNS, asked for %s: %v", q.String(), err)
	}
	return m
}

// await asks until the answer is what is wanted.
func (j *judge) await(t testing.TB, q mdns.Question, done func(*mdns.Msg) bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if done(j.ask(t, q)) {
			return
		}
	}
	t.Fatalf("CoreDNS has not seen the change behind %s", q.String())
}

// upstream is what the world outside of the zone says: one address a family for each
// name that is not "missing", and names for no address.
func upstream(q mdns.Question) (rcode int, answer []mdns.RR) {
	header := mdns.RR_Header{Name: q.Name, Rrtype: q.Qtype, Class: q.Qclass, Ttl: 60}
	switch name := strings.ToLower(q.Name); {
	case strings.HasSuffix(name, ".arpa."), strings.HasPrefix(name, "missing."):
		return mdns.RcodeNameError, nil
	case q.Qtype == mdns.TypeA:
		return 0, []mdns.RR{&mdns.A{Hdr: header, A: net.IPv4(192, 0, 2, 10)}}
	case q.Qtype == mdns.TypeAAAA:
		return 0, []mdns.RR{&mdns.AAAA{Hdr: header, AAAA: net.ParseIP("2001:db8::10")}}
	}
	return 0, nil
}

// startUpstream serves that.
func startUpstream(t *testing.T) (addr string) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", conn.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	handler := mdns.HandlerFunc(func(w mdns.ResponseWriter, r *mdns.Msg) {
		m := new(mdns.Msg)
		m.SetReply(r)
		m.Rcode, m.Answer = upstream(r.Question[0])
		_ = w.WriteMsg(m)
	})
	for _, s := range []*mdns.Server{{PacketConn: conn, Handler: handler}, {Listener: listener, Handler: handler}} {
		ended := make(chan error, 1)
		ready := make(chan struct{})
		s.NotifyStartedFunc = func() { close(ready) }
		go func() { ended <- s.ActivateAndServe() }()
		<-ready
		t.Cleanup(func() { _ = s.Shutdown(); <-ended })
	}
	return conn.LocalAddr().String()
}
