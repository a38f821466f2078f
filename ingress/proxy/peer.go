package proxy

import (
	"net/http"
	"net/netip"
	"strconv"
	"strings"
)

// forwarding are the headers, beside those that begin with X-Forwarded-, in which
// proxies tell of clients.
func isForwarding(name string) bool {
	return strings.HasPrefix(name, "X-Forwarded-") || name == "Forwarded" || name == "X-Real-Ip" ||
		name == "X-Scheme" || name == "X-Original-Forwarded-For"
}

// dropForged removes what a client that is not trusted says of other clients, also in
// spellings that servers behind CGI-like interfaces take for the same header.
func dropForged(h http.Header) {
	for name := range h {
		plain := name
		if strings.IndexByte(name, '_') >= 0 {
			plain = http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
		}
		if isForwarding(plain) {
			delete(h, name)
		}
	}
}

// isTrusted tells whether an address is that of a proxy before this one.
func isTrusted(trusted []netip.Prefix, a netip.Addr) bool {
	for _, p := range trusted {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// clientOf returns the client that a peer speaks for: from the end of
// X-Forwarded-For, the first address that is not itself trusted. A client may put
// anything at the beginning.
func clientOf(peer netip.Addr, h http.Header, trusted []netip.Prefix) netip.Addr {
	if !isTrusted(trusted, peer) {
		return peer
	}
	client := peer
	chain := strings.Split(strings.Join(h["X-Forwarded-For"], ","), ",")
	for i := len(chain) - 1; i >= 0; i-- {
		a, err := netip.ParseAddr(strings.Trim(strings.TrimSpace(chain[i]), "[]"))
		if err != nil {
			break
		}
		client = a.Unmap().WithZone("")
		if !isTrusted(trusted, client) {
			break
		}
	}
	return client
}

// toldOfTLS: a trusted proxy before this one has ended the TLS of the client, who
// would be redirected for ever.
func toldOfTLS(peer netip.Addr, h http.Header, trusted []netip.Prefix) bool {
	return isTrusted(trusted, peer) && strings.EqualFold(h.Get("X-Forwarded-Proto"), "https")
}

// peerOf reads the address of a connection.
func peerOf(remote string) netip.Addr {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.IPv4Unspecified()
	}
	return at.Addr().Unmap().WithZone("")
}

// forward writes the headers that tell an endpoint of the client. In are those that
// came, of which the trusted ones are carried on; host is what the client asked for.
func (x *exchange) forward(in, out http.Header, host string, trusted bool) {
	if !trusted {
		dropForged(out)
		in = nil
	}
	scheme := "http"
	if x.conn.tls {
		scheme = "https"
	}
	keep := func(name, value string) {
		if came := in[name]; len(came) > 0 {
			out[name] = came
			return
		}
		out[name] = []string{value}
	}
	peer := x.peer.String()
	out["X-Forwarded-For"] = []string{chain(in["X-Forwarded-For"], peer)}
	keep("X-Forwarded-Proto", scheme)
	keep("X-Forwarded-Host", host)
	keep("X-Forwarded-Port", strconv.Itoa(int(x.conn.port)))
	out["X-Real-Ip"] = []string{x.client.String()}
	out["Forwarded"] = []string{chain(in["Forwarded"], element(x.peer, host, scheme))}
}

func chain(before []string, last string) string {
	if len(before) == 0 {
		return last
	}
	return strings.Join(before, ", ") + ", " + last
}

// element is that of a Forwarded header (RFC 7239).
func element(peer netip.Addr, host, scheme string) string {
	node := peer.String()
	if peer.Is6() {
		node = `"[` + node + `]"`
	}
	if strings.ContainsAny(host, `"\`) {
		host = ""
	}
	return "for=" + node + `;host="` + host + `";proto=` + scheme
}
