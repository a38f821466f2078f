package forward

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	mdns "github.com/miekg/dns"
)

// ErrNoRoute says that nobody is to be asked for a name.
var ErrNoRoute = errors.New("no resolver is configured for this name")

// patience is how long a query may take in all: less than the five seconds after
// which most clients ask again.
const patience = 4500 * time.Millisecond

// Route says whom to ask for the names of a zone.
type Route struct {
	// Zone is in lower case with a final dot; "." is all names.
	Zone string
	// Upstreams are asked in this order.
	Upstreams []netip.AddrPort
}

// Exchange is one query to one upstream, as it ended.
type Exchange struct {
	To    netip.AddrPort
	Rcode int
	Took  time.Duration
	// Err is why there was no answer; Rcode means nothing then.
	Err error
}

// Config says how to forward.
type Config struct {
	Routes []Route
	// Cache bounds the answers kept, in number; 0 keeps none.
	Cache int
	// Observe is told of each exchange. May be nil.
	Observe func(Exchange)
	// Now is the clock.
	Now func() time.Time
}

// Forwarder forwards queries. It is safe for concurrent use.
type Forwarder struct {
	config Config
	table  atomic.Pointer[table]
	cache  *cache
	probes probes

	mu     sync.Mutex
	flying map[key]*flight
}

// table is the routes with the state of their upstreams, the longest zone first.
type table struct {
	routes []route
	all    []*upstream
}

type route struct {
	zone      string
	upstreams []*upstream
}

// flight is a query under way, for which several may wait.
type flight struct {
	done  chan struct{}
	reply Reply
	err   error
}

// Reply is what an upstream, or the cache, said.
type Reply struct {
	Rcode int
	// AuthenticData: the upstream has checked signatures.
	AuthenticData            bool
	Answer, Authority, Extra []mdns.RR
	// Cached tells that no upstream was asked for it just now.
	Cached bool
}

// New returns a forwarder.
func New(cfg Config) *Forwarder {
	f := &Forwarder{config: cfg, cache: newCache(cfg.Cache), flying: map[key]*flight{}}
	f.probes.sent = map[string]*probe{}
	f.SetRoutes(cfg.Routes)
	return f
}

// SetRoutes replaces the routes. Upstreams that stay keep their state; what the cache
// holds from others is forgotten when any changed.
func (f *Forwarder) SetRoutes(routes []Route) {
	before := f.table.Load()
	known := map[netip.AddrPort]*upstream{}
	if before != nil {
		for _, u := range before.all {
			known[u.addr] = u
		}
	}
	next := &table{}
	for _, r := range routes {
		out := route{zone: strings.ToLower(mdns.Fqdn(r.Zone))}
		for _, addr := range r.Upstreams {
			u := known[addr]
			if u == nil {
				u = &upstream{addr: addr}
				known[addr] = u
			}
			out.upstreams = append(out.upstreams, u)
			if !slices.Contains(next.all, u) {
				next.all = append(next.all, u)
			}
		}
		next.routes = append(next.routes, out)
	}
	slices.SortStableFunc(next.routes, func(a, b route) int {
		return cmp.Compare(mdns.CountLabel(b.zone), mdns.CountLabel(a.zone))
	})
	f.table.Store(next)
	f.cache.clear()
}

// Resolve asks for a name. Dnssec asks for signatures too. The error is ErrNoRoute, or
// says what became of each upstream.
func (f *Forwarder) Resolve(ctx context.Context, q mdns.Question, dnssec bool) (Reply, error) {
	k := key{strings.ToLower(q.Name), q.Qtype, q.Qclass, dnssec}
	upstreams := f.table.Load().find(k.name)
	if len(upstreams) == 0 {
		return Reply{}, ErrNoRoute
	}
	if reply, ok := f.cache.get(k, f.config.Now()); ok {
		return reply, nil
	}
	f.mu.Lock()
	fl, joined := f.flying[k]
	if !joined {
		fl = &flight{done: make(chan struct{})}
		f.flying[k] = fl
		go f.fly(context.WithoutCancel(ctx), k, fl, upstreams)
	}
	f.mu.Unlock()
	select {
	case <-fl.done:
		return fl.reply.copied(), fl.err
	case <-ctx.Done():
		return Reply{}, ctx.Err()
	}
}

