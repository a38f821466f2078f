package proxy

import (
	"net/http"
	"strings"
)

const (
	// loopHeader has the names of the proxies that a request has come through, once for
	// each time (RFC 8586). Other proxies leave it as it is.
	loopHeader = "Cdn-Loop"
	// loopName is that of this program: replicas, and other ingresses of its kind, count
	// as one.
	loopName = "toyproxy"
	// mostPasses is how often a request may come through. A backend that leads to the
	// ingress itself, by an ExternalName or an endpoint, would otherwise take a
	// connection for each turn until the client goes, and a mirror would go on by itself.
	mostPasses = 5
)

// isLoop tells whether a request has come through too often.
func isLoop(h http.Header) bool {
	passes := 0
	for _, line := range h[loopHeader] {
		for _, entry := range strings.Split(line, ",") {
			name, _, _ := strings.Cut(entry, ";")
			if strings.TrimSpace(name) == loopName {
				passes++
			}
		}
	}
	return passes >= mostPasses
}

// notePass writes that a request has come through here. It goes by the headers that
// came, and follows the filters, so that none of them takes the count away.
func notePass(in, out http.Header) {
	out[loopHeader] = []string{chain(in[loopHeader], loopName)}
}
