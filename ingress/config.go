package ingress

import (
	"regexp"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
)

// Config is everything a proxy serves at one moment. It is a value: whoever has
// one may keep it, nobody changes it. Endpoints do not stand in it: they come and
// go without a new Config.
type Config struct {
	// Ports are sorted by number, each once.
	Ports []Port
}

// Port is one port of the proxy's own address.
type Port struct {
	// Number is that of the objects: 80, 443, or a Gateway listener's.
	Number uint16
	// TLS: clients speak TLS here. A port speaks it for all its listeners or for none.
	TLS bool
	// Listeners are sorted by hostname, the most specific first, so that the first
	// one that covers a request's host has it. No other one is looked at then.
	Listeners []Listener
}

// Listener takes the requests for one hostname of a port.
type Listener struct {
	// Name is for people, the log and metrics: "http", "Gateway default/web: https".
	Name string
	// Hostname covers the requests. For Ingress there is one listener a port, for every host.
	Hostname Hostname
	// Certificates are looked through by the name a client asks for (SNI), exact
	// names first; the first is shown to those who ask for no name or another.
	Certificates []Certificate
	// Routes are in order of precedence: the first that matches has the request.
	Routes []Route
	// SelfSigned: whoever asks for a name that no certificate has is shown one that
	// the proxy made for itself, not the first of Certificates.
	SelfSigned bool
	// Group is set by Join. Listeners of different groups do not shadow one another:
	// each group has its first listener that covers the host, and the most
	// specific route of those has the request.
	Group int
}

// Hostname is "" for every host, "a.example" in lower case, or "*.example". What
// the star stands for is said by AnyDepth.
type Hostname struct {
	Name string
	// AnyDepth: the star of the name stands for one or more labels (Gateway API),
	// else for exactly one (Ingress).
	AnyDepth bool
}

// Certificate is a pair of PEM texts from a Secret of type kubernetes.io/tls, or
// from another one with the same keys.
type Certificate struct {
	Secret types.NamespacedName
	// Hosts limits it to these names (spec.tls[].hosts); none: those the certificate itself names.
	Hosts     []Hostname
	Cert, Key []byte
}

// Route is what is done with the requests that match.
type Route struct {
	// Object and Field say where it comes from: Ingress default/web,
	// "spec.rules[0].http.paths[1]".
	Object cluster.Ref
	Field  string
	// Hosts: any of them; none: every host of the listener.
	Hosts []Hostname
	Match Match
	// Filters are applied in their order, before the Split.
	Filters []Filter
	// Split shares the requests between backends by weight. Empty, or with no weight
	// above zero: 500 for Gateway API routes, 503 otherwise.
	Split []Share
	// Settings of the connection to the backends and of the request.
	Settings Settings
	// Access says which clients are let in, before anything else is done.
	Access Access
}

// PathKind says how a path is compared.
type PathKind uint8

// The kinds of paths.
const (
	// PathPrefix compares element by element: /foo matches /foo, /foo/ and /foo/bar, not /foobar.
	PathPrefix PathKind = iota
	PathExact
	// PathRegex is RE2, anchored at the start, on the whole path.
	PathRegex
)

// Match is what a request must have: all of it. Headers and queries are compared exactly, or by regular expression.
type Match struct {
	Kind PathKind
	// Path begins with a slash. Empty is every path.
	Path string
	// Regex is compiled from Path when Kind is PathRegex.
	Regex   *regexp.Regexp
	Method  string // "" is every method
	Headers []Pair
	Queries []Pair
	// Cookies are those of canary-by-cookie.
	Cookies []Pair
}

// Pair is a name and the value it must have. Names of headers are canonical.
type Pair struct {
	Name, Value string
	// Regex, when not nil, takes the place of Value.
	Regex *regexp.Regexp
	// Not: the pair must not be there with that value (canary "never").
	Not bool
}

// Protocol is what is spoken with endpoints.
type Protocol uint8

// The protocols.
const (
	HTTP1 Protocol = iota
	// H2C is HTTP/2 without TLS; gRPC uses it.
	H2C
	// HTTPS is TLS with HTTP/1.1 or HTTP/2.
	HTTPS
)

// Share is one backend of a split. Weights are relative.
type Share struct {
	Weight  uint32
	Backend Backend
	// Filters of this share alone (Gateway API backendRefs[].filters).
	Filters []Filter
	// Object and Field say where the share comes from, when that is not where its
	// route does: a canary's own object.
	Object cluster.Ref
	Field  string
}

// Backend is a port of a Service as an object names it: by number or by name.
// Here alone the word is that of Ingress and Gateway API, not that of dataplane.
type Backend struct {
	Service types.NamespacedName
	Port    uint16 // 0: PortName says which
	// PortName is the name of a port of the Service.
	PortName string
	// Protocol, where an annotation says it; appProtocol of the Service port otherwise.
	Protocol *Protocol
	// Refused, when not empty, says why the reference is not followed (no grant, no
	// such kind): the share's requests get 500.
	Refused string
}

// Settings hold what annotations, timeouts of HTTPRoutes and flags decide. A zero
// value of a field means the proxy's own default.
type Settings struct {
	// ConnectTimeout bounds the dial, RequestTimeout the whole exchange (HTTPRoute
	// timeouts.request), BackendTimeout one try of it, ReadTimeout the wait for the
	// next bytes of the endpoint, SendTimeout the wait until it takes the next ones.
	ConnectTimeout, RequestTimeout, BackendTimeout, ReadTimeout, SendTimeout time.Duration
	// MaxBody is in bytes; negative is without a bound.
	MaxBody int64
	// RedirectTLS sends requests without TLS to the same URL with it (308).
	RedirectTLS bool
	// CookieAffinity is the name of a cookie that keeps a client at its endpoint; "" is none.
	CookieAffinity string
}

// FilterKind says what a filter does.
type FilterKind uint8

// The kinds of filters, those of the Gateway API.
const (
	RequestHeaders FilterKind = iota
	ResponseHeaders
	Redirect
	Rewrite
	Mirror
)

// Filter changes a request or a response, or answers.
type Filter struct {
	Kind FilterKind
	// Headers of RequestHeaders and ResponseHeaders.
	Set, Add []Pair
	Remove   []string
	// URL of Redirect and Rewrite.
	URL URLChange
	// Mirror gets a copy of the request; its answer is dropped.
	Mirror *Backend
	// MirrorPercent is from 0 to 100.
	MirrorPercent float64
}

// URLChange says which parts of a URL become others; empty parts stay.
type URLChange struct {
	Scheme, Hostname string
	Port             uint16
	// Path, when HasPath, is the whole path; or, when ReplacePrefix, what takes the
	// place of the prefix that matched.
	Path                   string
	HasPath, ReplacePrefix bool
	// Captures: Path is the whole path, in which $1 to $9 stand for the groups of the
	// regular expression that matched (rewrite-target). Use Apply.
	Captures bool
	// Status of a Redirect: 301, 302, 303, 307 or 308.
	Status int
}
