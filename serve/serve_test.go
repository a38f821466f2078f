package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

func TestServe(t *testing.T) {
	ln, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- Serve(ctx, ln, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	}()
	resp, err := http.Get("http://" + ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if string(body) != "hello" {
		t.Errorf("answer %q", body)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("end by the context: %v", err)
	}
	if _, err := net.Dial("tcp", ln.Addr().String()); err == nil {
		t.Error("the port is open after the end")
	}
}

// TestServeCutsSlowRequests: one that never ends does not hold up the end.
func TestServeCutsSlowRequests(t *testing.T) {
	ln, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	begun := make(chan struct{})
	done := make(chan error)
	go func() {
		done <- Serve(ctx, ln, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			close(begun)
			<-r.Context().Done()
		}))
	}()
	go func() { _, _ = http.Get("http://" + ln.Addr().String()) }()
	<-begun
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("a request in progress holds the server up")
	}
}

func TestServeFailure(t *testing.T) {
	ln, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.Close()
	if err := Serve(t.Context(), ln, nil); err == nil || !strings.Contains(err.Error(), ln.Addr().String()) {
		t.Errorf("error %v, want one that names the port", err)
	}
}

func TestBusyPortNamesItsHolder(t *testing.T) {
	first, err := Listen(t.Context(), ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	addr := fmt.Sprintf(":%d", first.Addr().(*net.TCPAddr).Port)
	_, err = Listen(t.Context(), addr)
	var busy *BusyError
	if !errors.As(err, &busy) {
		t.Fatalf("error %v, want a BusyError", err)
	}
	if want := fmt.Sprintf("(pid %d)", os.Getpid()); !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), addr) {
		t.Errorf("error %q, want %q and %q in it", err, addr, want)
	}
}

func TestPortOf(t *testing.T) {
	for addr, want := range map[string]uint16{":80": 80, "127.0.0.1:10249": 10249, "[::1]:1": 1, "x": 0, ":http": 0} {
		if got, ok := portOf(addr); got != want || ok != (want != 0) {
			t.Errorf("port of %q: %d, %v", addr, got, ok)
		}
	}
}
