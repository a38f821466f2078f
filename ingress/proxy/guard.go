package proxy

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"
)

// lastWords is how long a client has to read why it was refused, and to stop sending.
const lastWords = 500 * time.Millisecond

// RefusedError says what makes a request ambiguous. net/http answers 400 for it and
// closes the connection.
type RefusedError struct{ Err error }

// Error tells the fault.
func (e *RefusedError) Error() string { return fmt.Sprintf("request refused: %v", e.Err) }

// Unwrap gives the fault alone.
func (e *RefusedError) Unwrap() error { return e.Err }

// guard is the connection of a client, whose bytes are watched by a framing before
// net/http has them.
type guard struct {
	net.Conn
	framing framing
	refused atomic.Pointer[RefusedError]
	// ending: nothing is read any more.
	ending atomic.Bool
	// tell is called with the first fault.
	tell func(*RefusedError)
}

// Read passes on what is not ambiguous. The end of a head that is faulty is held
// back, so that nobody ever has the request.
func (g *guard) Read(p []byte) (int, error) {
	if fault := g.refused.Load(); fault != nil {
		return 0, fault
	}
	if g.ending.Load() {
		return 0, io.EOF
	}
	n, err := g.Conn.Read(p)
	good, fault := g.framing.scan(p[:n])
	if fault == nil {
		return n, err
	}
	refused := &RefusedError{fault}
	g.refused.Store(refused)
	g.tell(refused)
	if good > 0 {
		return good, nil
	}
	return 0, refused
}

// CloseWrite ends what is sent, as upgraded connections do.
func (g *guard) CloseWrite() error {
	if c, ok := g.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return nil
}

// Close lets a client that was refused read the answer: the kernel would drop it
// when the client's bytes were thrown away unread.
func (g *guard) Close() error {
	if (g.refused.Load() != nil || g.ending.Load()) && g.CloseWrite() == nil {
		_ = g.SetReadDeadline(time.Now().Add(lastWords))
		_, _ = io.Copy(io.Discard, io.LimitReader(g.Conn, longestLine))
	}
	return g.Conn.Close()
}

// tlsGuard is a guard within TLS. net/http asks it for the state of TLS.
type tlsGuard struct {
	guard
	state tls.ConnectionState
}

// ConnectionState is that of the handshake.
func (g *tlsGuard) ConnectionState() tls.ConnectionState { return g.state }
