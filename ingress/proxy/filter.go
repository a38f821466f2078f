package proxy

import (
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/toyproxy/toyproxy/ingress"
)

// changeHeaders applies a filter of headers: set, add, remove, as the Gateway API
// orders them.
func changeHeaders(h http.Header, f ingress.Filter) {
	for _, pair := range f.Set {
		h[http.CanonicalHeaderKey(pair.Name)] = []string{pair.Value}
	}
	for _, pair := range f.Add {
		h.Add(pair.Name, pair.Value)
	}
	for _, name := range f.Remove {
		h.Del(name)
	}
}

// changed is the request as filters leave it.
type changed struct {
	// host is empty when it stays the client's.
	host, path, query string
	headers           []ingress.Filter
	responses         []ingress.Filter
	mirrors           []ingress.Filter
	// redirect is the first that stands in the way.
	redirect *ingress.Filter
}

// apply goes through the filters of the route and of the share that has been chosen.
func (x *exchange) apply(query string) (changed, error) {
	out := changed{path: x.path.Forward, query: query}
	lists := [2][]ingress.Filter{x.found.Route.Filters, nil}
	if x.share != nil {
		lists[1] = x.share.Filters
	}
	for _, list := range lists {
		for i := range list {
			if err := out.add(&list[i], x.found.Route.Match, x.path); err != nil {
				return out, err
			}
		}
	}
	return out, nil
}

func (c *changed) add(f *ingress.Filter, m ingress.Match, path ingress.Path) error {
	switch f.Kind {
	case ingress.RequestHeaders:
		c.headers = append(c.headers, *f)
	case ingress.ResponseHeaders:
		c.responses = append(c.responses, *f)
	case ingress.Mirror:
		c.mirrors = append(c.mirrors, *f)
	case ingress.Redirect:
		if c.redirect == nil {
			c.redirect = f
		}
	case ingress.Rewrite:
		text, extra, err := f.URL.Apply(m, path)
		if err != nil {
			return err
		}
		c.path, c.query = text, joinQueries(extra, c.query)
		if f.URL.Hostname != "" {
			c.host = f.URL.Hostname
		}
	}
	return nil
}

// url is that of the request to an endpoint, whose address is not known yet.
func (c *changed) url() *url.URL {
	text, err := url.PathUnescape(c.path)
	if err != nil {
		text = c.path
	}
	return &url.URL{Scheme: "http", Path: text, RawPath: c.path, RawQuery: c.query}
}

// rewrite changes the head of the request to an endpoint.
func (c *changed) rewrite(out *http.Request) {
	if c.host != "" {
		out.Host = c.host
	}
	for _, f := range c.headers {
		changeHeaders(out.Header, f)
		if host := out.Header.Get("Host"); host != "" {
			out.Host = host
			out.Header.Del("Host")
		}
	}
}

func joinQueries(first, second string) string {
	if first == "" || second == "" {
		return first + second
	}
	return first + "&" + second
}

// location is where a redirect leads.
func (x *exchange) location(u ingress.URLChange, host, query string) (string, error) {
	path, extra, err := u.Apply(x.found.Route.Match, x.path)
	if err != nil {
		return "", err
	}
	scheme := "http"
	if x.conn.tls {
		scheme = "https"
	}
	if u.Scheme != "" {
		scheme = strings.ToLower(u.Scheme)
	}
	name := u.Hostname
	if name == "" {
		name = hostOnly(host)
	}
	port := u.Port
	if port == 0 && u.Scheme == "" {
		port = x.conn.port
	}
	to := scheme + "://" + name
	if port != 0 && port != wellKnown(scheme) {
		to = scheme + "://" + net.JoinHostPort(strings.Trim(name, "[]"), strconv.Itoa(int(port)))
	}
	to += path
	if q := joinQueries(extra, query); q != "" {
		to += "?" + q
	}
	return to, nil
}

func wellKnown(scheme string) uint16 {
	if scheme == "https" {
		return 443
	}
	return 80
}

// hostOnly is a Host header without its port; IPv6 literals keep their brackets.
func hostOnly(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && i > strings.LastIndexByte(host, ']') {
		return host[:i]
	}
	return host
}
