package oracle

import "strings"

func routeMutations() []mutation {
	const rule, match = "spec.rules[0]", "spec.rules[0].matches[0]"
	return join(metadata(), each("spec", ``, `{}`, `null`, `{"rules":[]}`, `{"rules":null}`, `{"rules":[{}]}`), parents(),
		each("spec.hostnames", ``, `[]`, `null`, repeat(16, `"h%d.example"`), repeat(17, `"h%d.example"`), `["a.example","a.example"]`), gatewayHosts("spec.hostnames[0]"),
		each("spec.rules", ``, repeat(16, `{}`), repeat(17, `{}`), repeat(2, `{"matches":`+repeat(64, `{}`)+`}`), repeat(3, `{"matches":`+repeat(43, `{}`)+`}`), `[{"matches":`+repeat(65, `{}`)+`}]`),
		sections(rule+".name"), each(rule+".matches", ``, `null`, `[{}]`, `[{"path":{}}]`, `[{"path":null}]`),
		matchPaths(match+".path"), pairsOf(match+".headers", 4096), pairsOf(match+".queryParams", 1024),
		each(match+".method", `"GET"`, `"get"`, `"PURGE"`, `""`, `null`, `"CONNECT"`),
		filters(rule+".filters"), filters(rule+".backendRefs[0].filters"), filters("spec.rules[1].filters"), prefixes(),
		each(rule+".backendRefs", ``, `[]`, `null`, repeat(16, `{"name":"b%d","port":80}`), repeat(17, `{"name":"b%d","port":80}`), `[{"name":"a"}]`, `[{"name":"a","kind":"Other"}]`, `[{"name":"a","group":"a.example"}]`),
		objectNames(rule+".backendRefs[0].name"), groups(rule+".backendRefs[0].group"), kindWords(rule+".backendRefs[0].kind"),
		namespaces(rule+".backendRefs[0].namespace"), portNumbers(rule+".backendRefs[0].port"),
		each(rule+".backendRefs[0].weight", `0`, `1`, `1000000`, `1000001`, `-1`, `null`, `"1"`),
		timeouts(rule+".timeouts"),
		except(looser, "of the experimental channel, and reported", rule+".retry", `{"attempts":2}`),
		except(looser, "of the experimental channel, and reported", rule+".sessionPersistence", `{"type":"Cookie"}`),
		except(looser, "of the experimental channel, and reported", "spec.useDefaultGateways", `"All"`),
		each("status", `{"parents":[]}`))
}

func parents() []mutation {
	const p = "spec.parentRefs[0]"
	return join(each("spec.parentRefs", ``, `[]`, `null`, `[{}]`, repeat(32, `{"name":"p%d"}`), repeat(33, `{"name":"p%d"}`), `[{"name":"a"},{"name":"a"}]`, `[{"name":"a"},{"name":"a","sectionName":"b"}]`,
		`[{"name":"a","sectionName":"b"},{"name":"a","sectionName":"c"}]`, `[{"name":"a","sectionName":"b"},{"name":"a","sectionName":"b"}]`, `[{"name":"a","sectionName":"b"},{"name":"a","sectionName":"b","namespace":"c"}]`,
		`[{"name":"a","port":80},{"name":"a","port":81}]`, `[{"name":"a","kind":"Service","group":""},{"name":"a"}]`),
		objectNames(p+".name"), groups(p+".group"), kindWords(p+".kind"), namespaces(p+".namespace"), sections(p+".sectionName"), portNumbers(p+".port"))
}

func matchPaths(path string) (out []mutation) {
	for _, kind := range []string{``, `"type":"Exact",`, `"type":"PathPrefix",`} {
		for _, v := range []string{"/", "/v1", "/v1/", "v1", "", "/a//b", "/a/./b", "/a/../b", "/a/..", "/a/.", "/a%2fb", "/a%2Fb", "/a%20b", "/a%zz", "/a b", "/a?b", "/a#b", "/é", "/a;b=c", "/(a)",
			"/" + strings.Repeat("a", 1023), "/" + strings.Repeat("a", 1024)} {
			out = append(out, mutation{path: path, value: `{` + kind + `"value":` + quoted(v) + `}`})
		}
	}
	return join(out, each(path, `{}`, `null`, `{"type":"Exact"}`, `{"type":"Glob"}`, `{"type":""}`, `{"type":"RegularExpression","value":"/v[0-9]+"}`, `{"type":"RegularExpression","value":"a"}`, `{"value":5}`),
		except(stricter, "nobody could match by it", path, `{"type":"RegularExpression","value":"("}`))
}

