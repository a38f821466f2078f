package oracle

import "strings"

// difference is how our answer is meant to differ from upstream's.
type difference int

const (
	same difference = iota
	// looser: upstream refuses what we take and report as not acted on.
	looser
	// stricter: we refuse what upstream takes.
	stricter
)

// mutation is one change of a base object: value is JSON, empty to remove.
type mutation struct {
	path, value string
	differs     difference
	// why explains a difference.
	why string
}

// kind is a base object that both sides accept, and what is done to it.
type kind struct {
	name, base string
	mutations  []mutation
}

func kinds() []kind {
	return append([]kind{
		{"Service", `{"apiVersion":"v1","kind":"Service","metadata":{"name":"web","namespace":"default"},
			"spec":{"selector":{"app":"web"},"ports":[{"name":"http","port":80},{"name":"dns","port":53,"protocol":"UDP"}]}}`, serviceMutations()},
		{"Service with a load balancer", `{"apiVersion":"v1","kind":"Service","metadata":{"name":"web","namespace":"default"},
			"spec":{"type":"LoadBalancer","selector":{"app":"web"},"ports":[{"name":"http","port":80},{"name":"dns","port":53,"protocol":"UDP"}]},
			"status":{"loadBalancer":{"ingress":[{"ip":"203.0.113.9"},{"ip":"203.0.113.10","ipMode":"Proxy"},{"hostname":"lb.example.com"}]}}}`, balancerMutations()},
		{"EndpointSlice", `{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":"web-1","namespace":"default"},
			"addressType":"IPv4","ports":[{"name":"http","port":80}],"endpoints":[{"addresses":["10.244.0.5"]},{"addresses":["10.244.0.6"]}]}`, sliceMutations()},
		{"IPv6 EndpointSlice", `{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":"web-1","namespace":"default"},
			"addressType":"IPv6","endpoints":[{"addresses":["fd00:10:244::5"]},{"addresses":["fd00:10:244::6"]}]}`, sliceAddresses()},
		{"Pod", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-1","namespace":"default"},
			"spec":{"containers":[{"name":"web","image":"nginx:1.27","ports":[{"name":"http","containerPort":80}]},{"name":"log","image":"busybox"}]}}`, podMutations()},
		{"Node", `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"},"spec":{"podCIDR":"10.244.0.0/24"}}`, nodeMutations()},
		{"Namespace", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop"}}`, namespaceMutations()},
	}, append(workloadKinds(), append(doorKinds(), gatewayKinds()...)...)...)
}

// rounds is how many handfuls of mutations are tried: fewer where a template is as
// well tried as Pods are, and where parts of an object have little to do with others.
func (k kind) rounds() int {
	if strings.Contains(k.base, `"template"`) || strings.Contains(k.base, "networking.k8s.io/v1") {
		return 500
	}
	return 1500
}

// each makes one mutation of every value.
func each(path string, values ...string) (out []mutation) {
	for _, v := range values {
		out = append(out, mutation{path: path, value: v})
	}
	return out
}

// except makes mutations that are meant to be answered differently.
func except(d difference, why, path string, values ...string) (out []mutation) {
	for _, v := range values {
		out = append(out, mutation{path, v, d, why})
	}
	return out
}

func join(lists ...[]mutation) (out []mutation) {
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}

func quoted(s string) string { return `"` + s + `"` }

var (
	long63  = strings.Repeat("a", 63)
	long64  = strings.Repeat("a", 64)
	long254 = strings.Repeat("a.", 126) + "aa"
)

func names(path string) []mutation {
	return each(path, `"web"`, `"Web"`, `"9web"`, `"web-"`, `"-web"`, `"we_b"`, `"we.b"`, `"we b"`, `"we\nb"`, `"we\"b"`, `"wéb"`, quoted(long63), quoted(long64), quoted(long254))
}

func metadata() []mutation {
	return join(
		names("metadata.name"), each("metadata.name", `5`, `null`, `""`),
		each("metadata.labels", `{"app":"web"}`, `{"app":""}`, `{"a b":"c"}`, `{"a/b/c":"d"}`, `{"x.io/y":"z"}`, `{"a":"-b"}`, `{"a":5}`, `["a"]`, quoted("a"), `{"a":"`+long64+`"}`),
		each("metadata.annotations", `{"a":"anything at all \n"}`, `{"A b":"c"}`, `{"a":true}`),
		each("metadata.finalizers", `["x.io/y"]`, `["bad finalizer"]`),
		each("metadata.creationTimestamp", `null`, `"2026-01-31T12:00:00Z"`, `"yesterday"`),
		each("metadata.nam", `"web"`), each("metadta", `{}`), each("apiVersion", `"v7"`, `5`, ``),
		each("metadata", `{"generateName":"web-"}`, `{"name":"web","namespace":"default","generateName":"web-"}`),
	)
}

func ports(path string) []mutation {
	return each(path, `0`, `1`, `-1`, `65535`, `65536`, `99999`, `"80"`, `"http"`, `8.5`, `1e3`, `5000000000`, `null`, `true`, ``)
}

func portNames(path string) []mutation {
	return each(path, `"http"`, `"HTTP"`, `"a-b"`, `"a--b"`, `"-a"`, `"1"`, `"123"`, `"a_b"`, `"exactly-15-char"`, `"sixteen-chars-16"`, `""`, `7`)
}

func protocols(path string) []mutation {
	return each(path, `"TCP"`, `"UDP"`, `"SCTP"`, `"tcp"`, `"ICMP"`, `""`, `6`)
}

const canonical = "one spelling for each address, so that equal addresses compare equal"

// addresses are texts that both sides judge alike for an IPv4 endpoint.
func addresses() []string {
	return []string{`"10.1.2.3"`, `"010.1.2.3"`, `"10.1.2"`, `"10.1.2.256"`, `"::ffff:10.1.2.3"`, `"127.0.0.1"`, `"169.254.1.1"`,
		`"224.0.0.1"`, `"0.0.0.0"`, `"::1"`, `"::"`, `"fe80::1"`, `"fe80::1%eth0"`, `"2001:db8::1%eth0"`, `"not-an-ip"`, `""`, `"10.1.2.3 "`, `"10.1.2.3/24"`, `"10.1.2.3:80"`, `5`}
}
