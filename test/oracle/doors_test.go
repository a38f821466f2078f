package oracle

import (
	"strconv"
	"strings"
)

// doorKinds are Ingress and IngressClass.
func doorKinds() []kind {
	return []kind{
		{"Ingress", `{"apiVersion":"networking.k8s.io/v1","kind":"Ingress","metadata":{"name":"web","namespace":"default"},"spec":{
			"ingressClassName":"toyproxy","defaultBackend":{"service":{"name":"web","port":{"number":80}}},"tls":[{"hosts":["a.example"],"secretName":"cert"}],
			"rules":[{"host":"a.example","http":{"paths":[{"path":"/","pathType":"Prefix","backend":{"service":{"name":"web","port":{"name":"http"}}}},
			{"path":"/v1","pathType":"Exact","backend":{"service":{"name":"api","port":{"number":8080}}}}]}},{"host":"*.example.org"}]}}`, ingressMutations()},
		{"IngressClass", `{"apiVersion":"networking.k8s.io/v1","kind":"IngressClass","metadata":{"name":"toyproxy"},
			"spec":{"controller":"toyproxy.dev/ingress","parameters":{"kind":"Settings","name":"web"}}}`, ingressClassMutations()},
	}
}

func ingressMutations() []mutation {
	return join(metadata(),
		each("metadata.annotations", `{"kubernetes.io/ingress.class":"toyproxy"}`, `{"kubernetes.io/ingress.class":"nginx"}`,
			`{"nginx.ingress.kubernetes.io/canary":"true"}`, `{"nginx.ingress.kubernetes.io/configuration-snippet":"x"}`, `{"a b":"c"}`),
		each("spec", ``, `{}`, `null`, `{"rules":[]}`, `{"rules":[{}]}`, `{"defaultBackend":{"service":{"name":"web","port":{"number":80}}}}`, `{"tls":[{}]}`, `{"rule":[]}`),
		each("spec.ingressClassName", ``, `null`, `"other"`, `"A"`, `""`, `"a.b"`, `5`),
		backends("spec.defaultBackend"), backends("spec.rules[0].http.paths[0].backend"),
		hosts("spec.rules[0].host"), hosts("spec.tls[0].hosts[0]"),
		each("spec.rules", `[]`, `null`, `{}`, `[{"host":"a.example"},{"host":"a.example"}]`, `[{"http":null}]`, `[{"http":{}}]`),
		each("spec.rules[0].http", ``, `null`, `{}`, `{"paths":[]}`, `{"paths":null}`, `{"path":"/"}`),
		paths("spec.rules[0].http.paths[0].path"), paths("spec.rules[0].http.paths[1].path"),
		each("spec.rules[0].http.paths[0].pathType", ``, `null`, `"Prefix"`, `"Exact"`, `"ImplementationSpecific"`, `"Regex"`, `"prefix"`, `""`, `5`),
		each("spec.rules[0].http.paths[1]", `{"pathType":"ImplementationSpecific","backend":{"service":{"name":"a","port":{"number":1}}}}`,
			`{"pathType":"ImplementationSpecific","path":"v1","backend":{"service":{"name":"a","port":{"number":1}}}}`,
			`{"pathType":"ImplementationSpecific","path":"/(a|b)//../x%2f","backend":{"service":{"name":"a","port":{"number":1}}}}`, `{}`),
		each("spec.tls", ``, `[]`, `null`, `[{}]`, `[{"hosts":[]}]`, `[{"secretName":"a"},{"secretName":"a"}]`, `[{"host":"a"}]`),
		names("spec.tls[0].secretName"), each("spec.tls[0].secretName", ``, `""`, `"a.b"`, `"-"`))
}

// hosts are values of a host of a rule or a certificate.
func hosts(path string) []mutation {
	return each(path, `"a.example"`, `"*.a.example"`, `"*"`, `"*.*.example"`, `"a.*.example"`, `"*a.example"`, `"A.example"`, `"a_b.example"`, `"a..b"`,
		`"a.example."`, `"a.example:80"`, `"10.0.0.1"`, `"010.0.0.1"`, `"fd00::1"`, `"[fd00::1]"`, `"xn--bcher-kva.example"`, `"bücher.example"`, `"-a.example"`, `" a"`, `5`,
		quoted(strings.Repeat("a", 63)+".example"), quoted(strings.Repeat("a", 64)+".example"), quoted(strings.Repeat("abc.", 63)+"e"), quoted(strings.Repeat("abc.", 64)+"e"),
		quoted("*."+strings.Repeat("abc.", 63)+"e"))
}

