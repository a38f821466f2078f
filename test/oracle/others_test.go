package oracle

import "strings"

func sliceMutations() []mutation {
	return join(metadata(), sliceAddresses(),
		each("addressType", `"IPv4"`, `"IPv6"`, `"FQDN"`, `"ipv4"`, ``, `""`),
		each("ports", ``, `[]`, `[{}]`, `[{},{}]`, `[{"name":"a"},{"name":"a"}]`, `[{"port":80}]`, `[{"name":"a","port":80},{"name":"b","port":80}]`, `{"name":"a"}`),
		names("ports[0].name"), each("ports[0].name", `""`, `null`),
		protocols("ports[0].protocol")[:5],
		each("ports[0].port", `1`, `65535`, `null`, `"80"`, `"http"`),
		except(stricter, "no packet has this port; upstream checks no port numbers of slices", "ports[0].port", `0`, `-1`, `65536`, `99999`),
		each("ports[0].appProtocol", `"http"`, `"a b"`),
		each("endpoints", ``, `[]`, `[{}]`, `[{"addresses":["10.244.0.5","10.244.0.6"]}]`, `[{"addresses":["10.244.0.5"]},{"addresses":["10.244.0.5"]}]`, `["10.244.0.5"]`,
			`[`+strings.Repeat(`{"addresses":["10.244.0.5"]},`, 999)+`{"addresses":["10.244.0.5"]}]`, `[`+strings.Repeat(`{"addresses":["10.244.0.5"]},`, 1000)+`{"addresses":["10.244.0.5"]}]`),
		each("endpoints[0].conditions", `{"ready":true}`, `{"ready":false,"serving":true,"terminating":true}`, `{"ready":"yes"}`, `{"redy":true}`),
		names("endpoints[0].hostname"), names("endpoints[0].nodeName"),
		each("endpoints[0].deprecatedTopology", `{"a":"b"}`, `{"a b":"c"}`),
		each("endpoints[0].targetRef", `{"kind":"Pod","name":"web-1"}`), each("endpoints[0].zone", `"z1"`),
		each("endpoints[0].hints", `{"forZones":[{"name":"a"}]}`, `{"forZones":[{"name":"a"},{"name":"a"}]}`, `{"forZones":[{"name":"a b"}]}`, `{"forNodes":[{"name":"n1"}]}`, `{"forNodes":[{"name":"n_1"}]}`,
			`{"forZones":[{"name":"1"},{"name":"2"},{"name":"3"},{"name":"4"},{"name":"5"},{"name":"6"},{"name":"7"},{"name":"8"},{"name":"9"}]}`),
	)
}

func sliceAddresses() (out []mutation) {
	for _, a := range addresses() {
		out = append(out, mutation{path: "endpoints[0].addresses", value: `[` + a + `]`})
		out = append(out, mutation{path: "endpoints[1].addresses", value: `["10.244.0.9",` + a + `]`})
	}
	return append(out, each("endpoints[0].addresses", `["fd00:10:244::5"]`, `["fd00:10:244:0::5"]`, `["www.example.com"]`, `["www"]`, `["www.example.com."]`)...)
}

func podMutations() []mutation {
	return join(metadata(), podSpec(), podStatus(), podWorld(), containers("spec.containers[0]"),
		each("spec.initContainers", `[{"name":"init","image":"busybox","ports":[{"containerPort":5}]}]`, `[{"name":"web","image":"busybox"}]`, `[{"name":"init"}]`,
			`[{"name":"init","image":"a","resources":{"limits":{"cpu":"1"}}}]`),
		each("spec.volumes", `[{"name":"v"}]`, `[{"name":"v","emptyDir":{}}]`, `[{"name":"v","hostPath":{"path":"/tmp"}}]`, `[{"name":"v","configMap":{"name":"c"}}]`, `[{"name":"v","secret":{"secretName":"s"}}]`,
			`[{"name":"v","downwardAPI":{"items":[{"path":"p","fieldRef":{"fieldPath":"metadata.name"}}]}}]`, `[{"name":"v","projected":{"sources":[{"configMap":{"name":"c"}}]}}]`, `[{"name":"v","image":{"reference":"a"}}]`),
		except(looser, "nothing is scheduled, and affinity is reported as ignored", "spec.affinity", `{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":""}]}}`),
	)
}

func podSpec() []mutation {
	return join(
		each("spec", ``, `{}`, `{"containers":[]}`, `{"container":[]}`),
		each("spec.restartPolicy", `"Always"`, `"OnFailure"`, `"Never"`, `"Sometimes"`, `""`),
		each("spec.dnsPolicy", `"ClusterFirst"`, `"Default"`, `"ClusterFirstWithHostNet"`, `"Cluster"`),
		each("spec.terminationGracePeriodSeconds", `0`, `5`, `-5`, `"5"`, `null`),
		each("spec.activeDeadlineSeconds", `0`, `1`, `3000000000`),
		each("spec.hostNetwork", `true`, `false`, `"yes"`), each("spec.hostPID", `true`),
		names("spec.hostname"), names("spec.subdomain"), names("spec.nodeName"), names("spec.serviceAccountName"), names("spec.serviceAccount"),
		each("spec.nodeSelector", `{"a":"b"}`, `{"a b":"c"}`),
		each("spec.securityContext", `{"runAsUser":1000}`), each("spec.tolerations", `[{"operator":"Exists"}]`),
		each("spec.enableServiceLinks", `false`), each("spec.schedulerName", `"mine"`), each("spec.priorityClassName", `"high"`, `"Hi gh"`),
		each("spec.imagePullSecrets", `[{"name":"s"}]`), each("spec.hostAliases", `[{"ip":"10.1.2.3","hostnames":["a"]}]`),
	)
}

