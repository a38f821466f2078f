package server

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	mdns "github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/cluster/follow"
	"github.com/toyproxy/toyproxy/cluster/state"
	"github.com/toyproxy/toyproxy/dns"
	"github.com/toyproxy/toyproxy/dns/forward"
	"github.com/toyproxy/toyproxy/test/sandbox"
)

func TestMain(m *testing.M) { sandbox.Main(m) }

const patience = 10 * time.Second

// lab is a server under test and the state directory it follows.
type lab struct {
	*Server
	dir  string
	at   string
	log  *lines
	told *lines
	stop func() error
}

// lines gathers what a server writes.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// start serves the objects of a state directory, on a free port of loopback unless the
// change of the configuration says otherwise.
func start(t testing.TB, dir string, change func(*Config)) *lab {
	t.Helper()
	source, err := follow.OpenLean(dir, cluster.Service, cluster.EndpointSlice, cluster.Pod, cluster.Namespace, cluster.Node)
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{dir: dir, log: &lines{}, told: &lines{}}
	cfg := Config{Listen: "127.0.0.1:0", Domain: "cluster.local", Zone: dns.New(dns.Options{Domain: "cluster.local", TTL: 5}), Source: source,
		UDPBytes: 1232, Log: LogAll, LogTo: l.log, Version: "1.2.3", Tell: func(m string) { fmt.Fprintln(l.told, m) }}
	if change != nil {
		change(&cfg)
	}
	if l.Server, err = Open(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	l.at = l.Addr().String()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	l.stop = sync.OnceValue(func() error {
		cancel()
		err := <-ended
		_ = source.Close()
		return err
	})
	t.Cleanup(func() {
		if err := l.stop(); err != nil {
			t.Errorf("end of the server: %v", err)
		}
	})
	return l
}

// query makes the question for a name.
func query(name string, kind uint16) *mdns.Msg {
	m := new(mdns.Msg)
	m.SetQuestion(mdns.Fqdn(name), kind)
	return m
}

// ask sends a message over "udp" or "tcp", and returns the reply.
func ask(t testing.TB, network, server string, m *mdns.Msg) *mdns.Msg {
	t.Helper()
	client := mdns.Client{Net: network, Timeout: patience, UDPSize: mdns.MaxMsgSize}
	reply, _, err := client.Exchange(m, server)
	if err != nil {
		t.Fatalf("%s %v: %v", network, m.Question, err)
	}
	return reply
}

// addresses are the addresses of a reply, sorted, or its response code.
func addresses(m *mdns.Msg) []string {
	var out []string
	for _, rr := range m.Answer {
		switch rr := rr.(type) {
		case *mdns.A:
			out = append(out, rr.A.String())
		case *mdns.AAAA:
			out = append(out, rr.AAAA.String())
		case *mdns.CNAME:
			out = append(out, rr.Target)
		}
	}
	if len(out) == 0 {
		return []string{mdns.RcodeToString[m.Rcode]}
	}
	slices.Sort(out)
	return out
}

func expect(t testing.TB, what string, got *mdns.Msg, want ...string) {
	t.Helper()
	if have := addresses(got); !slices.Equal(have, want) {
		t.Errorf("%s: %v, want %v", what, have, want)
	}
}

func service(name, ip string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeClusterIP, ClusterIP: ip, ClusterIPs: []string{ip}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
		Ports: []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}}}}
}

func externalName(name, target string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeExternalName, ExternalName: target}}
}

// headless is a Service without address and its n endpoints.
func headless(name string, n int) (*corev1.Service, *discoveryv1.EndpointSlice) {
	svc := service(name, corev1.ClusterIPNone)
	port, ready, proto, portName := int32(80), true, corev1.ProtocolTCP, "http"
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name + "-1",
		Labels: map[string]string{discoveryv1.LabelServiceName: name}}, AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{Name: &portName, Port: &port, Protocol: &proto}}}
	for i := range n {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.244.%d.%d", i/200, i%200+1)},
			Conditions: discoveryv1.EndpointConditions{Ready: &ready}})
	}
	return svc, slice
}

func save(t testing.TB, dir string, objects ...metav1.Object) {
	t.Helper()
	for _, obj := range objects {
		var err error
		switch obj := obj.(type) {
		case *corev1.Service:
			_, err = services(dir).Save(obj)
		case *discoveryv1.EndpointSlice:
			_, err = state.Open(dir, "endpointslices", func() *discoveryv1.EndpointSlice { return &discoveryv1.EndpointSlice{} }).Save(obj)
		case *corev1.Node:
			_, err = state.Open(dir, "nodes", func() *corev1.Node { return &corev1.Node{} }).Save(obj)
		default:
			err = fmt.Errorf("%T is not saved here", obj)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func services(dir string) state.Dir[*corev1.Service] {
	return state.Open(dir, "services", func() *corev1.Service { return &corev1.Service{} })
}

func named(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "default", Name: name}
}

// resolver is a server that stands in for somebody else's, and counts.
type resolver struct {
	at    netip.AddrPort
	mu    sync.Mutex
	asked []string
}

// serveResolver answers by a function on a port of loopback, by UDP and TCP.
func serveResolver(t testing.TB, answer func(w mdns.ResponseWriter, m *mdns.Msg)) *resolver {
	t.Helper()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	udp, err := net.ListenPacket("udp", tcp.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	r := &resolver{at: netip.MustParseAddrPort(tcp.Addr().String())}
	handler := mdns.HandlerFunc(func(w mdns.ResponseWriter, m *mdns.Msg) {
		r.mu.Lock()
		r.asked = append(r.asked, m.Question[0].Name)
		r.mu.Unlock()
		answer(w, m)
	})
	for _, s := range []*mdns.Server{{Listener: tcp, Handler: handler}, {PacketConn: udp, Handler: handler}} {
		up := make(chan struct{})
		s.NotifyStartedFunc = func() { close(up) }
		go func() { _ = s.ActivateAndServe() }()
		<-up
		t.Cleanup(func() { _ = s.Shutdown() })
	}
	return r
}

// count is how often a name was asked for.
func (r *resolver) count(name string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, a := range r.asked {
		if a == name {
			n++
		}
	}
	return n
}

// forwardTo makes a server forward everything to resolvers.
func forwardTo(resolvers ...netip.AddrPort) func(*Config) {
	return func(c *Config) {
		c.Forwarder = forward.New(forward.Config{Routes: []forward.Route{{Zone: ".", Upstreams: resolvers}}, Cache: 100, Now: time.Now})
	}
}

// records answers with records of the name that was asked for.
func records(texts ...string) func(w mdns.ResponseWriter, m *mdns.Msg) {
	return func(w mdns.ResponseWriter, m *mdns.Msg) {
		reply := new(mdns.Msg).SetReply(m)
		for _, text := range texts {
			rr, err := mdns.NewRR(m.Question[0].Name + " " + text)
			if err != nil {
				panic(err)
			}
			if rr.Header().Rrtype == m.Question[0].Qtype || rr.Header().Rrtype == mdns.TypeCNAME {
				reply.Answer = append(reply.Answer, rr)
			}
		}
		_ = w.WriteMsg(reply)
	}
}

// eventually waits until something is so.
func eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}
