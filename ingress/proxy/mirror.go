package proxy

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/toyproxy/toyproxy/ingress"
)

const (
	// mirroredBody bounds the bodies of copies. Longer ones would have to be kept in
	// memory until the slower of the two endpoints has them.
	mirroredBody = 1 << 20
	// mirrorLimit is how long a copy may take, mirrorsAtOnce how many there are at most.
	mirrorLimit   = 10 * time.Second
	mirrorsAtOnce = 256
)

// mirror sends copies of a request to the backends of its Mirror filters. Nobody
// waits for them, and what they answer is dropped. A request whose body is longer than
// a bound, or of a length that is not known, has no copies.
func (p *Proxy) mirror(r *http.Request, x *exchange, change changed) {
	if len(change.mirrors) == 0 || r.ContentLength < 0 || r.ContentLength > mirroredBody {
		return
	}
	var body []byte
	if r.ContentLength > 0 {
		text, err := io.ReadAll(r.Body)
		// What came goes on, also when it is not all: then the error follows it.
		r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(text), failing{err}))
		if err != nil {
			return
		}
		body = text
	}
	for _, f := range change.mirrors {
		if f.Mirror == nil || rand.Float64()*100 >= f.MirrorPercent {
			continue
		}
		p.sendCopy(r, x, *f.Mirror, change, body)
	}
}

// failing is a reader that ends with an error.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err == nil {
		return 0, io.EOF
	}
	return 0, f.err
}

// sendCopy sends one copy from a goroutine of its own.
func (p *Proxy) sendCopy(r *http.Request, x *exchange, b ingress.Backend, change changed, body []byte) {
	to := x.world.pool(b)
	if to == nil || p.mirrors.Add(1) > mirrorsAtOnce {
		p.mirrors.Add(-1)
		return
	}
	header := r.Header.Clone()
	for _, name := range []string{"Connection", "Upgrade", "Te", "Keep-Alive", "Proxy-Connection", "Proxy-Authorization", "Trailer"} {
		header.Del(name)
	}
	x.forward(r.Header, header, r.Host, isTrusted(p.opts.Trusted, x.peer))
	out := &http.Request{
		Method: r.Method, Host: r.Host, Header: header, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)),
		URL: change.url(),
	}
	if len(body) == 0 {
		out.Body = nil
	}
	change.rewrite(out)
	notePass(r.Header, out.Header)
	copied := &exchange{world: x.world, conn: x.conn, found: x.found, share: &ingress.Share{Backend: b}, pool: to,
		set: to.now.Load(), wish: wish{client: x.client}}
	go func() {
		defer p.mirrors.Add(-1)
		ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), exchangeKey{}, copied), mirrorLimit)
		defer cancel()
		resp, err := p.RoundTrip(out.WithContext(ctx))
		if err != nil {
			p.opts.Log.Debug("copy not delivered", "service", b.Service, "err", err)
			return
		}
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, mirroredBody))
		_ = resp.Body.Close()
	}()
}
