package proxy

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/toyproxy/toyproxy/ingress"
)

// skipped is how long an endpoint that could not be reached is left alone, while
// there are others.
const skipped = 2 * time.Second

// target is an endpoint with what is known of it.
type target struct {
	// at is "ADDRESS:PORT"; for an ExternalName the address is a name.
	at string
	// tag stands for it in cookies.
	tag string
	// pending counts the requests that it has not answered to the end.
	pending atomic.Int64
	// down is until when it is left alone, in nanoseconds since 1970.
	down   atomic.Int64
	series endpointSeries
}

func (t *target) usable(now time.Time) bool { return t.down.Load() <= now.UnixNano() }

// pool is a backend with its targets of the moment. Routes keep their pool while
// targets come and go.
type pool struct {
	backend  ingress.Backend
	now      atomic.Pointer[targetSet]
	sessions sessions
}

// targetSet is what a pool has at one moment. It is not changed.
type targetSet struct {
	targets []*target
	// protocol is what the port of the Service says; a Backend may say another.
	protocol ingress.Protocol
	// affinity is how long a client stays at its target (sessionAffinity ClientIP); 0 is not.
	affinity time.Duration
	// missing says why there are no targets, for the log.
	missing string
}

// become replaces the targets; those that stay keep their counts.
func (p *pool) become(addresses []string, set targetSet, m *metrics) {
	old := p.now.Load()
	service := p.backend.Service.String()
	for _, at := range addresses {
		t := old.find(at)
		if t == nil {
			t = &target{at: at, tag: tagOf(at), series: m.endpoint(service, at)}
		}
		set.targets = append(set.targets, t)
	}
	p.now.Store(&set)
	if old == nil {
		return
	}
	for _, t := range old.targets {
		if set.find(t.at) == nil {
			m.forgetEndpoint(service, t.at)
		}
	}
}

// leave is called when no route has the pool any more.
func (p *pool) leave(m *metrics) {
	for _, t := range p.now.Load().targets {
		m.forgetEndpoint(p.backend.Service.String(), t.at)
	}
}

// find returns the target at an address, or nil.
func (s *targetSet) find(at string) *target {
	if s == nil {
		return nil
	}
	for _, t := range s.targets {
		if t.at == at {
			return t
		}
	}
	return nil
}

// wish is what a request asks of a choice.
type wish struct {
	client netip.Addr
	// tag is the cookie of affinity, empty when there is none.
	tag string
	// tried are left out.
	tried []*target
}

// pick chooses a target, or nil when there is none that has not been tried.
func (p *pool) pick(set *targetSet, w wish, now time.Time) *target {
	if t := set.tagged(w, now); t != nil {
		return t
	}
	if set.affinity > 0 {
		return p.sessions.pick(set, w, now)
	}
	return set.least(w, now)
}

// tagged returns the target that the client's cookie names, if it is to be had.
func (s *targetSet) tagged(w wish, now time.Time) *target {
	if w.tag == "" {
		return nil
	}
	for _, t := range s.targets {
		if t.tag == w.tag && t.usable(now) && !slices.Contains(w.tried, t) {
			return t
		}
	}
	return nil
}

// least draws two targets and returns the one with fewer requests pending: nearly
// as good as the least of all, and without all clients running to the same one.
func (s *targetSet) least(w wish, now time.Time) *target {
	if len(s.targets) == 0 {
		return nil
	}
	a, b := s.targets[rand.IntN(len(s.targets))], s.targets[rand.IntN(len(s.targets))]
	if len(w.tried) == 0 && a.usable(now) && b.usable(now) {
		return idler(a, b)
	}
	open := s.open(w, now)
	if len(open) == 0 {
		return nil
	}
	return idler(open[rand.IntN(len(open))], open[rand.IntN(len(open))])
}

func idler(a, b *target) *target {
	if b.pending.Load() < a.pending.Load() {
		return b
	}
	return a
}

// open are the targets that have not been tried: those that can be reached as far
// as is known, or else all of them.
func (s *targetSet) open(w wish, now time.Time) []*target {
	var up, rest []*target
	for _, t := range s.targets {
		switch {
		case slices.Contains(w.tried, t):
		case t.usable(now):
			up = append(up, t)
		default:
			rest = append(rest, t)
		}
	}
	if len(up) == 0 {
		return rest
	}
	return up
}

// hashed returns the target with the highest hash of client and target: every
// proxy, also one that has just begun, chooses the same one, and a target that
// comes or goes moves only its own share of the clients.
func (s *targetSet) hashed(w wish, now time.Time) *target {
	var best *target
	var highest uint64
	for _, t := range s.open(w, now) {
		if score := mix(w.client, t.at); best == nil || score > highest {
			best, highest = t, score
		}
	}
	return best
}

// mix is FNV-1a with a last round that spreads what differs at the end: the hash of
// the standard library differs from process to process.
func mix(client netip.Addr, at string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	raw := client.As16()
	for _, c := range raw {
		h = (h ^ uint64(c)) * prime
	}
	for i := range len(at) {
		h = (h ^ uint64(at[i])) * prime
	}
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	return h ^ h>>33
}

// tagOf names a target in a cookie without telling its address; every proxy names
// it alike.
func tagOf(at string) string {
	return fmt.Sprintf("%016x", mix(netip.IPv6Unspecified(), at))
}
