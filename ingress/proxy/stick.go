package proxy

import (
	"net/http"
)

// stick keeps a client at the target that its cookie names, and gives a cookie to
// those who have none that names one.
func (p *Proxy) stick(w *recorder, r *http.Request, x *exchange) {
	name := x.settings().CookieAffinity
	if name == "" {
		return
	}
	if c, err := r.Cookie(name); err == nil {
		x.wish.tag = c.Value
	}
	w.cookie = name
}

// setCookie names the target that answered, when it is not the one that was asked for.
func (w *recorder) setCookie() {
	x := w.x
	if w.cookie == "" || x.target == nil || x.target.tag == x.wish.tag {
		return
	}
	c := http.Cookie{Name: w.cookie, Value: x.target.tag, Path: "/", HttpOnly: true, Secure: x.conn.tls, SameSite: http.SameSiteLaxMode}
	w.Header().Add("Set-Cookie", c.String())
}
