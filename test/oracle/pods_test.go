package oracle

import "strings"

// podWorld is what the containers of a Pod see: volumes, variables, names, users.
func podWorld() []mutation {
	return join(podVolumes(), podMounts(), podDNS(), podUsers(), podVariables())
}

func volume(sources ...string) (out []mutation) {
	for _, s := range sources {
		out = append(out, mutation{path: "spec.volumes", value: `[{"name":"v",` + s + `}]`})
	}
	return out
}

func podVolumes() []mutation {
	return join(
		each("spec.volumes", `[{"name":"v"},{"name":"v"}]`, `[{"name":"v"},{"name":"w"}]`, `[{"name":""}]`, `[{"name":"V_1"}]`, `[{"emptyDir":{}}]`),
		volume(`"hostPath":{"path":""}`, `"hostPath":{"path":"a"}`, `"hostPath":{"path":"/a/../b"}`, `"hostPath":{"path":"/a..b"}`, `"hostPath":{"path":"/a","type":"Directory"}`,
			`"hostPath":{"path":"/a","type":"directory"}`, `"hostPath":{"path":"/a","type":""}`,
			`"emptyDir":{"medium":"Memory","sizeLimit":"1Mi"}`, `"emptyDir":{"sizeLimit":"-1"}`, `"emptyDir":{"sizeLimit":"x"}`, `"emptyDir":{"medium":"Disk"}`,
			`"emptyDir":{},"hostPath":{"path":"/a"}`, `"configMap":{"name":"c"},"secret":{"secretName":"s"}`,
			`"configMap":{}`, `"configMap":{"name":"c","optional":true}`, `"configMap":{"name":"c","defaultMode":420}`, `"configMap":{"name":"c","defaultMode":512}`, `"configMap":{"name":"c","defaultMode":-1}`,
			`"configMap":{"name":"c","items":[{"key":"a","path":"b"}]}`, `"configMap":{"name":"c","items":[{"key":"a"}]}`, `"configMap":{"name":"c","items":[{"path":"a"}]}`,
			`"configMap":{"name":"c","items":[{"key":"a","path":"/b"}]}`, `"configMap":{"name":"c","items":[{"key":"a","path":"../b"}]}`, `"configMap":{"name":"c","items":[{"key":"a","path":"b/../c"}]}`,
			`"configMap":{"name":"c","items":[{"key":"a","path":"..b"}]}`, `"configMap":{"name":"c","items":[{"key":"a","path":"b","mode":511}]}`, `"configMap":{"name":"c","items":[{"key":"a","path":"b","mode":1000}]}`,
			`"secret":{}`, `"secret":{"secretName":"s","items":[{"key":"","path":"b"}]}`, `"secret":{"secretName":"s","defaultMode":1000}`,
			`"downwardAPI":{}`, `"downwardAPI":{"items":[{"path":"p"}]}`, `"downwardAPI":{"items":[{"path":"","fieldRef":{"fieldPath":"metadata.name"}}]}`,
			`"downwardAPI":{"items":[{"path":"p","fieldRef":{"fieldPath":"metadata.labels"}}]}`, `"downwardAPI":{"items":[{"path":"p","fieldRef":{"fieldPath":"metadata.labels['a']"}}]}`,
			`"downwardAPI":{"items":[{"path":"p","fieldRef":{"fieldPath":"metadata.labels['a b']"}}]}`, `"downwardAPI":{"items":[{"path":"p","fieldRef":{"fieldPath":"metadata.annotations['A.b/c']"}}]}`,
			`"downwardAPI":{"items":[{"path":"p","fieldRef":{"fieldPath":"metadata.name['a']"}}]}`, `"downwardAPI":{"items":[{"path":"p","fieldRef":{"fieldPath":"status.podIP"}}]}`,
			`"downwardAPI":{"items":[{"path":"p","fieldRef":{}}]}`,
			`"downwardAPI":{"items":[{"path":"p","resourceFieldRef":{"resource":"limits.cpu"}}]}`, `"downwardAPI":{"items":[{"path":"p","resourceFieldRef":{"containerName":"web","resource":"limits.cpu"}}]}`,
			`"downwardAPI":{"items":[{"path":"p","resourceFieldRef":{"containerName":"web","resource":"limits.cpu"},"fieldRef":{"fieldPath":"metadata.name"}}]}`,
			`"projected":{}`, `"projected":{"sources":[{}]}`, `"projected":{"sources":[{"configMap":{}}]}`, `"projected":{"sources":[{"configMap":{"name":"c"},"secret":{"name":"s"}}]}`,
			`"projected":{"sources":[{"secret":{"name":"s","items":[{"key":"a","path":"/b"}]}}]}`, `"projected":{"sources":[{"downwardAPI":{"items":[{"path":"p"}]}}]}`, `"projected":{"defaultMode":1000,"sources":[]}`,
			`"projected":{"sources":[{"configMap":{"name":"c","items":[{"key":"a","path":"x"}]}},{"secret":{"name":"s","items":[{"key":"a","path":"x"}]}}]}`),
	)
}

