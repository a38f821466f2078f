package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/ingress"
)

// ports are the open ports of a proxy.
type ports struct {
	proxy *Proxy
	mu    sync.Mutex
	open  map[uint16]*port
	// ending are servers whose port is gone, or that drain.
	ending sync.WaitGroup
	closed bool
}

// port accepts the connections of one port.
type port struct {
	number   uint16
	proxy    *Proxy
	listener net.Listener
	server   *http.Server
	// ready hands over connections whose handshake is done.
	ready chan net.Conn
	done  chan struct{}
	once  sync.Once
}

// become opens the ports of a Config that are not open, and closes the others.
func (ps *ports) become(c ingress.Config) error {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.closed {
		return nil
	}
	wanted := map[uint16]bool{}
	var faults []error
	for _, want := range c.Ports {
		wanted[want.Number] = true
		if ps.open[want.Number] != nil {
			continue
		}
		ln, err := ps.proxy.opts.Listen(context.Background(), want.Number)
		if err != nil {
			faults = append(faults, fmt.Errorf("port %d: %w", want.Number, err))
			continue
		}
		ps.open[want.Number] = ps.proxy.newPort(want.Number, ln)
	}
	for number, p := range ps.open {
		if !wanted[number] {
			delete(ps.open, number)
			ps.ending.Go(func() { p.drain(ps.proxy.opts.DrainTimeout) })
		}
	}
	return errors.Join(faults...)
}

// drain closes all ports, and waits until their requests have ended, or time is up.
func (ps *ports) drain(limit time.Duration) {
	ps.mu.Lock()
	ps.closed = true
	for number, p := range ps.open {
		delete(ps.open, number)
		ps.ending.Go(func() { p.drain(limit) })
	}
	ps.mu.Unlock()
	ps.ending.Wait()
}

// connKey is what a request's context holds its connection under.
type connKey struct{}

// conn is what a request needs to know of its connection.
type conn struct {
	port uint16
	tls  bool
	// guard is nil for HTTP/2 within TLS.
	guard *guard
}

// describe tells what a connection is.
func describe(c net.Conn, port uint16) conn {
	switch c := c.(type) {
	case *guard:
		return conn{port: port, guard: c}
	case *tlsGuard:
		return conn{port: port, tls: true, guard: &c.guard}
	}
	return conn{port: port, tls: true}
}

// newPort begins to serve.
func (p *Proxy) newPort(number uint16, ln net.Listener) *port {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	out := &port{number: number, proxy: p, listener: ln, ready: make(chan net.Conn), done: make(chan struct{})}
	label := strconv.Itoa(int(number))
	open := p.metrics.connections.WithLabelValues(label)
	out.server = &http.Server{
		Handler:           p,
		ReadHeaderTimeout: p.opts.HeaderTimeout,
		IdleTimeout:       p.opts.IdleTimeout,
		MaxHeaderBytes:    p.opts.MaxHeaderBytes,
		Protocols:         &protocols,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: 250, SendPingTimeout: p.opts.IdleTimeout},
		ErrorLog:          p.serverLog(),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, describe(c, number))
		},
	}
	go out.accept(open)
	go func() { _ = out.server.Serve(out) }()
	return out
}

// counted is a client's connection that is counted while it is open.
type counted struct {
	*net.TCPConn
	gone func()
	once sync.Once
}

// Close counts it out.
func (c *counted) Close() error {
	c.once.Do(c.gone)
	return c.TCPConn.Close()
}

type gauge interface {
	Inc()
	Dec()
}

// accept takes connections until the port is closed. Handshakes of TLS are done
// here, not by net/http, which could not watch what is within.
func (p *port) accept(open gauge) {
	defer p.stop()
	for {
		c, err := p.listener.Accept()
		if err != nil {
			if !p.pause(err) {
				return
			}
			continue
		}
		if !p.proxy.admit() {
			_ = c.Close()
			continue
		}
		open.Inc()
		client := &counted{TCPConn: c.(*net.TCPConn), gone: func() { open.Dec(); p.proxy.connections.Add(-1) }}
		bound(client.TCPConn, p.proxy.opts.BodyTimeout)
		if p.proxy.world.Load().tls[p.number] {
			go p.handshake(client)
			continue
		}
		p.hand(&guard{Conn: client, tell: p.proxy.refusal})
	}
}

// bound makes the kernel give up a client that does not take what is sent to it.
func bound(c *net.TCPConn, limit time.Duration) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(limit.Milliseconds()))
	})
}

// pause waits a moment when there are no descriptors or no memory; it returns
// false when the port is closed.
func (p *port) pause(err error) bool {
	if errors.Is(err, net.ErrClosed) {
		return false
	}
	p.proxy.opts.Log.Warn("connection not accepted", "port", p.number, "err", err)
	select {
	case <-p.done:
		return false
	case <-time.After(50 * time.Millisecond):
		return true
	}
}

func (p *port) handshake(client net.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), p.proxy.opts.HeaderTimeout)
	defer cancel()
	c := tls.Server(client, p.proxy.tlsConfig(p.number))
	if err := c.HandshakeContext(ctx); err != nil {
		p.proxy.opts.Log.Debug("TLS handshake", "port", p.number, "client", client.RemoteAddr(), "err", err)
		answerPlain(client, err)
		_ = client.Close()
		return
	}
	state := c.ConnectionState()
	if state.NegotiatedProtocol == "h2" {
		// HTTP/2 has one way to tell lengths, and net/http knows it by this type.
		p.hand(c)
		return
	}
	p.hand(&tlsGuard{guard{Conn: c, tell: p.proxy.refusal}, state})
}

// answerPlain tells those who speak HTTP without TLS what is wrong.
func answerPlain(client net.Conn, err error) {
	var record tls.RecordHeaderError
	if errors.As(err, &record) && record.Conn != nil {
		_ = client.SetWriteDeadline(time.Now().Add(lastWords))
		_, _ = client.Write([]byte("HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n" +
			"This port speaks HTTPS: use https://\n"))
	}
}

// hand gives a connection to the server.
func (p *port) hand(c net.Conn) {
	select {
	case p.ready <- c:
	case <-p.done:
		_ = c.Close()
	}
}

// Accept implements net.Listener for the server.
func (p *port) Accept() (net.Conn, error) {
	select {
	case c := <-p.ready:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener: the port is free at once.
func (p *port) Close() error {
	p.stop()
	return p.listener.Close()
}

// Addr implements net.Listener.
func (p *port) Addr() net.Addr { return p.listener.Addr() }

func (p *port) stop() { p.once.Do(func() { close(p.done) }) }

// drain closes the port and waits for its requests.
func (p *port) drain(limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if p.server.Shutdown(ctx) != nil {
		_ = p.server.Close()
	}
}
