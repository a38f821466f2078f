package proxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/ingress"
)

// lab is a proxy on ports of 127.0.0.1.
type lab struct {
	t     *testing.T
	proxy *Proxy
	mu    sync.Mutex
	at    map[uint16]string
	last  map[cluster.Ref]metav1.Object
}

// newLab starts a proxy, which ends with the test.
func newLab(t *testing.T, opts Options) *lab {
	t.Helper()
	l := &lab{t: t, at: map[uint16]string{}, last: map[cluster.Ref]metav1.Object{}}
	opts.Listen = func(_ context.Context, port uint16) (net.Listener, error) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err == nil {
			l.mu.Lock()
			l.at[port] = ln.Addr().String()
			l.mu.Unlock()
		}
		return ln, err
	}
	if opts.DrainTimeout == 0 {
		opts.DrainTimeout = 2 * time.Second
	}
	p, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	l.proxy = p
	t.Cleanup(func() {
		const soon = 10 * time.Millisecond
		p.ports.drain(soon)
		p.upgrades.drain(soon)
		p.transports.closeIdle()
	})
	return l
}

// addr is where a port of the Config is.
func (l *lab) addr(port uint16) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at[port]
}

// apply serves routes on port 80 and, with certificates, on 443.
func (l *lab) apply(routes []ingress.Route, certs ...ingress.Certificate) {
	l.t.Helper()
	c := ingress.Config{Ports: []ingress.Port{
		{Number: 80, Listeners: []ingress.Listener{{Name: "http", Routes: routes}}},
		{Number: 443, TLS: true, Listeners: []ingress.Listener{{Name: "https", Routes: routes, Certificates: certs, SelfSigned: true}}},
	}}
	if err := l.proxy.Apply(c); err != nil {
		l.t.Fatal(err)
	}
}

// route sends everything for a host to port 80 of a Service; "" is every host.
func route(host, service string, change ...func(*ingress.Route)) ingress.Route {
	r := ingress.Route{
		Object: cluster.MakeRef(cluster.Ingress, "default", service), Field: "spec.rules[0].http.paths[0]",
		Split: []ingress.Share{{Weight: 1, Backend: backend(service)}},
	}
	if host != "" {
		r.Hosts = []ingress.Hostname{{Name: host}}
	}
	for _, f := range change {
		f(&r)
	}
	return r
}

func backend(service string) ingress.Backend {
	return ingress.Backend{Service: types.NamespacedName{Namespace: "default", Name: service}, Port: 80}
}

// serve makes a Service with these endpoints ("127.0.0.1:4711").
func (l *lab) serve(service string, endpoints []string, change ...func(*corev1.Service)) {
	l.t.Helper()
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: service},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}}}}
	for _, f := range change {
		f(svc)
	}
	events := []cluster.Event{l.event(cluster.Service, svc)}
	byPort := map[uint16]*discoveryv1.EndpointSlice{}
	for _, e := range endpoints {
		at := netip.MustParseAddrPort(e)
		if byPort[at.Port()] == nil {
			number, name := int32(at.Port()), ""
			byPort[at.Port()] = &discoveryv1.EndpointSlice{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("%s-%d", service, number),
					Labels: map[string]string{discoveryv1.LabelServiceName: service}},
				AddressType: discoveryv1.AddressTypeIPv4,
				Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &number}},
			}
		}
		byPort[at.Port()].Endpoints = append(byPort[at.Port()].Endpoints, discoveryv1.Endpoint{Addresses: []string{at.Addr().String()}})
	}
	kept := map[cluster.Ref]bool{}
	for _, s := range byPort {
		e := l.event(cluster.EndpointSlice, s)
		kept[e.Object] = true
		events = append(events, e)
	}
	for ref, old := range l.last {
		if s, ok := old.(*discoveryv1.EndpointSlice); ok && s.Labels[discoveryv1.LabelServiceName] == service && !kept[ref] {
			events = append(events, cluster.Event{Object: ref, Old: old})
			delete(l.last, ref)
		}
	}
	l.proxy.Update(events)
}

func (l *lab) event(kind cluster.Kind, obj metav1.Object) cluster.Event {
	ref := cluster.MakeRef(kind, obj.GetNamespace(), obj.GetName())
	e := cluster.Event{Object: ref, Old: l.last[ref], New: obj}
	l.last[ref] = obj
	return e
}

// endpoint starts a server that ends with the test, and returns where it is.
func endpoint(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.Listener.Addr().String()
}

// says answers with a text.
func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
}

// refusing is an address of this machine where nobody listens.
func refusing(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// do asks port 80 of the lab.
func (l *lab) do(method, host, path string, change ...func(*http.Request)) (*http.Response, string) {
	l.t.Helper()
	r, err := http.NewRequest(method, "http://"+l.addr(80)+path, nil)
	if err != nil {
		l.t.Fatal(err)
	}
	r.Host = host
	for _, f := range change {
		f(r)
	}
	return l.send(http.DefaultTransport, r)
}

func (l *lab) send(rt http.RoundTripper, r *http.Request) (*http.Response, string) {
	l.t.Helper()
	resp, err := rt.RoundTrip(r)
	if err != nil {
		l.t.Fatalf("%s %s: %v", r.Method, r.URL, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		l.t.Fatalf("body of %s %s: %v", r.Method, r.URL, err)
	}
	return resp, string(body)
}

// within polls until something holds.
func within(t *testing.T, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("not within %v: %s", limit, what)
}