// podMounts replaces the whole spec: a mount needs its volume.
func podMounts() (out []mutation) {
	for _, m := range []string{
		`[{"name":"v","mountPath":"/a"}]`, `[{"name":"w","mountPath":"/a"}]`, `[{"mountPath":"/a"}]`, `[{"name":"v"}]`, `[{"name":"v","mountPath":"a"}]`, `[{"name":"v","mountPath":"/a:b"}]`,
		`[{"name":"v","mountPath":"/a"},{"name":"v","mountPath":"/a"}]`, `[{"name":"v","mountPath":"/a"},{"name":"v","mountPath":"/a/"}]`,
		`[{"name":"v","mountPath":"/a","subPath":"b/c"}]`, `[{"name":"v","mountPath":"/a","subPath":"/b"}]`, `[{"name":"v","mountPath":"/a","subPath":"../b"}]`, `[{"name":"v","mountPath":"/a","subPath":"b..c"}]`,
		`[{"name":"v","mountPath":"/a","subPathExpr":"$(A)"}]`, `[{"name":"v","mountPath":"/a","subPathExpr":"/$(A)"}]`, `[{"name":"v","mountPath":"/a","subPath":"b","subPathExpr":"c"}]`,
		`[{"name":"v","mountPath":"/a","readOnly":true}]`, `[{"name":"v","mountPath":"/a","mountPropagation":"None"}]`, `[{"name":"v","mountPath":"/a","mountPropagation":"Both"}]`,
		`[{"name":"v","mountPath":"/a","mountPropagation":"HostToContainer"}]`, `[{"name":"v","mountPath":"/a","mountPropagation":"Bidirectional"}]`,
	} {
		out = append(out, mutation{path: "spec", value: `{"volumes":[{"name":"v"}],"containers":[{"name":"web","image":"nginx","volumeMounts":` + m + `}]}`})
	}
	return append(out, each("spec.containers[0].volumeMounts", `[{"name":"none","mountPath":"/x"}]`)...)
}

func podDNS() []mutation {
	many := strings.Repeat(`"a.example.org",`, 32)
	return join(
		each("spec.hostAliases", `[{"ip":"10.1.2.3"}]`, `[{"ip":""}]`, `[{"ip":"x","hostnames":["a"]}]`, `[{"ip":"10.1.2.03","hostnames":["a"]}]`, `[{"ip":"fd00::1","hostnames":["a b"]}]`, `[{"hostnames":["a"]}]`),
		each("spec.dnsPolicy", `"None"`),
		each("spec.dnsConfig", `{}`, `{"nameservers":["192.0.2.1","fd00::1","192.0.2.2"]}`, `{"nameservers":["1.1.1.1","1.1.1.2","1.1.1.3","1.1.1.4"]}`, `{"nameservers":["x"]}`, `{"nameservers":["192.0.2.01"]}`,
			`{"searches":["a.example.org","a_b.example.org.","."]}`, `{"searches":["a b"]}`, `{"searches":[""]}`, `{"searches":[`+many+`"b"]}`, `{"searches":[`+strings.TrimSuffix(many, ",")+`]}`,
			`{"options":[{"name":"ndots","value":"2"},{"name":"edns0"}]}`, `{"options":[{"value":"2"}]}`),
		each("spec.setHostnameAsFQDN", `true`), each("spec.shareProcessNamespace", `true`, `false`), each("spec.hostIPC", `true`),
		each("spec", `{"dnsPolicy":"None","dnsConfig":{},"containers":[{"name":"web","image":"nginx"}]}`, `{"dnsPolicy":"None","dnsConfig":{"nameservers":["192.0.2.1"]},"containers":[{"name":"web","image":"nginx"}]}`,
			`{"hostPID":true,"shareProcessNamespace":true,"containers":[{"name":"web","image":"nginx"}]}`, `{"hostPID":true,"shareProcessNamespace":false,"containers":[{"name":"web","image":"nginx"}]}`),
	)
}

