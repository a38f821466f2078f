package ingress

import (
	"cmp"
	"slices"
)

// Join returns one Config that serves all of them, each as if it were alone: where
// several have a route for a request, that with the more specific host has it, then
// that with the more specific path, then the Config named first. A port that speaks TLS
// in some of them only is as in the first that has it: see Conflicts.
func Join(configs ...Config) Config {
	var out Config
	groups := 0
	for _, c := range configs {
		next := groups
		for _, port := range c.Ports {
			to := out.port(port.Number, port.TLS)
			if to.TLS != port.TLS {
				continue
			}
			for _, l := range port.Listeners {
				l.Group += groups
				next = max(next, l.Group+1)
				to.Listeners = append(to.Listeners, l)
			}
		}
		groups = next
	}
	slices.SortFunc(out.Ports, func(a, b Port) int { return cmp.Compare(a.Number, b.Number) })
	for _, port := range out.Ports {
		slices.SortStableFunc(port.Listeners, func(a, b Listener) int { return a.Hostname.Compare(b.Hostname) })
	}
	return out
}

// port returns the port of that number, made if there is none.
func (c *Config) port(number uint16, tls bool) *Port {
	i := slices.IndexFunc(c.Ports, func(p Port) bool { return p.Number == number })
	if i < 0 {
		i = len(c.Ports)
		c.Ports = append(c.Ports, Port{Number: number, TLS: tls})
	}
	return &c.Ports[i]
}

// Conflicts returns the ports of a Config that Join leaves out, because another
// before it speaks TLS there and this one does not, or the other way round.
func Conflicts(before, c Config) []Port {
	var out []Port
	for _, port := range c.Ports {
		for _, taken := range before.Ports {
			if taken.Number == port.Number && taken.TLS != port.TLS {
				out = append(out, port)
			}
		}
	}
	return out
}
