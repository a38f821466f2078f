package health

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/balance"
	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/lab"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }

const port = 30123

func check(local int) balance.HealthCheck {
	return balance.HealthCheck{Service: types.NamespacedName{Namespace: "default", Name: "web"}, Port: port, Local: local}
}

// askNode asks the node as a load balancer does, on a connection of its own.
func askNode(t *testing.T, from *lab.Host, node netip.Addr) (code int, weight string, v verdict, err error) {
	t.Helper()
	from.Do(func() {
		// The connection is made by this thread, so in this host's namespace.
		var c net.Conn
		if c, err = net.Dial("tcp", netip.AddrPortFrom(node, port).String()); err != nil {
			return
		}
		defer c.Close()
		client := http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return c, nil }, DisableKeepAlives: true}}
		var resp *http.Response
		if resp, err = client.Get("http://node/anything"); err != nil {
			return
		}
		defer resp.Body.Close()
		code, weight = resp.StatusCode, resp.Header.Get(weightHeader)
		err = json.NewDecoder(resp.Body).Decode(&v)
	})
	return code, weight, v, err
}

func TestNodePorts(t *testing.T) {
	l := lab.New(t, lab.WithPods(0))
	var sick atomic.Bool
	n := NewNodePorts(t.Context(), func() bool { return !sick.Load() })
	defer n.Close()
	observe := func(checks ...balance.HealthCheck) {
		l.Node.Do(func() { n.Observe(agent.Report{Checks: checks}) })
	}
	answers := func(code int, local int, healthy bool) {
		t.Helper()
		for _, f := range []dataplane.Family{dataplane.IPv4, dataplane.IPv6} {
			gotCode, weight, v, err := askNode(t, l.Outside, l.Node.Addr(f))
			want := verdict{serviceName{"default", "web"}, local, healthy}
			if err != nil || gotCode != code || weight != fmt.Sprint(local) || v != want {
				t.Errorf("%s: code %d, weight %s, %+v, error %v; want %d, %+v", f, gotCode, weight, v, err, code, want)
			}
		}
	}
	observe(check(2))
	answers(200, 2, true)
	observe(check(0))
	answers(503, 0, true)
	observe(check(1))
	sick.Store(true)
	answers(503, 1, false)
	observe()
	if _, _, _, err := askNode(t, l.Outside, l.Node.IPv4); err == nil || len(n.Ports()) != 0 {
		t.Errorf("answered after the Service has gone; ports %v", n.Ports())
	}
}

// TestNodePortsBusy: a port that a program of the node has is a problem that names
// the program, disturbs no other port, and heals.
func TestNodePortsBusy(t *testing.T) {
	l := lab.New(t, lab.WithPods(0))
	n := NewNodePorts(t.Context(), func() bool { return true })
	defer n.Close()
	stop := l.Node.Serve(dataplane.TCP, port)
	other := balance.HealthCheck{Service: types.NamespacedName{Namespace: "default", Name: "other"}, Port: port + 1, Local: 1}
	set := func() (found []string) {
		l.Node.Do(func() {
			for _, p := range n.Set([]balance.HealthCheck{check(1), other}) {
				found = append(found, p.String())
			}
		})
		return found
	}
	found := set()
	want := []string{"Service default/web: spec.healthCheckNodePort: ", fmt.Sprintf("(pid %d)", os.Getpid())}
	if len(found) != 1 || !strings.HasPrefix(found[0], want[0]) || !strings.Contains(found[0], want[1]) {
		t.Errorf("problems %q, want one with %q", found, want)
	}
	if len(n.Problems()) != 1 || !slices.Equal(n.Ports(), []uint16{port + 1}) {
		t.Errorf("problems %v, ports %v", n.Problems(), n.Ports())
	}
	stop()
	if found := set(); len(found) != 0 || len(n.Ports()) != 2 {
		t.Errorf("after the program has ended: problems %q, ports %v", found, n.Ports())
	}
}

// TestNodePortsAddresses: only addresses of node ports answer, as they are now.
func TestNodePortsAddresses(t *testing.T) {
	l := lab.New(t, lab.WithPods(0))
	n := NewNodePorts(t.Context(), func() bool { return true })
	defer n.Close()
	table := func(addrs ...netip.Addr) {
		l.Node.Do(func() {
			n.Observe(agent.Report{Whole: true, Checks: []balance.HealthCheck{check(1)}, Table: dataplane.Table{Node: dataplane.Node{Addrs: addrs}}})
		})
	}
	answered := func(a netip.Addr) bool {
		code, _, _, err := askNode(t, l.Outside, a)
		return err == nil && code == 200
	}
	table(l.Node.IPv6)
	if answered(l.Node.IPv4) || !answered(l.Node.IPv6) {
		t.Error("with node ports on the address of IPv6 alone: IPv4 answers, or IPv6 does not")
	}
	table(l.Node.IPv4, l.Node.IPv6)
	if !answered(l.Node.IPv4) {
		t.Error("the address that was added does not answer")
	}
}

// TestNodePortsEnd: with the context all ports are closed.
func TestNodePortsEnd(t *testing.T) {
	l := lab.New(t, lab.WithPods(0))
	ctx, cancel := context.WithCancel(t.Context())
	n := NewNodePorts(ctx, func() bool { return true })
	l.Node.Do(func() { n.Set([]balance.HealthCheck{check(1)}) })
	cancel()
	n.running.Wait()
	if _, _, _, err := askNode(t, l.Outside, l.Node.IPv4); err == nil || len(n.Ports()) != 0 {
		t.Errorf("open after the end: %v", n.Ports())
	}
	if found := n.Set([]balance.HealthCheck{check(1)}); len(found) != 0 || len(n.Ports()) != 0 {
		t.Errorf("opened after the end: %v, problems %v", n.Ports(), found)
	}
}

// TestNodePortsComeAndGo: a hundred times, some of them asked just then, leave neither
// goroutines nor descriptors.
func TestNodePortsComeAndGo(t *testing.T) {
	l := lab.New(t, lab.WithPods(0))
	n := NewNodePorts(t.Context(), func() bool { return true })
	defer n.Close()
	held := func() (goroutines, files int) {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return runtime.NumGoroutine(), len(list)
	}
	turn := func(i int) {
		l.Node.Do(func() { n.Set([]balance.HealthCheck{check(i)}) })
		if i%10 == 0 {
			if code, _, _, err := askNode(t, l.Outside, l.Node.IPv4); code == 0 {
				t.Fatal(err)
			}
		}
		l.Node.Do(func() { n.Set(nil) })
		n.running.Wait()
	}
	turn(0)
	goroutines, files := held()
	for i := range 100 {
		turn(i)
	}
	var g, f int
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if g, f = held(); g <= goroutines && f <= files {
			return
		}
	}
	t.Errorf("%d goroutines and %d descriptors, were %d and %d", g, f, goroutines, files)
}
