package conformance

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/lab"
)

// want is the expected outcome of a flow.
type want string

const (
	served  want = "OK"
	sticky  want = "STICKY"
	refused want = "REFUSED"
	dropped want = "DROPPED"
)

const (
	// atOnce is the longest a refusal may take. A client that has to send its
	// SYN again has waited for a second.
	atOnce = 700 * time.Millisecond
	// patience is how long a probe that ought to be dropped waits.
	patience = 250 * time.Millisecond
)

// flow is one line of expectation: packets from a host to a frontend.
type flow struct {
	line string
	from string
	// source is the address that it is sent from; the host's choice if not valid.
	source   netip.Addr
	protocol dataplane.Protocol
	to       netip.AddrPort
	want     want
	// endpoints may serve it, as "p2:8080"; with OK each must.
	endpoints []string
	snat      bool
	// times is how often it is tried; 0: as often as needed to see all endpoints.
	times int
}

func parseFlow(line string) (flow, error) {
	words := strings.Fields(line)
	if len(words) < 4 {
		return flow{}, errors.New("too short")
	}
	from, source, _ := strings.Cut(words[0], "@")
	f := flow{line: line, from: from, want: want(words[3])}
	var ok bool
	if f.protocol, ok = protocolOf(words[1]); !ok {
		return f, fmt.Errorf("unknown protocol %q", words[1])
	}
	var err error
	if f.to, err = netip.ParseAddrPort(words[2]); err != nil {
		return f, err
	}
	if source != "" {
		if f.source, err = netip.ParseAddr(source); err != nil {
			return f, err
		}
	}
	return f, f.parseRest(words[4:])
}

// parseRest reads the words behind the outcome.
func (f *flow) parseRest(words []string) (err error) {
	source := false
	for _, w := range words {
		n, isTimes := strings.CutPrefix(w, "x")
		switch {
		case w == "snat", w == "nosnat":
			f.snat, source = w == "snat", true
		case strings.Contains(w, ":"):
			f.endpoints = append(f.endpoints, w)
		case isTimes:
			if f.times, err = strconv.Atoi(n); err != nil {
				return err
			}
		default:
			return fmt.Errorf("unknown word %q", w)
		}
	}
	return f.check(source)
}

func (f flow) check(source bool) error {
	switch f.want {
	case served, sticky:
		if len(f.endpoints) == 0 || !source {
			return fmt.Errorf("%s needs endpoints, and snat or nosnat", f.want)
		}
	case refused, dropped:
		if len(f.endpoints) > 0 || source {
			return fmt.Errorf("%s takes neither endpoints nor snat", f.want)
		}
	default:
		return fmt.Errorf("unknown outcome %q", f.want)
	}
	return nil
}

// twin is the same flow in IPv6.
func (f flow) twin() (flow, bool) {
	to, ok := lab.Twin(f.to.Addr())
	f.to = netip.AddrPortFrom(to, f.to.Port())
	if f.source.IsValid() {
		f.source, _ = lab.Twin(f.source)
	}
	return f, ok
}

// String names the flow in messages, with the address really dialled.
func (f flow) String() string {
	from := f.from
	if f.source.IsValid() {
		from += "@" + f.source.String()
	}
	return fmt.Sprintf("%s → %s/%s", from, f.to, f.protocol)
}

// try sends the flow's packets and returns what is wrong with their outcome.
func (f flow) try(l *lab.Lab) error {
	from, ok := hostOf(l, f.from)
	if !ok {
		return fmt.Errorf("no host %q in the lab", f.from)
	}
	switch f.want {
	case refused:
		return f.tryRefused(from)
	case dropped:
		return f.tryDropped(l, from)
	}
	return f.tryServed(l, from)
}

// tryRefused dials as often as asked, all at once: refusals that the kernel
// limits to so many a second show only then.
func (f flow) tryRefused(from *lab.Host) error {
	outcomes := make([]lab.Outcome, max(f.times, 1))
	var wg sync.WaitGroup
	for i := range outcomes {
		wg.Go(func() {
			outcomes[i] = lab.Probe(from, f.protocol, f.to, lab.Options{Timeout: 2 * atOnce, From: f.source})
		})
	}
	wg.Wait()
	for _, o := range outcomes {
		if o.Fate != lab.Refused {
			return fmt.Errorf("%s, want REFUSED", o)
		}
		if o.Took > atOnce {
			return fmt.Errorf("refused after %v, want at once", o.Took.Round(time.Millisecond))
		}
	}
	return nil
}

