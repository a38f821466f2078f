package pods

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// idleAfter ends connections that say nothing.
	idleAfter = 2 * time.Minute
	// longestLine is the longest line answered, in bytes.
	longestLine = 4096
	// longestBody is the longest body that /echo sends back, in bytes.
	longestBody = 1 << 20
)

// notifyEnd is a context that TERM and INT end.
func notifyEnd(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
}

// serveTCP answers connections until the context ends, then ends those requests
// that it has begun to answer, and closes the rest.
func (s *standIn) serveTCP(ctx context.Context, l net.Listener) {
	web := &handover{conns: make(chan net.Conn), ctx: ctx, addr: l.Addr()}
	server := &http.Server{Handler: s.handler(), ReadHeaderTimeout: idleAfter, IdleTimeout: idleAfter}
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(web) })
	context.AfterFunc(ctx, func() { l.Close() })
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			break
		}
		if err != nil {
			time.Sleep(pollEvery) // out of descriptors: others end meanwhile
			continue
		}
		s.last.Store(time.Now().UnixNano())
		s.silent.Add(1)
		wg.Go(func() { s.sort(ctx, c, web) })
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), quietWithin)
	defer cancel()
	if server.Shutdown(patience) != nil { // answers that take too long
		server.Close()
	}
	wg.Wait()
}

// sort finds out what a client speaks by its first bytes.
func (s *standIn) sort(ctx context.Context, c net.Conn, web *handover) {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	_ = c.SetReadDeadline(time.Now().Add(idleAfter))
	r := bufio.NewReaderSize(c, longestLine)
	asks := speaksHTTP(r)
	if asks {
		_ = c.SetReadDeadline(time.Time{})
		web.give(&peeked{c, r})
	}
	s.silent.Add(-1)
	if !asks {
		defer c.Close()
		s.serveLines(c, r)
	}
}

// speaksHTTP looks at what comes until it is or is not the beginning of an HTTP
// request; a method is followed by a blank, and a line ends before.
func speaksHTTP(r *bufio.Reader) bool {
	for n := 1; ; n++ {
		b, err := r.Peek(n)
		if err != nil {
			return false
		}
		begin := string(b)
		possible := false
		for _, method := range []string{"GET ", "HEAD ", "POST ", "PUT ", "PATCH ", "DELETE ", "OPTIONS ", "TRACE ", "CONNECT ", "PRI "} {
			if begin == method {
				return true
			}
			possible = possible || strings.HasPrefix(method, begin)
		}
		if !possible {
			return false
		}
	}
}

// serveLines answers each line, and a client that ends without one.
func (s *standIn) serveLines(c net.Conn, r *bufio.Reader) {
	answer := s.greeting(addrPort(c.LocalAddr()), addrPort(c.RemoteAddr()).Addr()) + "\n"
	for first := true; ; first = false {
		line, err := r.ReadSlice('\n')
		if err == nil || len(line) > 0 || first && errors.Is(err, io.EOF) {
			if _, err := io.WriteString(c, answer); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
		_ = c.SetReadDeadline(time.Now().Add(idleAfter))
	}
}

// handler answers HTTP.
func (s *standIn) handler() http.Handler {
	text := func(f func(at, client netip.AddrPort) string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
			client, _ := netip.ParseAddrPort(r.RemoteAddr)
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = io.WriteString(w, f(addrPort(local), netip.AddrPortFrom(client.Addr().Unmap(), client.Port())))
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/", text(func(at, client netip.AddrPort) string { return s.greeting(at, client.Addr()) + "\n" }))
	mux.Handle("/hostname", text(func(netip.AddrPort, netip.AddrPort) string { return s.pod + "\n" }))
	mux.Handle("/clientip", text(func(_, client netip.AddrPort) string { return fmt.Sprintln(client) }))
	mux.Handle("/healthz", text(func(netip.AddrPort, netip.AddrPort) string { return "ok\n" }))
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, http.MaxBytesReader(w, r.Body, longestBody))
	})
	return mux
}

// addrPort is an address without the IPv6 form of IPv4 ones.
func addrPort(a net.Addr) netip.AddrPort {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := tcp.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

// handover is a listener of connections that somebody else has accepted.
type handover struct {
	conns chan net.Conn
	ctx   context.Context
	addr  net.Addr
}

// give hands a connection to the HTTP server, or closes it when that has ended.
func (h *handover) give(c net.Conn) {
	select {
	case h.conns <- c:
	case <-h.ctx.Done():
		c.Close()
	}
}

// Accept waits for a connection.
func (h *handover) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close does nothing: the context ends it.
func (h *handover) Close() error { return nil }

// Addr is the address of the real listener.
func (h *handover) Addr() net.Addr { return h.addr }

// peeked is a connection of which something was read already.
type peeked struct {
	net.Conn
	r *bufio.Reader
}

// Read reads first what was read already.
func (p *peeked) Read(b []byte) (int, error) { return p.r.Read(b) }
