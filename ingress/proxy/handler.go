package proxy

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"time"

	"github.com/toyproxy/toyproxy/ingress"
)

// ServeHTTP answers a request of a client.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, _ := r.Context().Value(connKey{}).(conn)
	x := &exchange{world: p.world.Load(), conn: c, begun: time.Now(), peer: peerOf(r.RemoteAddr)}
	x.client = clientOf(x.peer, r.Header, p.opts.Trusted)
	rec := &recorder{ResponseWriter: w, x: x, accept: r.Header.Get("Accept"), hijacked: p.upgrades.add}
	p.metrics.inFlight.Inc()
	// Deferred, as net/http has handlers panic to cut a connection.
	defer p.finish(x, r)
	p.answer(rec, r, x)
}

// answer decides who answers.
func (p *Proxy) answer(w *recorder, r *http.Request, x *exchange) {
	p.endUpgrades(r, x)
	if r.Method == http.MethodConnect {
		x.endConn = true
		w.refuse(http.StatusMethodNotAllowed, "this is no forward proxy")
		return
	}
	if isLoop(r.Header) {
		w.refuse(http.StatusLoopDetected, "the request came back too often: a service leads to this ingress")
		return
	}
	path, err := ingress.ParsePath(rawPath(r))
	if err != nil {
		w.refuse(http.StatusBadRequest, "the path of the URL is malformed or ambiguous")
		return
	}
	x.path = path
	x.found = x.world.router.Lookup(x.conn.port, ingress.Request{
		Host: r.Host, Path: path, Method: r.Method, Headers: r.Header, Query: r.URL.RawQuery,
	})
	if r.TLS != nil && x.world.router.Misdirected(x.conn.port, r.TLS.ServerName, x.found) {
		w.refuse(http.StatusMisdirectedRequest, "the connection was made for another host's listener")
		return
	}
	if x.found.Route == nil {
		w.refuse(http.StatusNotFound, "no rule for this host and path")
		return
	}
	if !x.found.Route.Access.Admits(x.client) {
		w.refuse(http.StatusForbidden, "the address of the client is not among those that are let in")
		return
	}
	if x.found.Route.Settings.RedirectTLS && !x.conn.tls && !toldOfTLS(x.peer, r.Header, p.opts.Trusted) {
		w.redirect(r, ingress.URLChange{Scheme: "https", Status: http.StatusPermanentRedirect})
		return
	}
	p.choose(w, r, x)
}

// endUpgrades sees to it that a connection over which an upgrade was asked for
// carries no other request: what comes after it is not watched.
func (p *Proxy) endUpgrades(r *http.Request, x *exchange) {
	if r.ProtoMajor != 1 || r.Header["Upgrade"] == nil {
		return
	}
	x.endConn = true
	if r.ProtoMinor == 0 {
		// A client of HTTP/1.0 knows no 101.
		delete(r.Header, "Upgrade")
	}
}

// rawPath is the path as the client sent it.
func rawPath(r *http.Request) string {
	if strings.HasPrefix(r.RequestURI, "/") {
		path, _, _ := strings.Cut(r.RequestURI, "?")
		return path
	}
	return r.URL.EscapedPath()
}

// choose finds the share and its pool, and applies the filters.
func (p *Proxy) choose(w *recorder, r *http.Request, x *exchange) {
	route := x.found.Route
	x.share = ingress.Choose(route.Split, rand.Float64())
	change, err := x.apply(r.URL.RawQuery)
	if err != nil {
		w.refuse(http.StatusBadRequest, "the rewritten path is malformed")
		return
	}
	w.filters = change.responses
	switch {
	case change.redirect != nil:
		w.redirect(r, change.redirect.URL)
	case x.share == nil:
		status := http.StatusServiceUnavailable
		if route.Object.Kind == "HTTPRoute" {
			status = http.StatusInternalServerError
		}
		w.refuse(status, "the rule names no backend")
	case x.share.Backend.Refused != "":
		x.reason = x.share.Backend.Refused
		w.refuse(http.StatusInternalServerError, "the rule's backend cannot be used")
	default:
		p.pass(w, r, x, change)
	}
}

// pass sends the request on.
func (p *Proxy) pass(w *recorder, r *http.Request, x *exchange, change changed) {
	settings := x.settings()
	x.pool = x.world.pool(x.share.Backend)
	x.set = x.pool.now.Load()
	if len(x.set.targets) == 0 {
		x.reason = x.set.missing
		w.refuse(http.StatusServiceUnavailable, "no endpoint is available for this service")
		return
	}
	ctx, stop := p.limitTime(context.WithValue(r.Context(), exchangeKey{}, x), settings)
	defer stop()
	w.atUpgrade = stop
	// A copy: net/http looks at the body of its own request when all is done.
	in := r.WithContext(context.WithValue(ctx, changeKey{}, change))
	if !p.limitBody(w, in, settings) {
		x.cut()
		w.refuse(http.StatusRequestEntityTooLarge, "the request's body is too large")
		return
	}
	x.wish = wish{client: x.client}
	p.stick(w, in, x)
	p.mirror(in, x, change)
	p.reverse.ServeHTTP(w, in)
	if x.body != nil && !x.body.ended.Load() {
		_ = w.FlushError()
		x.settle()
	}
}

