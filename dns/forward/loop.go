package forward

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/netip"
	"strings"
	"sync"
	"time"

	mdns "github.com/miekg/dns"
)

const (
	// probeLabel begins the names of probes.
	probeLabel = "toyproxy-loop-probe-"
	// probeEvery is how often upstreams that loop, or did not answer, are probed;
	// probeTries how often one that does not answer.
	probeEvery = 15 * time.Second
	probeTries = 20
)

// probes are the names that were sent to upstreams to see whether they come back.
type probes struct {
	mu   sync.Mutex
	sent map[string]*probe
}

// probe is one such name under way.
type probe struct {
	to *upstream
	// back: it has come back to this server.
	back bool
}

// IsProbe takes note of a name that somebody asks this server for, and tells whether
// it is one that this server has sent itself: then that upstream is asked no more.
func (f *Forwarder) IsProbe(name string) bool {
	if len(name) < len(probeLabel) || !strings.EqualFold(name[:len(probeLabel)], probeLabel) {
		return false
	}
	f.probes.mu.Lock()
	defer f.probes.mu.Unlock()
	p := f.probes.sent[strings.ToLower(name)]
	if p == nil {
		return false
	}
	p.back = true
	p.to.loops.Store(true)
	return true
}

// Watch probes all upstreams until the context ends: each until it has answered, and
// those that loop for ever. Tell is told when one begins to loop, and when it has
// ceased to.
func (f *Forwarder) Watch(ctx context.Context, tell func(upstream netip.AddrPort, loops bool)) {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	tries := map[*upstream]int{}
	for {
		for _, u := range f.table.Load().all {
			before := u.loops.Load()
			if tries[u] >= probeTries && !before {
				continue
			}
			if f.probe(ctx, u) {
				tries[u] = probeTries
			}
			tries[u]++
			if now := u.loops.Load(); now != before {
				tell(u.addr, now)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// probe sends an upstream a name that nobody else knows, and tells whether it
// answered.
func (f *Forwarder) probe(ctx context.Context, u *upstream) (answered bool) {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	name := probeLabel + hex.EncodeToString(b[:]) + "."
	if zone := f.table.Load().zoneOf(u); zone != "." {
		name += zone
	}
	f.probes.begin(name, u)
	_, err := u.over(ctx, "udp", u.message(mdns.Question{Name: name, Qtype: mdns.TypeHINFO, Qclass: mdns.ClassINET}, false))
	if back := f.probes.end(name); !back && err == nil {
		u.loops.Store(false)
	}
	return err == nil
}

func (ps *probes) begin(name string, u *upstream) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.sent[name] = &probe{to: u}
}

// end tells whether a name came back.
func (ps *probes) end(name string) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	back := ps.sent[name].back
	delete(ps.sent, name)
	return back
}

// zoneOf is a zone that an upstream is asked for.
func (t *table) zoneOf(u *upstream) string {
	for _, r := range t.routes {
		for _, other := range r.upstreams {
			if other == u {
				return r.zone
			}
		}
	}
	return "."
}

// Looping returns the upstreams that are not asked because they send queries back.
func (f *Forwarder) Looping() []netip.AddrPort {
	var out []netip.AddrPort
	for _, u := range f.table.Load().all {
		if u.loops.Load() {
			out = append(out, u.addr)
		}
	}
	return out
}

// Cached is how many answers the cache holds.
func (f *Forwarder) Cached() int { return f.cache.count() }