func podUsers() []mutation {
	return join(
		each("spec.securityContext", `{"runAsUser":0}`, `{"runAsUser":-1}`, `{"runAsUser":2147483648}`, `{"runAsGroup":5}`, `{"runAsGroup":-5}`, `{"fsGroup":7}`, `{"fsGroup":-7}`, `{"supplementalGroups":[1,2]}`, `{"supplementalGroups":[1,-2]}`,
			`{"runAsNonRoot":true}`, `{"sysctls":[{"name":"net.ipv4.ip_unprivileged_port_start","value":"80"}]}`, `{"sysctls":[{"name":"net/ipv4/x","value":"80"}]}`, `{"sysctls":[{"value":"80"}]}`,
			`{"sysctls":[{"name":"a..b","value":"1"}]}`, `{"sysctls":[{"name":"a b","value":"1"}]}`, `{"sysctls":[{"name":"kernel.shmmax","value":"1"},{"name":"kernel.shmmax","value":"2"}]}`, `{"sysctls":[{"name":"kernel.shmmax","value":"1"},{"name":"kernel/shmmax","value":"2"}]}`),
		each("spec.containers[0].securityContext", `{}`, `{"runAsUser":1}`, `{"runAsUser":-1}`, `{"runAsGroup":-1}`, `{"runAsGroup":1}`, `{"privileged":true,"allowPrivilegeEscalation":false}`, `{"allowPrivilegeEscalation":false}`,
			`{"allowPrivilegeEscalation":false,"capabilities":{"add":["CAP_SYS_ADMIN"]}}`, `{"capabilities":{"drop":["ALL"],"add":["NET_BIND_SERVICE"]}}`, `{"readOnlyRootFilesystem":true}`),
		except(looser, "an API server may be told to forbid it", "spec.containers[0].securityContext", `{"privileged":true}`),
	)
}

func podVariables() []mutation {
	from := func(values ...string) (out []mutation) {
		for _, v := range values {
			out = append(out, mutation{path: "spec.containers[0].env", value: `[{"name":"A","valueFrom":` + v + `}]`})
		}
		return out
	}
	return join(
		from(`{}`, `{"fieldRef":{}}`, `{"fieldRef":{"fieldPath":"status.podIPs"}}`, `{"fieldRef":{"fieldPath":"status.hostIPs"}}`, `{"fieldRef":{"fieldPath":"spec.nodeName"}}`, `{"fieldRef":{"fieldPath":"metadata.labels"}}`,
			`{"fieldRef":{"fieldPath":"metadata.labels['a']"}}`, `{"fieldRef":{"fieldPath":"metadata.labels['a b']"}}`, `{"fieldRef":{"fieldPath":"metadata.annotations['a']"}}`, `{"fieldRef":{"fieldPath":"spec.nodeName['a']"}}`, `{"fieldRef":{"fieldPath":"status.phase"}}`,
			`{"configMapKeyRef":{"name":"c","key":"k"}}`, `{"configMapKeyRef":{"key":"k"}}`, `{"configMapKeyRef":{"name":"c"}}`, `{"configMapKeyRef":{"name":"c","key":"a b"}}`, `{"configMapKeyRef":{"name":"c","key":"..k"}}`,
			`{"resourceFieldRef":{"resource":"limits.cpu"}}`, `{"resourceFieldRef":{"resource":"limits.cpu","divisor":"1m"}}`, `{"resourceFieldRef":{"resource":"limits.cpu","divisor":"2"}}`, `{"resourceFieldRef":{"resource":"limits.memory","divisor":"1Mi"}}`,
			`{"resourceFieldRef":{"resource":"requests.memory","divisor":"3Mi"}}`, `{"resourceFieldRef":{"resource":"limits.gpu"}}`, `{"resourceFieldRef":{"resource":"cpu"}}`, `{"resourceFieldRef":{}}`, `{"resourceFieldRef":{"resource":"limits.ephemeral-storage"}}`,
			`{"secretKeyRef":{"name":"c","key":"k","optional":true}}`, `{"secretKeyRef":{"name":"c"}}`, `{"secretKeyRef":{"key":"k"}}`,
			`{"configMapKeyRef":{"name":"c","key":"k"},"secretKeyRef":{"name":"c","key":"k"}}`),
		each("spec.containers[0].envFrom", `[{"configMapRef":{"name":"c"}}]`, `[{"configMapRef":{}}]`, `[{"secretRef":{"name":"s"},"prefix":"P_"}]`, `[{"secretRef":{}}]`, `[{}]`, `[{"prefix":"P_"}]`,
			`[{"configMapRef":{"name":"c"},"secretRef":{"name":"s"}}]`, `[{"configMapRef":{"name":"c"},"prefix":"a=b"}]`, `[{"configMapRef":{"name":"c"},"prefix":"9"}]`),
	)
}
