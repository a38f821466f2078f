package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toyproxy/toyproxy/ingress"
)

// errSlowBody says that a client stopped sending in the middle of a body.
var errSlowBody = errors.New("the client sent nothing for too long")

// clientBody is the body of a request over HTTP/1. It bounds the wait for its next bytes.
type clientBody struct {
	io.ReadCloser
	x       *exchange
	control *http.ResponseController
	limit   time.Duration
	set     time.Time
	ended   atomic.Bool
}

// Read waits no longer than the limit.
func (b *clientBody) Read(p []byte) (int, error) {
	if now := time.Now(); now.Sub(b.set) > b.limit/16 {
		b.set = now
		b.x.bodyDue.Store(now.Add(b.limit).UnixNano())
		_ = b.control.SetReadDeadline(now.Add(b.limit))
	}
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == io.EOF:
		// net/http reads on, to notice a client that leaves.
		b.ended.Store(true)
		b.x.bodyDue.Store(0)
		_ = b.control.SetReadDeadline(time.Time{})
	case err != nil:
		b.x.bodyErr.Store(&err)
	}
	return n, err
}

// leftover is how much of a body that nobody wanted is read, to use its connection again.
const leftover = 256 << 10

// settle reads what is left of the body of a request that has been answered. Where
// that is much, or does not come soon, the connection ends: net/http would wait for
// the rest without a bound.
func (x *exchange) settle() {
	b := x.body
	if b == nil || b.ended.Load() || x.status == http.StatusSwitchingProtocols {
		return
	}
	_ = b.control.SetReadDeadline(time.Now().Add(lastWords))
	_, err := io.CopyN(io.Discard, b.ReadCloser, leftover)
	x.bodyDue.Store(0)
	if err != io.EOF {
		x.cut()
		// Now: the end that the guard gives makes net/http watch for a client that leaves.
		// If that began after the handler, it would be in the way of the next request.
		_ = b.ReadCloser.Close()
		return
	}
	b.ended.Store(true)
	_ = b.control.SetReadDeadline(time.Time{})
}

// cut ends the client's connection once the answer has been sent.
func (x *exchange) cut() {
	x.endConn = true
	if x.conn.guard != nil {
		x.conn.guard.ending.Store(true)
	}
}

// bodyFault returns what was wrong with the body that the client sent. A context that
// has ended does not tell: net/http ends it when the client's connection fails.
func (x *exchange) bodyFault(now time.Time) error {
	if g := x.conn.guard; g != nil {
		if refused := g.refused.Load(); refused != nil {
			return refused
		}
	}
	if due := x.bodyDue.Load(); due != 0 && now.UnixNano() >= due {
		return errSlowBody
	}
	var tooLarge *http.MaxBytesError
	switch err := x.bodyErr.Load(); {
	case err == nil, isGone(*err):
		return nil
	case errors.As(*err, &tooLarge):
		return *err
	default:
		return &RefusedError{*err}
	}
}

// isGone tells whether the error of a connection only says that it has ended.
func isGone(err error) bool {
	var broken net.Error
	return errors.As(err, &broken) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, http.ErrBodyReadAfterClose)
}

// limitTime bounds a whole exchange. The returned function ends the bound.
func (p *Proxy) limitTime(ctx context.Context, s ingress.Settings) (context.Context, func()) {
	limit := p.opts.RequestTimeout
	if s.RequestTimeout > 0 {
		limit = s.RequestTimeout
	}
	if limit <= 0 {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(limit, func() { cancel(errRequestLimit) })
	return ctx, func() { timer.Stop() }
}

// buffers are those that bodies are copied through.
type buffers struct{ pool sync.Pool }

const bufferSize = 32 << 10

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte {
	if buf, ok := b.pool.Get().(*[bufferSize]byte); ok {
		return buf[:]
	}
	return make([]byte, bufferSize)
}

// Put implements httputil.BufferPool.
func (b *buffers) Put(buf []byte) { b.pool.Put((*[bufferSize]byte)(buf)) }

// upgrades are the connections that were taken over from net/http.
type upgrades struct {
	mu    sync.Mutex
	open  map[*upgraded]bool
	gone  sync.WaitGroup
	gauge gauge
}

// upgraded is one of them.
type upgraded struct {
	net.Conn
	of    *upgrades
	early []byte
	once  sync.Once
}

// Read passes on what the client sends.
func (c *upgraded) Read(p []byte) (int, error) {
	if len(c.early) > 0 {
		n := copy(p, c.early)
		c.early = c.early[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// add begins to count a connection, from which some bytes have been read already.
func (u *upgrades) add(c net.Conn, early []byte) net.Conn {
	out := &upgraded{Conn: c, of: u, early: early}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.open == nil {
		u.open = map[*upgraded]bool{}
	}
	u.open[out] = true
	u.gone.Add(1)
	u.gauge.Inc()
	return out
}

// Close ends it.
func (c *upgraded) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() {
		c.of.mu.Lock()
		delete(c.of.open, c)
		c.of.mu.Unlock()
		c.of.gauge.Dec()
		c.of.gone.Done()
	})
	return err
}

// CloseWrite passes on that the endpoint has nothing more to send.
func (c *upgraded) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}

// drain waits until all have ended, and ends those that are left when time is up.
func (u *upgrades) drain(limit time.Duration) {
	done := make(chan struct{})
	go func() { u.gone.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(limit):
		u.mu.Lock()
		for c := range u.open {
			_ = c.Conn.Close()
		}
		u.mu.Unlock()
		<-done
	}
}