// fly asks the upstreams on behalf of all who wait.
func (f *Forwarder) fly(ctx context.Context, k key, fl *flight, upstreams []*upstream) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	q := mdns.Question{Name: k.name, Qtype: k.kind, Qclass: k.class}
	fl.reply, fl.err = f.ask(ctx, q, k.dnssec, upstreams)
	if fl.err == nil {
		f.cache.put(k, fl.reply, f.config.Now())
	}
	f.mu.Lock()
	delete(f.flying, k)
	f.mu.Unlock()
	close(fl.done)
}

// rounds is how often upstreams that say nothing are asked: a packet may be lost.
const rounds = 2

// ask asks one upstream after the other, those that work first; those that say nothing
// once more while there is time.
func (f *Forwarder) ask(ctx context.Context, q mdns.Question, dnssec bool, upstreams []*upstream) (Reply, error) {
	var errs []error
	left := order(upstreams, f.config.Now())
	for round := 0; round < rounds && len(left) > 0; round++ {
		var silent []*upstream
		errs = nil
		for _, u := range left {
			answer, err := f.try(ctx, u, q, dnssec)
			if err == nil {
				return replyOf(answer), nil
			}
			errs = append(errs, fmt.Errorf("%s: %w", u.addr, err))
			if errors.Is(err, errSilent) {
				silent = append(silent, u)
			}
			if ctx.Err() != nil {
				silent = nil
				break
			}
		}
		left = silent
	}
	return Reply{}, fmt.Errorf("question %s %s: %w", q.Name, mdns.TypeToString[q.Qtype], errors.Join(errs...))
}

// try asks one upstream for an answer that can be passed on.
func (f *Forwarder) try(ctx context.Context, u *upstream, q mdns.Question, dnssec bool) (*mdns.Msg, error) {
	if u.loops.Load() {
		return nil, errors.New("it sends queries back to this server")
	}
	answer, err := f.exchange(ctx, u, q, dnssec)
	if err == nil && answer.Rcode != mdns.RcodeSuccess && answer.Rcode != mdns.RcodeNameError {
		err = fmt.Errorf("answers %s", mdns.RcodeToString[answer.Rcode])
	}
	return answer, err
}

// exchange asks one upstream, and keeps count of how it fares.
func (f *Forwarder) exchange(ctx context.Context, u *upstream, q mdns.Question, dnssec bool) (*mdns.Msg, error) {
	started := f.config.Now()
	answer, err := u.exchange(ctx, q, dnssec)
	ended := f.config.Now()
	u.fared(err, ended)
	if f.config.Observe != nil {
		e := Exchange{To: u.addr, Took: ended.Sub(started), Err: err}
		if answer != nil {
			e.Rcode = answer.Rcode
		}
		f.config.Observe(e)
	}
	return answer, err
}

// find returns whom to ask for a name in lower case.
func (t *table) find(name string) []*upstream {
	for _, r := range t.routes {
		if mdns.IsSubDomain(r.zone, name) {
			return r.upstreams
		}
	}
	return nil
}

// replyOf takes the sections of an answer, without what concerns the transport.
func replyOf(m *mdns.Msg) Reply {
	extra := slices.DeleteFunc(m.Extra, func(rr mdns.RR) bool {
		t := rr.Header().Rrtype
		return t == mdns.TypeOPT || t == mdns.TypeTSIG
	})
	return Reply{Rcode: m.Rcode, AuthenticData: m.AuthenticatedData, Answer: m.Answer, Authority: m.Ns, Extra: extra}
}

// copied returns a reply whose records are the caller's.
func (r Reply) copied() Reply {
	r.Answer, r.Authority, r.Extra = copyRecords(r.Answer), copyRecords(r.Authority), copyRecords(r.Extra)
	return r
}

func copyRecords(rrs []mdns.RR) []mdns.RR {
	if len(rrs) == 0 {
		return nil
	}
	out := make([]mdns.RR, len(rrs))
	for i, rr := range rrs {
		out[i] = mdns.Copy(rr)
	}
	return out
}
