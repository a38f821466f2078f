package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/cluster/state"
)

// heard is what a command writes while it is read.
type heard struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (h *heard) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.buf.Write(p)
}

func (h *heard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.buf.String()
}

// freePort is a port of 127.0.0.1 that nobody has at the moment.
func freePort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	return port
}

// startIngress runs the command until the test ends, and returns its port of HTTP.
func startIngress(t *testing.T, args ...string) (port string, log *heard, stop func() error) {
	t.Helper()
	port, log = freePort(t), &heard{}
	cmd := newRoot()
	cmd.SetOut(log)
	cmd.SetErr(log)
	cmd.SetArgs(append([]string{"ingress", "--address", "127.0.0.1", "--http-port", port, "--https-port", freePort(t),
		"--healthz-bind-address", "", "--drain-timeout", "1s"}, args...))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- cmd.ExecuteContext(ctx) }()
	stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() { _ = stop() })
	return port, log, stop
}

// eventually polls until a function returns what is wanted.
func eventually(t *testing.T, want string, got func() string) {
	t.Helper()
	last := ""
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if last = got(); last == want {
			return
		}
	}
	t.Fatalf("got %q, want %q", last, want)
}

func fetch(port, host string) string {
	r, _ := http.NewRequest("GET", "http://127.0.0.1:"+port+"/", nil)
	r.Host = host
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return "no answer"
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return fmt.Sprintf("%d %s", resp.StatusCode, firstLine(string(body)))
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// kept is a state directory with a Service, its endpoint, and the proxy's own Service.
type kept struct {
	t     *testing.T
	dir   string
	doors state.Doors
}

func keep(t *testing.T) *kept {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "web") }))
	t.Cleanup(server.Close)
	k := &kept{t: t, dir: t.TempDir()}
	k.doors = state.OpenDoors(k.dir)
	service := func(namespace, name, ip string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: corev1.ServiceSpec{ClusterIP: ip, ClusterIPs: []string{ip}, Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}}}}
	}
	number, name := int32(server.Listener.Addr().(*net.TCPAddr).Port), ""
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &number}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"127.0.0.1"}}},
	}
	live := cluster.Objects{
		Services:       []*corev1.Service{service("default", "web", "10.96.0.10"), service("kube-system", "toyproxy-ingress", "10.96.0.80")},
		EndpointSlices: []*discoveryv1.EndpointSlice{slice},
	}
	if err := state.OpenLive(k.dir).Write(live, func(*corev1.Pod) bool { return false }, time.Now()); err != nil {
		t.Fatal(err)
	}
	return k
}

// ingress saves an Ingress for one host.
func (k *kept) ingress(name, host string) {
	k.t.Helper()
	prefix := networkingv1.PathTypePrefix
	_, err := k.doors.Ingresses.Save(&networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{Host: host, IngressRuleValue: networkingv1.IngressRuleValue{
			HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{Path: "/", PathType: &prefix,
				Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80}}}}}}}}}}})
	if err != nil {
		k.t.Fatal(err)
	}
}

// address is what the status of an Ingress says.
func (k *kept) address(name string) string {
	obj, err := k.doors.Ingresses.Load(types.NamespacedName{Namespace: "default", Name: name})
	if err != nil || len(obj.Status.LoadBalancer.Ingress) == 0 {
		return ""
	}
	return obj.Status.LoadBalancer.Ingress[0].IP
}

// TestIngressServes: objects of a state directory are served as they come, and say
// where; of two proxies one says so, and the other takes over.
func TestIngressServes(t *testing.T) {
	k := keep(t)
	k.ingress("one", "one.example")
	port, log, stop := startIngress(t, "--state-dir", k.dir)
	eventually(t, "200 web", func() string { return fetch(port, "one.example") })
	eventually(t, "10.96.0.80", func() string { return k.address("one") })
	if got := fetch(port, "two.example"); got != "404 404 Not Found: no rule for this host and path" {
		t.Errorf("before it is there: %s", got)
	}
	second, _, _ := startIngress(t, "--state-dir", k.dir, "--access-log", "off")
	eventually(t, "200 web", func() string { return fetch(second, "one.example") })
	k.ingress("two", "two.example")
	eventually(t, "200 web", func() string { return fetch(port, "two.example") })
	eventually(t, "10.96.0.80", func() string { return k.address("two") })
	if err := stop(); err != nil {
		t.Errorf("end: %v", err)
	}
	k.ingress("three", "three.example")
	eventually(t, "10.96.0.80", func() string { return k.address("three") })
	if err := k.doors.Ingresses.Delete(types.NamespacedName{Namespace: "default", Name: "one"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "404 404 Not Found: no rule for this host and path", func() string { return fetch(second, "one.example") })
	for _, want := range []string{"msg=serving", `"host":"one.example"`, `"service":"default/web"`, "msg=drained"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, log.String())
		}
	}
}

// TestIngressRefuses: flags that cannot be meant, and a port that another program has.
func TestIngressRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, number, _ := net.SplitHostPort(taken.Addr().String())
	for want, args := range map[string][]string{
		"--trusted-proxy \"x\"":   {"--trusted-proxy", "x"},
		"--access-log \"xml\"":    {"--access-log", "xml"},
		"write NAMESPACE/NAME":    {"--publish-service", "x"},
		"must be an IP address":   {"--address", "localhost"},
		"is taken by":             {"--address", "127.0.0.1", "--http-port", number, "--state-dir", t.TempDir(), "--healthz-bind-address", ""},
		"must be a number of byt": {"--max-body", "much"},
	} {
		cmd := newRoot()
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		cmd.SetArgs(append([]string{"ingress"}, args...))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		if err := cmd.ExecuteContext(ctx); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", args, err, want)
		}
		cancel()
	}
}