// limitBody bounds the body of a request in size, and in the time between its parts.
func (p *Proxy) limitBody(w *recorder, r *http.Request, s ingress.Settings) bool {
	limit := p.opts.MaxBody
	if s.MaxBody != 0 {
		limit = s.MaxBody
	}
	if r.Body == nil || r.ContentLength == 0 {
		return true
	}
	if limit > 0 {
		if r.ContentLength > limit {
			return false
		}
		r.Body = http.MaxBytesReader(w.ResponseWriter, r.Body, limit)
	}
	if r.ProtoMajor == 1 {
		control := http.NewResponseController(w.ResponseWriter)
		// Without it net/http reads the whole body before it sends the head of an answer.
		_ = control.EnableFullDuplex()
		w.x.body = &clientBody{ReadCloser: r.Body, x: w.x, control: control, limit: p.opts.BodyTimeout}
		r.Body = w.x.body
	}
	return true
}

// changeKey is what a request's context holds its filters under.
type changeKey struct{}

// flushWithin is how soon a part of an answer of known length is passed on. Answers
// of unknown length, which streams are, pass part by part at once.
const flushWithin = 5 * time.Millisecond

// newReverse makes the part that net/http has: hop-by-hop headers, upgrades,
// trailers, informational answers.
func (p *Proxy) newReverse() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite:       p.rewrite,
		Transport:     p,
		FlushInterval: flushWithin,
		BufferPool:    &buffers{},
		ErrorHandler:  p.fail,
		ErrorLog:      p.serverLog(),
	}
}

// rewrite makes the request of an endpoint from that of the client.
func (p *Proxy) rewrite(pr *httputil.ProxyRequest) {
	x := exchangeOf(pr.In.Context())
	change, _ := pr.In.Context().Value(changeKey{}).(changed)
	pr.Out.URL = change.url()
	pr.Out.Host = pr.In.Host
	// A client of HTTP/2 may send one beside the name that it was routed by.
	pr.Out.Header.Del("Host")
	// The map that net/http fills once the body has ended.
	pr.Out.Trailer = pr.In.Trailer
	x.forward(pr.In.Header, pr.Out.Header, pr.In.Host, isTrusted(p.opts.Trusted, x.peer))
	change.rewrite(pr.Out)
	notePass(pr.In.Header, pr.Out.Header)
}

// fail answers for an endpoint that did not.
func (p *Proxy) fail(w http.ResponseWriter, r *http.Request, err error) {
	x := exchangeOf(r.Context())
	rec := w.(*recorder)
	if fault := x.bodyFault(time.Now()); fault != nil {
		err = fault
	}
	x.reason = err.Error()
	if status, why := blameClient(err); status != 0 {
		x.cut()
		rec.refuse(status, why)
		return
	}
	late := errors.Is(context.Cause(r.Context()), errRequestLimit)
	if r.Context().Err() != nil && !late {
		x.status = statusClientGone
		panic(http.ErrAbortHandler)
	}
	x.settle()
	rec.refuse(blameEndpoint(err, late))
}

// blameClient returns the status for a fault of the client's body, 0 for any other fault.
func blameClient(err error) (status int, why string) {
	var tooLarge *http.MaxBytesError
	var refused *RefusedError
	switch {
	case errors.As(err, &tooLarge):
		return http.StatusRequestEntityTooLarge, "the request's body is too large"
	case errors.As(err, &refused):
		return http.StatusBadRequest, "the request's body is malformed"
	case errors.Is(err, errSlowBody):
		return http.StatusRequestTimeout, "the request's body came too slowly"
	}
	return 0, ""
}

// blameEndpoint returns the status for a fault of an endpoint.
func blameEndpoint(err error, late bool) (status int, why string) {
	var unreached *connectError
	switch {
	case late, errors.Is(err, errSilent), errors.Is(err, errStuck), errors.Is(err, errTryTimeout):
		return http.StatusGatewayTimeout, "the service did not answer in time"
	case errors.As(err, &unreached), errors.Is(err, errNoEndpoint):
		return http.StatusBadGateway, "no endpoint of the service can be reached"
	}
	return http.StatusBadGateway, "the service's answer was broken off or malformed"
}

// statusClientGone stands in the log for requests whose client has left, as in nginx's.
const statusClientGone = 499

// redirect answers with another URL.
func (w *recorder) redirect(r *http.Request, u ingress.URLChange) {
	to, err := w.x.location(u, r.Host, r.URL.RawQuery)
	if err != nil {
		w.refuse(http.StatusBadRequest, "the path of the redirect is malformed")
		return
	}
	status := u.Status
	if status == 0 {
		status = http.StatusFound
	}
	w.Header().Set("Location", to)
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(status)
}

// refuse answers for the proxy itself, in what the client prefers. What is said is
// no secret: objects are named in the log alone.
func (w *recorder) refuse(status int, why string) {
	if w.x.reason == "" {
		w.x.reason = why
	}
	h := w.Header()
	text := strconv.Itoa(status) + " " + http.StatusText(status) + ": " + why + "\n"
	h.Set("Content-Type", "text/plain; charset=utf-8")
	if wantsJSON(w.accept) {
		h.Set("Content-Type", "application/json")
		text = `{"status":` + strconv.Itoa(status) + `,"error":` + strconv.Quote(http.StatusText(status)) + `,"message":` + strconv.Quote(why) + "}\n"
	}
	h.Set("Content-Length", strconv.Itoa(len(text)))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text))
}

func wantsJSON(accept string) bool {
	return strings.Contains(accept, "application/json") || strings.Contains(accept, "+json")
}