// paths are values of a path.
func paths(path string) []mutation {
	return each(path, `"/"`, `"/v1"`, `"/v1/"`, `""`, `"v1"`, `"//"`, `"/a//b"`, `"/a/./b"`, `"/a/../b"`, `"/a/.."`, `"/a/."`, `"/a..b"`, `"/.a"`, `"/a%2fb"`, `"/a%2Fb"`,
		`"/a%20b"`, `"/a b"`, `"/a?b"`, `"/a#b"`, `"/é"`, `"/*"`, `"*"`, `"/a/..;/b"`, ``, `null`, `5`)
}

// backends are values of what requests go to.
func backends(path string) (out []mutation) {
	for _, port := range []string{``, `{}`, `{"number":80}`, `{"number":0}`, `{"number":-1}`, `{"number":65535}`, `{"number":65536}`, `{"number":"80"}`, `{"name":"http"}`, `{"name":"HTTP"}`,
		`{"name":"http","number":80}`, `{"name":"web-http-of-16c"}`, `{"name":"web-http-of-16ch"}`, `{"name":"80"}`, `{"name":"a--b"}`, `{"name":"-a"}`, `{"name":""}`, `{"names":"a"}`} {
		if port != "" {
			port = `,"port":` + port
		}
		out = append(out, mutation{path: path, value: `{"service":{"name":"web"` + port + `}}`})
	}
	for _, name := range []string{"web", "1web", "Web", "a.b", "", "-", strings.Repeat("a", 63), strings.Repeat("a", 64)} {
		out = append(out, mutation{path: path, value: `{"service":{"name":` + strconv.Quote(name) + `,"port":{"number":80}}}`})
	}
	for _, r := range []string{`{}`, `{"kind":"Bucket","name":"a"}`, `{"apiGroup":"k8s.example","kind":"Bucket","name":"a"}`, `{"apiGroup":"K8s_","kind":"Bucket","name":"a"}`, `{"apiGroup":"","kind":"Bucket","name":"a"}`,
		`{"kind":"Bucket"}`, `{"name":"a"}`, `{"kind":"a/b","name":"a"}`, `{"kind":"a","name":".."}`, `{"kind":"a%b","name":"a"}`, `{"kind":"a","name":"b","namespace":"c"}`} {
		out = append(out, mutation{path: path, value: `{"resource":` + r + `}`})
	}
	return append(out, each(path, `{}`, `null`, ``, `{"serviceName":"web","servicePort":80}`, `{"service":{"name":"a","port":{"number":1}},"resource":{"kind":"a","name":"b"}}`)...)
}

func ingressClassMutations() []mutation {
	return join(metadata(), each("metadata.namespace", `"default"`),
		each("metadata.annotations", `{"ingressclass.kubernetes.io/is-default-class":"true"}`, `{"ingressclass.kubernetes.io/is-default-class":"5"}`),
		each("spec", ``, `{}`, `null`),
		each("spec.controller", ``, `""`, `"a/b"`, `"a.example/b/c"`, `"a.example"`, `"a.example/"`, `"/b"`, `"A.example/b"`, `"a.example/B_c"`, `"a.example/b c"`, `"a.example/b%c"`, `5`,
			quoted("a.example/"+strings.Repeat("b", 240)), quoted("a.example/"+strings.Repeat("b", 241))),
		each("spec.parameters", ``, `null`, `{}`, `{"kind":"A"}`, `{"name":"b"}`, `{"kind":"A","name":"b"}`, `{"apiGroup":"a.example","kind":"A","name":"b"}`, `{"apiGroup":"A","kind":"A","name":"b"}`,
			`{"kind":"A/B","name":"b"}`, `{"kind":"A","name":"b/c"}`,
			`{"kind":"A","name":"b","scope":"Cluster"}`, `{"kind":"A","name":"b","scope":"Namespace"}`, `{"kind":"A","name":"b","scope":"Namespace","namespace":"c"}`, `{"kind":"A","name":"b","scope":"Namespace","namespace":"C"}`,
			`{"kind":"A","name":"b","scope":"Namespace","namespace":""}`, `{"kind":"A","name":"b","scope":"Cluster","namespace":"c"}`, `{"kind":"A","name":"b","namespace":"c"}`, `{"kind":"A","name":"b","scope":"World"}`, `{"kind":"A","name":"b","scope":""}`))
}
