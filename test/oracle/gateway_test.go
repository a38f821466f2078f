package oracle

import (
	"strconv"
	"strings"
)

// gatewayKinds are those of the Gateway API.
func gatewayKinds() []kind {
	const meta = `{"apiVersion":"gateway.networking.k8s.io/v1","kind":`
	return []kind{
		{"GatewayClass", meta + `"GatewayClass","metadata":{"name":"toyproxy"},"spec":{"controllerName":"toyproxy.dev/gateway-controller"}}`, gatewayClassMutations()},
		{"Gateway", meta + `"Gateway","metadata":{"name":"edge","namespace":"default"},"spec":{"gatewayClassName":"toyproxy","listeners":[
			{"name":"http","port":80,"protocol":"HTTP"},{"name":"https","port":443,"protocol":"HTTPS","hostname":"a.example","tls":{"certificateRefs":[{"name":"cert"}]}}]}}`, gatewayMutations()},
		{"HTTPRoute", meta + `"HTTPRoute","metadata":{"name":"web","namespace":"default"},"spec":{"parentRefs":[{"name":"edge"}],"hostnames":["a.example"],"rules":[
			{"matches":[{"path":{"value":"/v1"}}],"backendRefs":[{"name":"web","port":80},{"name":"next","port":80}]},{"backendRefs":[{"name":"web","port":80}]}]}}`, routeMutations()},
		{"ReferenceGrant", meta + `"ReferenceGrant","metadata":{"name":"web","namespace":"default"},"spec":{
			"from":[{"group":"gateway.networking.k8s.io","kind":"HTTPRoute","namespace":"a"}],"to":[{"group":"","kind":"Service"}]}}`, grantMutations()},
	}
}

// repeat is a JSON list of n items, in which %d is the number of each.
func repeat(n int, item string) string {
	items := make([]string, n)
	for i := range items {
		items[i] = strings.ReplaceAll(item, "%d", strconv.Itoa(i))
	}
	return "[" + strings.Join(items, ",") + "]"
}

// groups, kindWords, objectNames and namespaces are values of parts of references.
func groups(path string) []mutation {
	return each(path, ``, `""`, `"a.example"`, `"A"`, `"a_b"`, `"a."`, `null`, `5`, quoted(strings.Repeat("a", 253)), quoted(strings.Repeat("a", 254)))
}

func kindWords(path string) []mutation {
	return each(path, ``, `"Service"`, `"a-b"`, `""`, `"1a"`, `"a b"`, `null`, quoted(strings.Repeat("a", 63)), quoted(strings.Repeat("a", 64)))
}

func objectNames(path string) []mutation {
	return each(path, ``, `"web"`, `"A_b"`, `""`, `null`, `5`, quoted(strings.Repeat("é", 253)), quoted(strings.Repeat("a", 254)))
}

func namespaces(path string) []mutation {
	return each(path, ``, `"a"`, `"A"`, `"a.b"`, `""`, `null`, quoted(strings.Repeat("a", 64)))
}

func portNumbers(path string) []mutation {
	return each(path, ``, `1`, `65535`, `0`, `-1`, `65536`, `"80"`, `null`)
}

func gatewayHosts(path string) []mutation {
	return each(path, ``, `"a.example"`, `"*.a.example"`, `"*"`, `"*.*.a"`, `"a.*.b"`, `"A.example"`, `"a_b"`, `"a."`, `""`, `null`, `"10.0.0.1"`, `"a:80"`, quoted(strings.Repeat("abc.", 64)+"e"))
}

// sections are values of names of listeners and rules.
func sections(path string) []mutation {
	return each(path, ``, `"http"`, `"a.b"`, `"A"`, `"a_b"`, `""`, `null`, quoted(strings.Repeat("a", 254)))
}

