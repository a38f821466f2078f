package lab

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
)

// Conn is a TCP connection that stays open, to see what becomes of it when the
// rules change.
type Conn struct {
	// Outcome says who answered.
	Outcome Outcome
	conn    net.Conn
}

// Open dials an address from a host and keeps the connection until the test
// ends. The test ends if nobody answers.
func Open(from *Host, to netip.AddrPort) *Conn {
	from.t.Helper()
	c := &Conn{}
	var err error
	from.Do(func() { c.conn, err = net.DialTimeout(dataplane.TCP.String(), to.String(), 3*time.Second) })
	if err != nil {
		from.t.Fatalf("%s: connection to %s: %v", from.Name, to, err)
	}
	from.t.Cleanup(func() { c.conn.Close() })
	answer, err := c.read()
	if err == nil {
		err = parseAnswer(answer, &c.Outcome)
	}
	if err != nil {
		from.t.Fatalf("%s: connection to %s: %v", from.Name, to, err)
	}
	c.Outcome.Source = c.conn.LocalAddr().(*net.TCPAddr).AddrPort()
	return c
}

// Echo sends a few bytes and returns nil if they come back.
func (c *Conn) Echo() error {
	const word = "still there?"
	if _, err := c.conn.Write([]byte(word)); err != nil {
		return fmt.Errorf("open connection: %w", err)
	}
	got, err := c.read()
	if err != nil {
		return fmt.Errorf("open connection: %w", err)
	}
	if got != word {
		return fmt.Errorf("open connection: %q came back, want %q", got, word)
	}
	return nil
}

// Transfer sends n bytes, in full packets, and returns nil if as many come back.
func (c *Conn) Transfer(n int) error {
	if err := c.conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	if _, err := c.conn.Write(make([]byte, n)); err != nil {
		return fmt.Errorf("transfer of %d bytes: %w", n, err)
	}
	if _, err := io.ReadFull(c.conn, make([]byte, n)); err != nil {
		return fmt.Errorf("transfer of %d bytes and back: %w", n, err)
	}
	return nil
}

func (c *Conn) read() (string, error) {
	if err := c.conn.SetReadDeadline(time.Now().Add(3 * time.Second)); err != nil {
		return "", err
	}
	b := make([]byte, 256)
	n, err := c.conn.Read(b)
	return string(b[:n]), err
}

// Reset ends the connection at once, for the other end too.
func (c *Conn) Reset() {
	if tcp, ok := c.conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	c.conn.Close()
}