// pairsOf are values of headers or query parameters.
func pairsOf(path string, longest int) []mutation {
	return join(each(path, `[]`, `null`, `[{"name":"a","value":"b"}]`, `[{"name":"a","value":"b","type":"Exact"}]`, `[{"name":"a","value":"b+","type":"RegularExpression"}]`, `[{"name":"a","value":"b","type":"Glob"}]`,
		`[{"name":"a","value":"b"},{"name":"a","value":"c"}]`, `[{"name":"a","value":"b"},{"name":"A","value":"c"}]`, `[{"name":"a b","value":"c"}]`, `[{"name":"","value":"c"}]`, `[{"name":"a","value":""}]`,
		`[{"name":"a"}]`, `[{"value":"a"}]`, repeat(16, `{"name":"n%d","value":"v"}`), repeat(17, `{"name":"n%d","value":"v"}`),
		`[{"name":"`+strings.Repeat("a", 256)+`","value":"b"}]`, `[{"name":"`+strings.Repeat("a", 257)+`","value":"b"}]`,
		`[{"name":"a","value":"`+strings.Repeat("a", longest)+`"}]`, `[{"name":"a","value":"`+strings.Repeat("a", longest+1)+`"}]`),
		except(stricter, "nobody could match by it", path, `[{"name":"a","value":"(","type":"RegularExpression"}]`))
}

// prefixes are rules whose filters change the prefix that matched.
func prefixes() []mutation {
	const prefix = `{"type":"URLRewrite","urlRewrite":{"path":{"type":"ReplacePrefixMatch","replacePrefixMatch":"/"}}}`
	const redirect = `{"type":"RequestRedirect","requestRedirect":{"path":{"type":"ReplacePrefixMatch","replacePrefixMatch":"/"}}}`
	var out []mutation
	for _, matches := range []string{``, `"matches":[{"path":{"value":"/a"}}],`, `"matches":[{"path":{"type":"Exact","value":"/a"}}],`, `"matches":[{"path":{"value":"/a"}},{"path":{"value":"/b"}}],`} {
		out = append(out, each("spec.rules[1]", `{`+matches+`"filters":[`+prefix+`]}`, `{`+matches+`"filters":[`+redirect+`]}`, `{`+matches+`"filters":[`+prefix+`,`+redirect+`]}`,
			`{`+matches+`"backendRefs":[{"name":"a","port":80,"filters":[`+prefix+`]}]}`, `{`+matches+`"backendRefs":[{"name":"a","port":80,"filters":[`+redirect+`]}]}`,
			`{`+matches+`"filters":[`+redirect+`],"backendRefs":[{"name":"a","port":80}]}`)...)
	}
	return out
}

func timeouts(path string) []mutation {
	return each(path, `{}`, `{"request":"10s"}`, `{"request":"10s","backendRequest":"10s"}`, `{"request":"1s","backendRequest":"2s"}`, `{"request":"0s","backendRequest":"2s"}`, `{"request":"1h1m1s1ms"}`, `{"request":"1.5s"}`,
		`{"request":"1d"}`, `{"request":"10"}`, `{"request":""}`, `{"request":"100000s"}`, `{"backendRequest":"-1s"}`, `{"request":10}`, `{"request":"1h1m1s1ms1ms"}`, `{"request":"99999ms99999ms99999ms99999ms"}`)
}