func gatewayClassMutations() []mutation {
	const c = "spec.controllerName"
	return join(metadata(), each("metadata.namespace", `"default"`), each("apiVersion", `"gateway.networking.k8s.io/v1"`),
		each("spec", ``, `{}`, `null`), each(c, ``, `"a.example/b"`, `"a/b/c"`, `"a.example"`, `"a.example/"`, `"A/b"`, `"a/b c"`, `""`, `null`, `5`),
		each("spec.description", `"x"`, `""`, quoted(strings.Repeat("é", 64)), quoted(strings.Repeat("a", 65))),
		each("spec.parametersRef", `{}`, `null`, `{"group":"","kind":"ConfigMap","name":"a"}`, `{"kind":"ConfigMap","name":"a"}`, `{"group":"a","kind":"B","name":"c","namespace":"d"}`,
			`{"group":"a","kind":"B","name":"c","namespace":"D"}`, `{"group":"a","kind":"B"}`, `{"group":"a","name":"c"}`),
		each("status", `{}`, `{"conditions":[]}`))
}

func grantMutations() []mutation {
	return join(metadata(), each("spec", ``, `{}`, `null`, `{"from":[]}`),
		each("spec.from", ``, `[]`, `null`, repeat(16, `{"group":"","kind":"A","namespace":"n%d"}`), repeat(17, `{"group":"","kind":"A","namespace":"n%d"}`)),
		each("spec.to", ``, `[]`, `null`, repeat(16, `{"group":"","kind":"A","name":"n%d"}`), repeat(17, `{"group":"","kind":"A","name":"n%d"}`)),
		groups("spec.from[0].group"), kindWords("spec.from[0].kind"), namespaces("spec.from[0].namespace"),
		groups("spec.to[0].group"), kindWords("spec.to[0].kind"), objectNames("spec.to[0].name"))
}

func gatewayMutations() []mutation {
	const l, tls = "spec.listeners[0]", "spec.listeners[1].tls"
	return join(metadata(), each("spec", ``, `{}`), objectNames("spec.gatewayClassName"),
		each("spec.listeners", ``, `[]`, `null`, repeat(64, `{"name":"l%d","port":1%d,"protocol":"HTTP"}`), repeat(65, `{"name":"l%d","port":1%d,"protocol":"HTTP"}`),
			`[{"name":"a","port":80,"protocol":"HTTP"},{"name":"a","port":81,"protocol":"HTTP"}]`, `[{"name":"a","port":80,"protocol":"HTTP"},{"name":"b","port":80,"protocol":"HTTP"}]`,
			`[{"name":"a","port":80,"protocol":"HTTP"},{"name":"b","port":80,"protocol":"HTTP","hostname":"a.example"}]`, `[{"name":"a","port":53,"protocol":"TCP"},{"name":"b","port":53,"protocol":"UDP"}]`),
		sections(l+".name"), gatewayHosts(l+".hostname"), portNumbers(l+".port"),
		each(l+".protocol", ``, `"HTTP"`, `"HTTPS"`, `"TLS"`, `"TCP"`, `"UDP"`, `"http"`, `"a.example/b"`, `"a b"`, `""`, `null`, `"a_b"`),
		each("spec.listeners[1].protocol", `"TCP"`, `"UDP"`, `"TLS"`, `"HTTP"`),
		each(l+".tls", `{}`, `{"certificateRefs":[{"name":"a"}]}`, `{"mode":"Passthrough"}`, `null`),
		each(tls, ``, `{}`, `{"mode":"Terminate"}`, `{"mode":"Passthrough"}`, `{"mode":"Other"}`, `{"options":{"a.example/b":"c"}}`, `{"mode":""}`, `{"certificateRefs":[]}`),
		each(tls+".certificateRefs", repeat(64, `{"name":"c%d"}`), repeat(65, `{"name":"c%d"}`), `[{}]`, `[{"name":"a","kind":"Secret","group":""}]`, `[{"name":"a","namespace":"b"}]`),
		objectNames(tls+".certificateRefs[0].name"), groups(tls+".certificateRefs[0].group"), kindWords(tls+".certificateRefs[0].kind"), namespaces(tls+".certificateRefs[0].namespace"),
		each(l+".allowedRoutes", ``, `{}`, `null`, `{"namespaces":{}}`, `{"namespaces":{"from":"All"}}`, `{"namespaces":{"from":"Same"}}`, `{"namespaces":{"from":"None"}}`, `{"namespaces":{"from":"Selector"}}`,
			`{"namespaces":{"from":"Selector","selector":{"matchLabels":{"a":"b"}}}}`, `{"kinds":[]}`, `{"kinds":[{"kind":"HTTPRoute"}]}`, `{"kinds":[{"group":"","kind":"HTTPRoute"}]}`, `{"kinds":[{}]}`,
			`{"kinds":`+repeat(8, `{"kind":"K%d"}`)+`}`, `{"kinds":`+repeat(9, `{"kind":"K%d"}`)+`}`),
		except(stricter, "a selector of which nobody knows what it selects", l+".allowedRoutes", `{"namespaces":{"from":"Selector","selector":{"matchExpressions":[{"key":"a","operator":"Like"}]}}}`),
		each("spec.addresses", `[]`, `[{"value":"10.0.0.1"}]`, `[{}]`, `[{"value":"10.0.0.1"},{"value":"10.0.0.1"}]`, `[{"type":"Hostname","value":"a.example"}]`, `[{"type":"Hostname","value":"A"}]`, `[{"type":"Hostname"}]`,
			`[{"type":"a.example/b","value":"x"}]`, `[{"type":"none"}]`, `[{"type":"NamedAddress","value":"x"},{"type":"NamedAddress","value":"x"}]`, `[{"type":""}]`, repeat(16, `{"value":"10.0.0.%d"}`), repeat(17, `{"value":"10.0.0.%d"}`)),
		infrastructure(), clientTLS(),
		each("spec.allowedListeners", `{}`, `{"namespaces":{}}`, `{"namespaces":{"from":"None"}}`, `{"namespaces":{"from":"Some"}}`, `null`),
		except(looser, "of the experimental channel, and reported", "spec.defaultScope", `"All"`))
}