func podStatus() []mutation {
	const endpoint = "status is used here: the address becomes an endpoint"
	return join(
		each("status", `{"podIP":"10.244.0.5"}`, `{"podIPs":[{"ip":"10.244.0.5"},{"ip":"fd00:10:244::5"}]}`, `{"podIP":"10.244.0.5","podIPs":[{"ip":"10.244.0.6"},{"ip":"fd00:10:244::5"}]}`, `{"podIP":5}`,
			`{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}`),
		except(stricter, endpoint, "status", `{"podIP":"10.244.0.05"}`, `{"podIP":"127.0.0.1"}`, `{"podIP":"fd00:10:244::0005"}`, `{"podIPs":[{"ip":"10.244.0.5"},{"ip":"10.244.0.6"}]}`, `{"podIPs":[{}]}`),
		except(stricter, "status is used here: readiness must be plain", "status", `{"conditions":[{"type":"Ready","status":"yes"}]}`, `{"conditions":[{"status":"True"}]}`),
	)
}

func containers(c string) []mutation {
	return join(
		names(c+".name"), each(c+".name", ``, `"log"`),
		each(c+".image", ``, `""`, `"nginx"`, `"nginx:latest"`, `"nginx@sha256:`+strings.Repeat("0", 64)+`"`, `"registry:5000/nginx"`, `"registry:5000/a/nginx:1"`, `" nginx"`),
		each(c+".imagePullPolicy", `"Always"`, `"Never"`, `"Sometimes"`),
		each(c+".command", `["sleep","1"]`, `"sleep 1"`, `[1]`), each(c+".args", `["a"]`),
		each(c+".ports", `[]`, `[{"containerPort":80},{"containerPort":80}]`, `[{"name":"a","containerPort":80},{"name":"a","containerPort":81}]`, `[{"containerPort":80,"hostPort":80},{"containerPort":81,"hostPort":80}]`,
			`[{"containerPort":80,"hostPort":80},{"containerPort":80,"hostPort":80,"protocol":"UDP"}]`, `[{"port":80}]`),
		ports(c+".ports[0].containerPort"), ports(c + ".ports[0].hostPort")[:6], portNames(c+".ports[0].name"), protocols(c+".ports[0].protocol"),
		each(c+".env", `[{"name":"A","value":"b"}]`, `[{"name":"A"}]`, `[{"name":""}]`, `[{"name":"A=B"}]`, `[{"name":"a.b c"}]`, `[{"name":"A","value":1}]`,
			`[{"name":"A","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}]`, `[{"name":"A","value":"b","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}]`),
		each(c+".resources", `{"limits":{"cpu":"1","memory":"64Mi"}}`, `{"limits":{"cpu":"1"},"requests":{"cpu":"100m"}}`, `{"limits":{"cpu":"much"}}`, `{"limits":{"cpu":"0.0001"}}`, `{"requests":{"cpu":1}}`),
		each(c+".livenessProbe", `{"httpGet":{"port":80}}`, `{"tcpSocket":{"port":"http"}}`, `{"exec":{"command":["true"]},"periodSeconds":5}`, `{"grpc":{"port":5}}`),
		each(c+".readinessProbe", `{"httpGet":{"port":80,"path":"/ready","scheme":"HTTPS"},"failureThreshold":1}`, `{"httpget":{}}`),
		each(c+".startupProbe", `{"tcpSocket":{"port":80}}`),
		each(c+".lifecycle", `{"preStop":{"httpGet":{"port":80}}}`, `{"postStart":{"exec":{"command":["true"]}}}`),
		each(c+".terminationMessagePolicy", `"File"`, `"FallbackToLogsOnError"`, `"No"`), each(c+".terminationMessagePath", `"/x"`),
		except(looser, "probes do not run, and are reported as not acted on", c+".livenessProbe", `{}`, `{"tcpSocket":{"port":0}}`),
		except(looser, "resources are ignored, and reported", c+".resources", `{"limits":{"cpu":"1"},"requests":{"cpu":"2"}}`),
	)
}

func nodeMutations() []mutation {
	return join(metadata(),
		each("metadata.namespace", `"default"`),
		each("spec.podCIDR", `"10.244.1.0/24"`, ``, `"10.244.1.1/24"`, `"10.244.1.0"`, `"010.244.1.0/24"`, `"x"`, `"fd00:10:244::/64"`, `5`),
		each("spec.podCIDRs", `["10.244.0.0/24"]`, `["10.244.0.0/24","fd00:10:244::/64"]`, `["10.244.0.0/24","10.244.1.0/24"]`, `["fd00:10:244::/64"]`, `["x"]`, `"10.244.0.0/24"`),
		except(stricter, canonical, "spec", `{"podCIDR":"fd00:10:244:0::/64"}`),
		each("spec.unschedulable", `true`), each("spec.providerID", `"x"`),
		each("status.capacity", `{"cpu":"4","memory":"8Gi"}`, `{"cpu":"0.00001"}`, `{"cpu":"x"}`), each("status.allocatable", `{"cpu":"3"}`),
		each("status.addresses", `[{"type":"InternalIP","address":"192.0.2.1"}]`, `[{"type":"Hostname","address":"n1"}]`),
		except(stricter, "node addresses become frontends", "status.addresses", `[{"type":"InternalIP","address":"192.0.2.01"}]`, `[{"type":"ExternalIP","address":"x"}]`),
	)
}

func namespaceMutations() []mutation {
	return join(metadata(),
		each("metadata.namespace", `"default"`),
		each("spec", `{}`, `{"finalizers":["kubernetes"]}`, `{"finalizer":[]}`),
		each("status", `{"phase":"Active"}`, `{"phase":"Terminating"}`, `{"phase":5}`),
	)
}
