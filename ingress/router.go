package ingress

import (
	"iter"
	"slices"
	"strings"
)

// Router finds the routes of one Config. It may be used by any number of
// goroutines at once. What a request costs does not depend on the number of hosts,
// nor on the routes of other hosts.
type Router struct {
	ports map[uint16][]group
}

// Found is what a request met. Without a Route the answer is 404.
type Found struct {
	// Listener is nil when none covers the host.
	Listener *Listener
	Route    *Route
	// Host is that of the request, as NormalizeHost returns it, and Hostname is what
	// the route covers it by: a label for metrics that clients cannot multiply.
	Host     string
	Hostname Hostname
}

// group are listeners that shadow one another.
type group struct {
	byHost    hosts[*listener]
	listeners []*listener
}

// listener is a Listener with its index.
type listener struct {
	*Listener
	byHost hosts[*pathIndex]
	certs  certificates
}

// hosts finds what stands for a host by its name.
type hosts[T any] struct {
	exact map[string]T
	// one and deep are keyed by the suffix of the wildcard, dot included.
	one, deep map[string]T
	every     *T
}

// pathIndex has the routes for one Hostname, by path. Numbers are positions in the
// list of routes, each list ascending: the lowest that matches has the request.
type pathIndex struct {
	name          Hostname
	exact, prefix map[string][]int
	longest       int // length of the longest prefix
	regexes       []int
}

// NewRouter makes the index of a Config.
func NewRouter(c Config) *Router {
	r := &Router{ports: make(map[uint16][]group, len(c.Ports))}
	for i := range c.Ports {
		port := &c.Ports[i]
		groups := r.ports[port.Number]
		for j := range port.Listeners {
			l := &port.Listeners[j]
			for len(groups) <= l.Group {
				groups = append(groups, group{})
			}
			groups[l.Group].add(newListener(l))
		}
		r.ports[port.Number] = groups
	}
	return r
}

func (g *group) add(l *listener) {
	g.listeners = append(g.listeners, l)
	g.byHost.at(l.Hostname, func() *listener { return l })
}

func newListener(l *Listener) *listener {
	out := &listener{Listener: l, certs: newCertificates(l)}
	for i := range l.Routes {
		names := l.Routes[i].Hosts
		if len(names) == 0 {
			names = []Hostname{{}}
		}
		for _, name := range names {
			at := out.byHost.at(name, func() *pathIndex { return &pathIndex{name: name} })
			at.add(i, l.Routes[i].Match)
		}
	}
	return out
}

// at returns what stands at a name, made if there is nothing.
func (h *hosts[T]) at(name Hostname, create func() T) T {
	key, wild := name.suffix()
	table := &h.one
	switch {
	case !wild && name.Name == "":
		if h.every == nil {
			h.every = new(create())
		}
		return *h.every
	case !wild:
		key, table = name.Name, &h.exact
	case name.AnyDepth:
		table = &h.deep
	}
	if v, ok := (*table)[key]; ok {
		return v
	}
	if *table == nil {
		*table = map[string]T{}
	}
	v := create()
	(*table)[key] = v
	return v
}

// covering yields what stands for a host, the most specific first.
func (h *hosts[T]) covering(host string, yield func(T) bool) {
	if v, ok := h.exact[host]; ok && !yield(v) {
		return
	}
	for suffix := range suffixes(host) {
		if v, ok := h.one[suffix]; ok && len(suffix) == len(host)-strings.IndexByte(host, '.') && !yield(v) {
			return
		}
		if v, ok := h.deep[suffix]; ok && !yield(v) {
			return
		}
		if len(h.deep) == 0 {
			break // only the longest suffix has one label before it
		}
	}
	if h.every != nil {
		yield(*h.every)
	}
}

// suffixes yields ".b.example" and ".example" of "a.b.example".
func suffixes(host string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for dot := strings.IndexByte(host, '.'); dot > 0; {
			host = host[dot:]
			if !yield(host) {
				return
			}
			next := strings.IndexByte(host[1:], '.')
			dot = next + 1
		}
	}
}

func (p *pathIndex) add(position int, m Match) {
	switch m.Kind {
	case PathExact:
		if p.exact == nil {
			p.exact = map[string][]int{}
		}
		p.exact[m.Path] = append(p.exact[m.Path], position)
	case PathRegex:
		p.regexes = append(p.regexes, position)
	case PathPrefix:
		if p.prefix == nil {
			p.prefix = map[string][]int{}
		}
		key := trimPrefix(m.Path)
		p.prefix[key] = append(p.prefix[key], position)
		p.longest = max(p.longest, len(key))
	}
}

// candidates yields the lists of routes whose path matches, or is a regular
// expression. Of a long path only the part is looked at that a prefix can have.
func (p *pathIndex) candidates(path string, yield func(positions []int) bool) {
	if list, ok := p.exact[path]; ok && !yield(list) {
		return
	}
	if len(path) > p.longest {
		path = path[:p.longest+1]
		path = path[:max(strings.LastIndexByte(path, '/'), 0)]
	}
	for p.prefix != nil {
		if list, ok := p.prefix[path]; ok && !yield(list) {
			return
		}
		slash := strings.LastIndexByte(path, '/')
		if slash < 0 {
			break
		}
		path = path[:slash]
	}
	if len(p.regexes) > 0 {
		yield(p.regexes)
	}
}

// Lookup returns the route that has a request to a port.
func (r *Router) Lookup(port uint16, req Request) Found {
	host := NormalizeHost(req.Host)
	best := Found{Host: host}
	for _, g := range r.ports[port] {
		found := Found{Host: host}
		g.byHost.covering(host, func(l *listener) bool {
			found = l.lookup(host, req)
			return false
		})
		if found.Listener != nil && (best.Listener == nil || found.moreSpecific(best)) {
			best = found
		}
	}
	return best
}

// lookup finds the first route of a listener that matches.
func (l *listener) lookup(host string, req Request) Found {
	found := Found{Listener: l.Listener, Host: host}
	best := len(l.Routes)
	l.byHost.covering(host, func(paths *pathIndex) bool {
		paths.candidates(req.Path.Match, func(positions []int) bool {
			if i := l.first(positions, best, req); i < best {
				best, found.Hostname = i, paths.name
			}
			return true
		})
		return true
	})
	if best < len(l.Routes) {
		found.Route = &l.Routes[best]
		if found.Hostname.Name == "" {
			found.Hostname = l.Hostname
		}
	}
	return found
}

// first returns the first of the positions below a bound whose route matches, or the bound.
func (l *listener) first(positions []int, bound int, req Request) int {
	for _, i := range positions {
		if i >= bound {
			break
		}
		m := &l.Routes[i].Match
		if (m.Kind != PathRegex || m.matchesPath(req.Path.Match)) && m.matchesRest(req) {
			return i
		}
	}
	return bound
}

// moreSpecific compares what two groups found: by host, then by path.
func (f Found) moreSpecific(o Found) bool {
	if f.Route == nil || o.Route == nil {
		return o.Route == nil && f.Route != nil
	}
	return slices.Compare(f.weight(), o.weight()) > 0
}

func (f Found) weight() []int {
	exact := 0
	if f.Route.Match.Kind == PathExact {
		exact = 1
	}
	return []int{f.Hostname.rank(), exact, len(f.Route.Match.Path)}
}
