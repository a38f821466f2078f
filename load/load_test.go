package load

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"
)

// TestRun proves that every answer and every failure is counted, by name.
func TestRun(t *testing.T) {
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch n.Add(1) % 4 {
		case 0:
			http.Error(w, "no", http.StatusServiceUnavailable)
		case 1:
			fmt.Fprintln(w, "web-1")
		default:
			fmt.Fprintln(w, "web-2 and more")
		}
	}))
	defer server.Close()
	res := Run(t.Context(), Options{Target: netip.MustParseAddrPort(server.Listener.Addr().String()), Rate: 2000, Count: 200})
	if res.Sent != 200 || res.Answered != 150 || res.Failed != 50 || res.By["web-1"] != 50 || res.By["web-2"] != 100 {
		t.Errorf("%+v", res)
	}
	if res.Errors["answer: status 503 Service Unavailable"] != 50 {
		t.Errorf("errors %v", res.Errors)
	}
}

// TestFailures proves that what is refused, or stays without an answer, fails.
func TestFailures(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	res := Run(t.Context(), Options{Target: netip.MustParseAddrPort(silent.Addr().String()), Count: 3, Rate: 1000, Patience: 50 * time.Millisecond})
	if res.Failed != 3 {
		t.Errorf("a server that says nothing: %+v", res)
	}
	silent.Close()
	res = Run(t.Context(), Options{Target: netip.MustParseAddrPort(silent.Addr().String()), Count: 3, Rate: 1000})
	if res.Failed != 3 || res.Errors["dial: connect: connection refused"] != 3 {
		t.Errorf("nobody listens: %+v", res)
	}
}

// TestEnds proves that the context ends a load without a count.
func TestEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { cancel() }))
	defer server.Close()
	if res := Run(ctx, Options{Target: netip.MustParseAddrPort(server.Listener.Addr().String()), Rate: 1000}); res.Sent == 0 || res.Failed > 0 {
		t.Errorf("%+v", res)
	}
}
