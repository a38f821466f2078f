package lab

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
)

// Fate is how a probe ended.
type Fate uint8

// The five fates, and Broken for a probe that could not be made at all.
const (
	// OK: an endpoint answered.
	OK Fate = iota
	// Refused: a TCP reset, or an ICMP port unreachable.
	Refused
	// Timeout: nothing came back in time. See Host.Capture for a packet that
	// leaked rather than was dropped.
	Timeout
	// Unreachable: an ICMP host or network unreachable.
	Unreachable
	// Reset: the connection came about and was cut before the answer.
	Reset
	// Broken: the socket call failed for another reason, given in Outcome.Err.
	Broken
)

// String returns the word that all tests and tables use: OK, REFUSED, …
func (f Fate) String() string {
	return [...]string{"OK", "REFUSED", "TIMEOUT", "UNREACHABLE", "RESET", "BROKEN"}[f]
}

// Options of a probe. The zero value is right for most.
type Options struct {
	// Timeout is how long to wait for the answer; 3 s if zero.
	Timeout time.Duration
	// Source is the port to send from; the kernel's choice if zero.
	Source uint16
	// From is the address to send from; the kernel's choice if it is not valid.
	From netip.Addr
}

// Outcome is what became of one probe.
type Outcome struct {
	Fate Fate
	// Endpoint is the name of the host that answered; empty unless OK.
	Endpoint string
	// Local is the address and port the answering server was reached at.
	Local netip.AddrPort
	// Peer is the source the server saw, Source the one the client used.
	Peer, Source netip.AddrPort
	// Took is the time from the start to the answer.
	Took time.Duration
	// Err is the error of the socket call; nil if OK.
	Err error
}

// Masqueraded reports whether the server saw another source address than the
// client has.
func (o Outcome) Masqueraded() bool {
	return o.Fate == OK && o.Peer.Addr() != o.Source.Addr()
}

// Name returns the endpoint that answered as host and port, "p2:8080".
func (o Outcome) Name() string { return fmt.Sprintf("%s:%d", o.Endpoint, o.Local.Port()) }

// String returns "OK(p2 10.244.0.12:8080, nosnat)" or "REFUSED".
func (o Outcome) String() string {
	switch o.Fate {
	case OK:
		snat := "nosnat"
		if o.Masqueraded() {
			snat = "snat to " + o.Peer.Addr().String()
		}
		return fmt.Sprintf("OK(%s %s, %s)", o.Endpoint, o.Local, snat)
	case Broken:
		return fmt.Sprintf("BROKEN(%v)", o.Err)
	}
	return o.Fate.String()
}

// Probe sends one connection or datagram from a host to an address and says
// what became of it.
func Probe(from *Host, p dataplane.Protocol, to netip.AddrPort, opt Options) Outcome {
	from.t.Helper()
	var out Outcome
	from.Do(func() { out = probe(p, to, opt) })
	return out
}

// Tally counts the outcomes of many probes.
type Tally struct {
	// Fates counts by fate; Endpoints counts the OK ones by who answered,
	// "p2:8080".
	Fates     map[Fate]int
	Endpoints map[string]int
	// Slowest is the longest that one probe took; all of them took Took.
	Slowest, Took time.Duration
	// Failure is the first outcome that was not OK, for messages.
	Failure *Outcome
}

// Series sends up to n probes, one after the other from one thread, each from a
// port of the kernel's choice, until visit returns false. Closed connections
// leave no state behind at the client, so n may exceed the number of ports.
func Series(from *Host, p dataplane.Protocol, to netip.AddrPort, n int, visit func(Outcome) (more bool)) {
	from.t.Helper()
	from.Do(func() {
		for range n {
			// A busy guest may lose a SYN to a full queue; TCP sends it again after
			// one second and after three.
			if !visit(probe(p, to, Options{Timeout: 10 * time.Second})) {
				return
			}
		}
	})
}

// ProbeMany counts the outcomes of a Series of n probes.
func ProbeMany(from *Host, p dataplane.Protocol, to netip.AddrPort, n int) Tally {
	from.t.Helper()
	t := Tally{Fates: map[Fate]int{}, Endpoints: map[string]int{}}
	start := time.Now()
	Series(from, p, to, n, func(o Outcome) bool {
		t.count(o)
		return true
	})
	t.Took = time.Since(start)
	return t
}

func (t *Tally) count(o Outcome) {
	t.Fates[o.Fate]++
	t.Slowest = max(t.Slowest, o.Took)
	if o.Fate == OK {
		t.Endpoints[o.Name()]++
		return
	}
	if t.Failure == nil {
		t.Failure = &o
	}
}

// parseAnswer reads what Serve writes.
func parseAnswer(answer string, o *Outcome) error {
	f := strings.Fields(answer)
	if len(f) != 5 || f[3] != "from" {
		return fmt.Errorf("answer %q is not of a lab server", answer)
	}
	local, err := netip.ParseAddrPort(f[2])
	if err != nil {
		return fmt.Errorf("answer %q: %w", answer, err)
	}
	peer, err := netip.ParseAddrPort(f[4])
	if err != nil {
		return fmt.Errorf("answer %q: %w", answer, err)
	}
	o.Endpoint, o.Local, o.Peer = f[0], local, peer
	return nil
}
