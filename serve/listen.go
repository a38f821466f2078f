package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"
)

// BusyError says that a port cannot be had because a program has it.
type BusyError struct {
	// Addr is what was to be opened: ":10256".
	Addr string
	// Holder is the program, as "nginx (pid 812)"; empty when it cannot be seen: it
	// belongs to somebody else, or to another PID namespace.
	Holder string
	err    error
}

// Error names the port, who has it, and what to do.
func (e *BusyError) Error() string {
	if e.Holder == "" {
		return fmt.Sprintf("TCP port %s is taken by another program: stop it, or choose another port (see: ss -ltnp)", e.Addr)
	}
	return fmt.Sprintf("TCP port %s is taken by %s: stop it, or choose another port", e.Addr, e.Holder)
}

// Unwrap gives the answer of the kernel.
func (e *BusyError) Unwrap() error { return e.err }

// Listen opens a TCP port in the network namespace of the calling thread. Addr is
// "ADDRESS:PORT"; without the address, the port of all addresses of both families.
// A port that is taken gives a *BusyError.
func Listen(ctx context.Context, addr string) (net.Listener, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return nil, &BusyError{Addr: addr, Holder: holder(addr), err: err}
	case err != nil:
		return nil, fmt.Errorf("TCP port %s: %w", addr, err)
	}
	return ln, nil
}

// portOf returns the port of "ADDRESS:PORT".
func portOf(addr string) (uint16, bool) {
	if at, err := netip.ParseAddrPort(addr); err == nil {
		return at.Port(), true
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return uint16(n), err == nil
}