func infrastructure() []mutation {
	return each("spec.infrastructure", `{}`, `{"labels":{"a":"b"}}`, `{"labels":{"a b":"c"}}`, `{"labels":{"a":"b c"}}`, `{"labels":{"a":""}}`, `{"annotations":{"a.example/b":"c d"}}`, `{"annotations":{"A_/b":"c"}}`,
		`{"labels":{"1":"","2":"","3":"","4":"","5":"","6":"","7":"","8":""}}`, `{"labels":{"1":"","2":"","3":"","4":"","5":"","6":"","7":"","8":"","9":""}}`,
		`{"parametersRef":{"group":"","kind":"ConfigMap","name":"a"}}`, `{"parametersRef":{"kind":"ConfigMap","name":"a"}}`, `{"annotations":{"a":"`+strings.Repeat("x", 4097)+`"}}`)
}

func clientTLS() []mutation {
	const ref = `{"group":"","kind":"ConfigMap","name":"ca"}`
	return each("spec.tls", `{}`, `{"backend":{}}`, `{"backend":{"clientCertificateRef":{"name":"a"}}}`, `{"backend":{"clientCertificateRef":{}}}`, `{"frontend":{"default":{}}}`,
		`{"frontend":{"default":{"validation":{"caCertificateRefs":[`+ref+`]}}}}`, `{"frontend":{"default":{"validation":{"caCertificateRefs":[]}}}}`, `{"frontend":{"default":{"validation":{"caCertificateRefs":[`+ref+`],"mode":"Other"}}}}`,
		`{"frontend":{"default":{},"perPort":[{"port":443,"tls":{}}]}}`, `{"frontend":{"default":{},"perPort":[{"port":443,"tls":{}},{"port":443,"tls":{}}]}}`, `{"frontend":{"default":{},"perPort":[{"port":0,"tls":{}}]}}`)
}
