package proxy

import (
	"errors"
	"time"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/ingress"
)

// world is a Config made ready to serve. It is not changed: a request keeps the one
// that it began with.
type world struct {
	config ingress.Config
	router *ingress.Router
	pools  map[poolKey]*pool
	series map[*ingress.Route]*routeSeries
	// tls says which ports speak it.
	tls  map[uint16]bool
	keys keyring
}

// pool returns that of a backend of the Config.
func (w *world) pool(b ingress.Backend) *pool { return w.pools[keyOf(b)] }

// eachRoute visits the routes of a Config where they stand.
func eachRoute(c ingress.Config, visit func(*ingress.Route)) {
	for i := range c.Ports {
		for j := range c.Ports[i].Listeners {
			routes := c.Ports[i].Listeners[j].Routes
			for k := range routes {
				visit(&routes[k])
			}
		}
	}
}

// named lists the backends of a Config, also those that get copies.
func named(c ingress.Config) []ingress.Backend {
	var out []ingress.Backend
	mirrors := func(filters []ingress.Filter) {
		for _, f := range filters {
			if f.Mirror != nil {
				out = append(out, *f.Mirror)
			}
		}
	}
	eachRoute(c, func(r *ingress.Route) {
		mirrors(r.Filters)
		for _, share := range r.Split {
			out = append(out, share.Backend)
			mirrors(share.Filters)
		}
	})
	return out
}

// Apply makes the proxy serve a Config from the next request on. Ports that are new
// are opened, those that are gone are closed once their requests have ended. The
// error names ports and certificates that could not be had: everything else is
// served. Calling it again with the same Config tries them again.
func (p *Proxy) Apply(c ingress.Config) error {
	p.applying.Lock()
	defer p.applying.Unlock()
	old := p.world.Load()
	next := &world{
		config: c,
		router: ingress.NewRouter(c),
		pools:  p.backends.use(named(c)),
		series: map[*ingress.Route]*routeSeries{},
		tls:    map[uint16]bool{},
	}
	// Rules of one object share their series.
	byObject := map[cluster.Ref]*routeSeries{}
	eachRoute(c, func(r *ingress.Route) {
		if byObject[r.Object] == nil {
			byObject[r.Object] = &routeSeries{route: r.Object.String()}
			if kept := p.routes[r.Object]; kept != nil {
				byObject[r.Object] = kept
			}
		}
		next.series[r] = byObject[r.Object]
	})
	for _, port := range c.Ports {
		next.tls[port.Number] = port.TLS
	}
	keys, badKeys := old.keys.with(c)
	next.keys = keys
	p.world.Store(next)
	p.dropSeries(old, next)
	p.routes = byObject
	err := errors.Join(badKeys, p.ports.become(c))
	p.noteReload(err)
	return err
}

// Update takes in what has changed of Services and EndpointSlices. Other kinds are
// passed over.
func (p *Proxy) Update(events []cluster.Event) { p.backends.update(events) }

// dropSeries removes the metrics of what is no longer served.
func (p *Proxy) dropSeries(old, next *world) {
	gone := served(old.config)
	for pair := range served(next.config) {
		delete(gone, pair)
	}
	for object, series := range p.routes {
		series.found.Range(func(key, _ any) bool {
			if gone[[2]string{object.String(), key.(seriesKey).service}] {
				series.found.Delete(key)
			}
			return true
		})
	}
	p.metrics.forget(gone)
}

func (p *Proxy) noteReload(err error) {
	result := "success"
	if err != nil {
		result = "partial"
	}
	p.metrics.reloads.WithLabelValues(result).Inc()
	p.metrics.reloaded.Set(float64(time.Now().Unix()))
}
