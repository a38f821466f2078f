package ingress

import "testing"

// TestMisdirected asks for hosts over connections that were made for others.
func TestMisdirected(t *testing.T) {
	listener := func(name string) Listener {
		return Listener{Hostname: Hostname{Name: name, AnyDepth: true}, Routes: []Route{{}}}
	}
	config := func(names ...string) Config {
		var c Config
		c.Ports = []Port{{Number: 443, TLS: true}}
		for _, name := range names {
			c.Ports[0].Listeners = append(c.Ports[0].Listeners, listener(name))
		}
		return c
	}
	one := NewRouter(config("a.example", "*.example", ""))
	joined := NewRouter(Join(config(""), config("b.example")))
	for _, c := range []struct {
		router       *Router
		server, host string
		want         bool
	}{
		{one, "a.example", "a.example", false},
		{one, "A.example.", "a.example:443", false},
		{one, "a.example", "b.example", true},
		{one, "b.example", "c.example", false},
		{one, "b.example", "a.example", true},
		{one, "other.test", "another.test", false},
		{one, "other.test", "a.example", true},
		{one, "", "a.example", false},
		{joined, "a.test", "b.test", false},
		{joined, "b.example", "b.example", false},
		{joined, "a.test", "b.example", true},
	} {
		found := c.router.Lookup(443, Request{Host: c.host, Path: Path{Forward: "/", Match: "/"}})
		if got := c.router.Misdirected(443, c.server, found); got != c.want {
			t.Errorf("host %s over a connection for %s: %t, want %t", c.host, c.server, got, c.want)
		}
	}
	if one.Misdirected(443, "a.example", Found{}) {
		t.Error("a request that found no listener")
	}
}
