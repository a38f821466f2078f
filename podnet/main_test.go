package podnet

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/sandbox"
)

func TestMain(m *testing.M) { sandbox.Main(m) }

var (
	podRanges     = prefixes("10.244.0.0/24", "fd00:10:244::/64")
	serviceRanges = prefixes("10.96.0.0/12", "fd00:10:96::/112")
)

func prefixes(list ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

// newNode puts the test into a node of its own, with directories of its own.
func newNode(t *testing.T, ranges ...string) *Node {
	t.Helper()
	sandbox.Node(t)
	cfg := Config{PodRanges: podRanges, ServiceRanges: serviceRanges, StateDir: t.TempDir(),
		NetnsDir: filepath.Join(t.TempDir(), "netns"), EtcNetnsDir: filepath.Join(t.TempDir(), "etc")}
	if len(ranges) > 0 {
		cfg.PodRanges = prefixes(ranges...)
	}
	return node(t, cfg)
}

func node(t *testing.T, cfg Config) *Node {
	t.Helper()
	n, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeAll(n) })
	return n
}

// removeAll runs in the test's cleanup, on the test's goroutine and thread.
func removeAll(n *Node) {
	if p, err := n.Remove(context.Background()); err == nil {
		p.Apply(context.Background())
	}
}

func requests(names ...string) []Request {
	var out []Request
	for _, name := range names {
		out = append(out, Request{Name: name, For: "default/" + name, Hostname: name})
	}
	return out
}

// create plans and applies, and checks that then nothing is left to do.
func create(t *testing.T, n *Node, rs ...Request) []Network {
	t.Helper()
	p, err := n.Create(t.Context(), rs)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range p.Failures {
		t.Fatalf("%s: %v", f.Name, f.Err)
	}
	if err := p.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range rs {
		rs[i].Renew = false
	}
	again, err := n.Create(t.Context(), rs)
	if err != nil {
		t.Fatal(err)
	}
	noChanges(t, again)
	if fmt.Sprint(again.Networks) != fmt.Sprint(p.Networks) {
		t.Fatalf("predicted %v, got %v", p.Networks, again.Networks)
	}
	return p.Networks
}

func remove(t *testing.T, n *Node, names ...string) {
	t.Helper()
	p, err := n.Delete(t.Context(), names)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func noChanges(t *testing.T, p dataplane.Plan) {
	t.Helper()
	for _, c := range p.Changes() {
		t.Errorf("unexpected change: %s", c)
	}
}

// sh runs a command on the test's thread and returns what it prints.
func sh(t *testing.T, format string, args ...any) string {
	t.Helper()
	out, err := exec.Command("sh", "-c", fmt.Sprintf(format, args...)).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", fmt.Sprintf(format, args...), err, out)
	}
	return string(out)
}

// dumps is what `down` has to leave as it was.
func dumps(t *testing.T, n *Node) string {
	t.Helper()
	out := sh(t, "ip -d link | sed 's/^[0-9]*:/N:/'; ip addr; ip route show table all; ip -6 route show table all; sysctl -a 2>/dev/null | grep -E 'forward|redirects|accept_ra|accept_dad' | sort")
	return out + listDir(n.cfg.NetnsDir) + listDir(n.cfg.EtcNetnsDir) + listDir(n.cfg.StateDir)
}

func listDir(dir string) string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "no directory\n"
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ") + "\n"
}

// serve answers every connection to a port of a Pod with the client's address.
func serve(t *testing.T, n *Node, name string, port int) {
	t.Helper()
	var l net.Listener
	err := Do(n.Path(name), func() (err error) {
		l, err = net.Listen("tcp", fmt.Sprintf(":%d", port))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprintf(c, "%s", netip.MustParseAddrPort(c.RemoteAddr().String()).Addr().Unmap())
			c.Close()
		}
	}()
}

// dial connects from the calling thread's namespace and returns what it reads. It
// uses the socket calls of this thread: the resolver's goroutines are elsewhere.
func dial(to netip.AddrPort) (string, error) {
	d := net.Dialer{Timeout: 3 * time.Second}
	c, err := d.Dial("tcp", to.String())
	if err != nil {
		return "", err
	}
	defer c.Close()
	b, err := io.ReadAll(c)
	return string(b), err
}

func dialFrom(n *Node, name string, to netip.AddrPort) (got string, err error) {
	err = Do(n.Path(name), func() (err error) {
		got, err = dial(to)
		return err
	})
	return got, err
}