func filters(path string) []mutation {
	one := func(values ...string) (out []mutation) {
		for _, v := range values {
			out = append(out, mutation{path: path, value: "[" + v + "]"})
		}
		return out
	}
	return join(each(path, ``, `[]`, `null`, `[{}]`, repeat(16, `{"type":"RequestMirror","requestMirror":{"backendRef":{"name":"a","port":80}}}`), repeat(17, `{"type":"RequestMirror","requestMirror":{"backendRef":{"name":"a","port":80}}}`)),
		one(`{"type":"Other"}`, `{"type":"RequestHeaderModifier"}`, `{"type":"RequestHeaderModifier","requestHeaderModifier":{}}`, `{"type":"RequestHeaderModifier","responseHeaderModifier":{}}`,
			`{"type":"ResponseHeaderModifier","responseHeaderModifier":{"remove":["a"]}}`, `{"type":"ResponseHeaderModifier","responseHeaderModifier":{"remove":["a","a"]}}`,
			`{"type":"RequestHeaderModifier","requestHeaderModifier":{"set":[{"name":"a","value":"b"}],"add":[{"name":"a","value":"b"}]}}`, `{"type":"RequestHeaderModifier","requestHeaderModifier":{"set":[{"name":"a","value":"b"},{"name":"a","value":"c"}]}}`,
			`{"type":"RequestHeaderModifier","requestHeaderModifier":{}},{"type":"RequestHeaderModifier","requestHeaderModifier":{}}`,
			`{"type":"RequestMirror","requestMirror":{"backendRef":{"name":"a"}}}`, `{"type":"RequestMirror","requestMirror":{"backendRef":{"name":"a","port":80},"percent":100}}`, `{"type":"RequestMirror","requestMirror":{"backendRef":{"name":"a","port":80},"percent":101}}`,
			`{"type":"RequestMirror","requestMirror":{"backendRef":{"name":"a","port":80},"fraction":{"numerator":1,"denominator":2}}}`, `{"type":"RequestMirror","requestMirror":{"backendRef":{"name":"a","port":80},"fraction":{"numerator":101}}}`,
			`{"type":"RequestMirror","requestMirror":{"backendRef":{"name":"a","port":80},"fraction":{"denominator":2}}}`, `{"type":"RequestMirror","requestMirror":{"backendRef":{"name":"a","port":80},"fraction":{"numerator":1},"percent":5}}`, `{"type":"RequestMirror"}`,
			`{"type":"URLRewrite","urlRewrite":{}}`, `{"type":"URLRewrite","urlRewrite":{"hostname":"a.example"}}`, `{"type":"URLRewrite","urlRewrite":{"hostname":"*.a.example"}}`, `{"type":"URLRewrite","urlRewrite":{"path":{"type":"ReplaceFullPath","replaceFullPath":"/"}}}`,
			`{"type":"URLRewrite","urlRewrite":{"path":{"type":"ReplaceFullPath"}}}`, `{"type":"URLRewrite","urlRewrite":{"path":{"type":"ReplaceFullPath","replacePrefixMatch":"/"}}}`, `{"type":"URLRewrite","urlRewrite":{"path":{}}}`,
			`{"type":"URLRewrite","urlRewrite":{"path":{"type":"ReplacePrefixMatch","replacePrefixMatch":""}}}`, `{"type":"URLRewrite","urlRewrite":{"path":{"type":"Other"}}}`,
			`{"type":"ExtensionRef","extensionRef":{"group":"a","kind":"B","name":"c"}}`, `{"type":"ExtensionRef","extensionRef":{"kind":"B","name":"c"}}`, `{"type":"ExtensionRef","extensionRef":{"group":"","kind":"B","name":"c"}}`,
			`{"type":"CORS","cors":{}}`, `{"type":"CORS","cors":{"allowOrigins":["*"]}}`, `{"type":"CORS","cors":{"allowOrigins":["*","https://a.example"]}}`, `{"type":"CORS","cors":{"allowOrigins":["https://*.a.example:8443"],"allowMethods":["GET"],"allowHeaders":["*"],"maxAge":1}}`,
			`{"type":"CORS","cors":{"allowOrigins":["a.example"]}}`, `{"type":"CORS","cors":{"allowMethods":["*","GET"]}}`, `{"type":"CORS","cors":{"allowMethods":["GET","GET"]}}`, `{"type":"CORS","cors":{"maxAge":-1}}`, `{"type":"CORS","cors":{"exposeHeaders":["a b"]}}`),
		redirects(one),
		except(looser, "of the experimental channel, and reported", path, `[{"type":"RequestHeaderModifier","requestHeaderModifier":{},"externalAuth":{"protocol":"HTTP","http":{},"backendRef":{"name":"a","port":80}}}]`))
}

func redirects(one func(...string) []mutation) []mutation {
	return one(`{"type":"RequestRedirect","requestRedirect":{}}`, `{"type":"RequestRedirect","requestRedirect":{"scheme":"https"}}`, `{"type":"RequestRedirect","requestRedirect":{"scheme":"ftp"}}`,
		`{"type":"RequestRedirect","requestRedirect":{"statusCode":301}}`, `{"type":"RequestRedirect","requestRedirect":{"statusCode":300}}`, `{"type":"RequestRedirect","requestRedirect":{"port":0}}`,
		`{"type":"RequestRedirect","requestRedirect":{"hostname":"a.example","port":8080}}`, `{"type":"RequestRedirect","requestRedirect":{}},{"type":"URLRewrite","urlRewrite":{}}`)
}
