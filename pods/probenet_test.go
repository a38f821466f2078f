package pods

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// probedServer answers as its paths say.
func probedServer(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/slow":
		select {
		case <-r.Context().Done():
		case <-time.After(10 * time.Second):
		}
	case "/redirect":
		http.Redirect(w, r, "/missing", http.StatusFound)
	case "/elsewhere":
		http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
	case "/loop":
		http.Redirect(w, r, "/loop", http.StatusFound)
	case "/headers":
		if r.Host != "example.org" || r.Header.Get("X-Token") != "secret" || r.Header.Get("User-Agent") != proberName || r.URL.RawQuery != "a=b" {
			w.WriteHeader(http.StatusForbidden)
		}
	case "/ok":
	default:
		http.Error(w, "starting\x1b[31m up", http.StatusServiceUnavailable)
	}
}

func httpGet(path string, port intstr.IntOrString, headers ...corev1.HTTPHeader) corev1.ProbeHandler {
	return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: port, HTTPHeaders: headers}}
}

func TestHTTPProbe(t *testing.T) {
	sh(t, "ip link set lo up")
	plain := httptest.NewServer(http.HandlerFunc(probedServer))
	defer plain.Close()
	secure := httptest.NewTLSServer(http.HandlerFunc(probedServer))
	defer secure.Close()
	port := func(s *httptest.Server) intstr.IntOrString {
		return intstr.FromInt32(int32(netip.MustParseAddrPort(s.Listener.Addr().String()).Port()))
	}
	c := &corev1.Container{Name: "c", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: port(plain).IntVal}}}
	tls := httpGet("/ok", port(secure))
	tls.HTTPGet.Scheme = corev1.URISchemeHTTPS
	other := httpGet("/ok", port(plain))
	other.HTTPGet.Host = "127.0.0.2"
	for _, tc := range []struct {
		name    string
		handler corev1.ProbeHandler
		want    outcome
		message string
	}{
		{"200", httpGet("/ok", port(plain)), passed, ""},
		{"without a slash", httpGet("ok", port(plain)), passed, ""},
		{"named port", httpGet("/ok", intstr.FromString("http")), passed, ""},
		{"unknown port", httpGet("/ok", intstr.FromString("metrics")), unknown, `has no port named "metrics"`},
		{"503", httpGet("/", port(plain)), failed, "HTTP status 503 Service Unavailable of http://127.0.0.1:"},
		{"what it said", httpGet("/", port(plain)), failed, ": starting?[31m up"},
		{"headers", httpGet("/headers?a=b", port(plain), corev1.HTTPHeader{Name: "host", Value: "example.org"}, corev1.HTTPHeader{Name: "X-Token", Value: "secret"}), passed, ""},
		{"redirect is followed", httpGet("/redirect", port(plain)), failed, "503"},
		{"redirect to another host", httpGet("/elsewhere", port(plain)), passed, ""},
		{"redirects without end", httpGet("/loop", port(plain)), failed, "10 redirects"},
		{"too slow", httpGet("/slow", port(plain)), failed, "no answer in time (timeoutSeconds)"},
		{"HTTPS", tls, passed, ""},
		{"HTTP to HTTPS", httpGet("/ok", port(secure)), failed, "400 Bad Request"},
		{"another host", other, failed, "connection refused"},
		{"nobody listens", httpGet("/", intstr.FromInt32(1)), failed, "connection refused"},
	} {
		checkProbe(t, tc.name, c, tc.handler, tc.want, tc.message)
	}
}

func checkProbe(t *testing.T, name string, c *corev1.Container, h corev1.ProbeHandler, want outcome, message string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	got, why := askNetwork(ctx, "127.0.0.1", c, h)
	if got != want || !strings.Contains(why, message) || (want == passed) != (why == "") {
		t.Errorf("%s: %d %q, want %d %q", name, got, why, want, message)
	}
}

func TestTCPProbe(t *testing.T) {
	sh(t, "ip link set lo up")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := netip.MustParseAddrPort(l.Addr().String()).Port()
	for _, tc := range []struct {
		host string
		port int32
		want outcome
	}{{"", int32(port), passed}, {"", 1, failed}, {"127.0.0.2", int32(port), failed}} {
		h := corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Host: tc.host, Port: intstr.FromInt32(tc.port)}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if got, why := askNetwork(ctx, "127.0.0.1", &corev1.Container{}, h); got != tc.want {
			t.Errorf("%+v: %d %s", tc, got, why)
		}
		cancel()
	}
}

func TestGRPCProbe(t *testing.T) {
	sh(t, "ip link set lo up")
	serve := func(register bool) int32 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := grpc.NewServer()
		if register {
			h := health.NewServer()
			h.SetServingStatus("sick", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
			grpc_health_v1.RegisterHealthServer(s, h)
		}
		go s.Serve(l)
		t.Cleanup(s.Stop)
		return int32(netip.MustParseAddrPort(l.Addr().String()).Port())
	}
	port := serve(true)
	for _, tc := range []struct {
		name    string
		port    int32
		service string
		want    outcome
		message string
	}{
		{"serving", port, "", passed, ""},
		{"not serving", port, "sick", failed, `gRPC service "sick" at 127.0.0.1:`},
		{"unknown service", port, "none", failed, "gRPC NotFound"},
		{"no health service", serve(false), "", failed, "does not implement grpc.health.v1.Health"},
		{"nobody listens", 1, "", failed, "connection refused"},
	} {
		h := corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: tc.port, Service: &tc.service}}
		checkProbe(t, tc.name, &corev1.Container{}, h, tc.want, tc.message)
	}
}

// Asking leaves no goroutine and no descriptor behind, whatever comes of it.
func TestProbesLeaveNothing(t *testing.T) {
	sh(t, "ip link set lo up")
	server := httptest.NewServer(http.HandlerFunc(probedServer))
	defer server.Close()
	number := int32(netip.MustParseAddrPort(server.Listener.Addr().String()).Port())
	port := intstr.FromInt32(number)
	files := func() int {
		names, err := readNames("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	ask := func() {
		for _, h := range []corev1.ProbeHandler{
			httpGet("/ok", port), httpGet("/slow", port), httpGet("/", intstr.FromInt32(1)),
			{TCPSocket: &corev1.TCPSocketAction{Port: port}},
			{GRPC: &corev1.GRPCAction{Port: number}}, {GRPC: &corev1.GRPCAction{Port: 1}},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			askNetwork(ctx, "127.0.0.1", &corev1.Container{}, h)
			cancel()
		}
	}
	ask()
	var goroutines, open int
	poll(t, "rest", func() bool {
		before := runtime.NumGoroutine()
		time.Sleep(50 * time.Millisecond)
		goroutines, open = runtime.NumGoroutine(), files()
		return goroutines == before
	})
	for range 30 {
		ask()
	}
	poll(t, "as few goroutines and files as before", func() bool { return runtime.NumGoroutine() <= goroutines && files() <= open })
}