func (f flow) tryDropped(l *lab.Lab, from *lab.Host) error {
	uplink := l.Node.Capture(lab.Uplink)
	defer uplink.Close()
	for range max(f.times, 1) {
		o := lab.Probe(from, f.protocol, f.to, lab.Options{Timeout: patience, From: f.source})
		if o.Fate != lab.Timeout {
			return fmt.Errorf("%s, want DROPPED", o)
		}
	}
	if n := uplink.Sent(f.to.Addr()); n > 0 {
		return fmt.Errorf("leaked: %d packets to the frontend left by the uplink, want DROPPED", n)
	}
	return nil
}

// tryServed dials until every endpoint has answered, and a few times more than
// there are, so that one too many shows.
func (f flow) tryServed(l *lab.Lab, from *lab.Host) (err error) {
	seen := map[string]bool{}
	least, most := f.tries()
	tried := 0
	f.series(from, most, func(o lab.Outcome) bool {
		tried++
		if err = f.judge(l, o, seen); err != nil {
			err = fmt.Errorf("try %d: %s, %w", tried, o, err)
			return false
		}
		seen[o.Name()] = true
		return tried < least || len(seen) < len(f.endpoints)
	})
	if err == nil && f.want == served && len(seen) < len(f.endpoints) {
		err = fmt.Errorf("only %v of %v answered in %d tries", slices.Collect(maps.Keys(seen)), f.endpoints, tried)
	}
	return err
}

// series dials up to n times, until visit returns false.
func (f flow) series(from *lab.Host, n int, visit func(lab.Outcome) (more bool)) {
	if !f.source.IsValid() {
		lab.Series(from, f.protocol, f.to, n, visit)
		return
	}
	for range n {
		if !visit(lab.Probe(from, f.protocol, f.to, lab.Options{From: f.source, Timeout: 10 * time.Second})) {
			return
		}
	}
}

// tries returns how often to dial at least, and at most. An endpoint that is
// one of three stays unseen in 60 fair tries once in 10^10.
func (f flow) tries() (least, most int) {
	switch {
	case f.times > 0:
		return f.times, f.times
	case f.want == sticky:
		return 12, 12
	case len(f.endpoints) == 1:
		return 4, 4
	}
	return 2 * len(f.endpoints), 20 * len(f.endpoints)
}

// judge checks one answer: by whom, at which address, seen from which source.
func (f flow) judge(l *lab.Lab, o lab.Outcome, seen map[string]bool) error {
	if o.Fate != lab.OK || !slices.Contains(f.endpoints, o.Name()) {
		return fmt.Errorf("want %s by %v", f.want, f.endpoints)
	}
	if f.want == sticky && len(seen) > 0 && !seen[o.Name()] {
		return fmt.Errorf("want the same as before, %v", slices.Collect(maps.Keys(seen)))
	}
	h, _ := hostOf(l, o.Endpoint)
	at := h.Addr(dataplane.FamilyOf(f.to.Addr()))
	switch {
	case o.Local.Addr() != at:
		return fmt.Errorf("reached at %s, want %s", o.Local.Addr(), at)
	case f.snat && !l.Node.Owns(o.Peer.Addr()):
		return fmt.Errorf("source %s seen, want an address of the node", o.Peer.Addr())
	case !f.snat && o.Masqueraded():
		return fmt.Errorf("source %s seen, want the client's own", o.Peer.Addr())
	}
	return nil
}

// hostOf finds a host by its name.
func hostOf(l *lab.Lab, name string) (*lab.Host, bool) {
	for _, h := range append([]*lab.Host{l.Node, l.Outside, l.Second, l.Remote}, l.Pods...) {
		if h != nil && h.Name == name {
			return h, true
		}
	}
	return nil, false
}
