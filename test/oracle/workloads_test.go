package oracle

// workloadKinds are those that make Pods, and those that Pods read.
func workloadKinds() []kind {
	const template = `"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":"nginx:1.27"}]}}`
	meta := func(kind string) string {
		return `{"apiVersion":"apps/v1","kind":"` + kind + `","metadata":{"name":"web","namespace":"default"},`
	}
	return []kind{
		{"Deployment", meta("Deployment") + `"spec":{` + template + `}}`, deploymentMutations()},
		{"ReplicaSet", meta("ReplicaSet") + `"spec":{` + template + `}}`, replicaSetMutations()},
		{"StatefulSet", meta("StatefulSet") + `"spec":{"serviceName":"web",` + template + `}}`, statefulSetMutations()},
		{"DaemonSet", meta("DaemonSet") + `"spec":{` + template + `}}`, daemonSetMutations()},
		{"ConfigMap", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web","namespace":"default"},"data":{"a":"b"}}`, configMapMutations()},
		{"Secret", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"web","namespace":"default"},"data":{"a":"Yg=="}}`, secretMutations()},
	}
}

// counts are values of a number that must not be negative.
func counts(paths ...string) (out []mutation) {
	for _, p := range paths {
		out = append(out, each(p, `0`, `1`, `50`, `-1`, `null`, `"3"`, `3.5`, `3000000000`)...)
	}
	return out
}

// shares are values of a number of Pods or a percentage of them.
func shares(path string) []mutation {
	return each(path, `0`, `1`, `-1`, `"0%"`, `"25%"`, `"100%"`, `"101%"`, `"half"`, `"5"`, `""`, `null`, `1.5`)
}

func templates() []mutation {
	return join(
		each("spec.selector", ``, `null`, `{}`, `{"matchLabels":{}}`, `{"matchLabels":{"app":"other"}}`, `{"matchLabels":{"app":"-"}}`, `{"matchLabels":{"a b":"c"}}`,
			`{"matchExpressions":[{"key":"app","operator":"In","values":["web"]}]}`, `{"matchExpressions":[{"key":"app","operator":"In"}]}`,
			`{"matchExpressions":[{"key":"app","operator":"Exists"}]}`, `{"matchExpressions":[{"key":"app","operator":"Exists","values":["x"]}]}`,
			`{"matchExpressions":[{"key":"app","operator":"NotIn","values":["web"]}]}`, `{"matchExpressions":[{"key":"app","operator":"Is","values":["web"]}]}`,
			`{"matchExpressions":[{"key":"-","operator":"Exists"}]}`, `{"matchLabel":{"app":"web"}}`),
		each("spec.template", ``, `{}`, `{"metadata":{"labels":{"app":"web"}}}`),
		each("spec.template.metadata", `{"labels":{"app":"web","tier":"front"}}`, `{"labels":{"app":"other"}}`, `{"labels":{"app":"web","a b":"c"}}`, `{"labels":{"app":"web"},"annotations":{"a":"b"}}`,
			`{"labels":{"app":"web"},"annotations":{"a b":"c"}}`, `{"labels":{"app":"web"},"name":"x"}`),
		each("spec.template.spec", ``, `{}`, `{"containers":[]}`),
		each("spec.template.spec.restartPolicy", `"Always"`, `"OnFailure"`, `"Never"`, `"Sometimes"`, `""`),
		each("spec.template.spec.activeDeadlineSeconds", `5`, `null`, `0`),
		each("spec.template.spec.terminationGracePeriodSeconds", `0`, `5`),
		except(stricter, "a slip of the pen; upstream makes one second of it in each Pod", "spec.template.spec.terminationGracePeriodSeconds", `-5`),
		each("spec.template.spec.hostname", `"x"`), each("spec.template.spec.nodeName", `"n1"`, `"N_1"`), each("spec.template.spec.hostNetwork", `true`),
		each("spec.template.spec.containers[0].image", ``, `"nginx"`),
		except(stricter, "upstream takes it, and can make no Pod of it", "spec.template.spec.containers[0].image", `" nginx"`),
		each("spec.template.spec.containers[0].ports", `[{"containerPort":80}]`, `[{"containerPort":0}]`, `[{"containerPort":80,"hostPort":80}]`),
		each("spec.template.spec.ephemeralContainers", `[{"name":"d","image":"a"}]`),
	)
}

func deploymentMutations() []mutation {
	return join(metadata(), templates(), counts("spec.replicas", "spec.minReadySeconds", "spec.revisionHistoryLimit", "spec.progressDeadlineSeconds"),
		each("spec.minReadySeconds", `599`, `600`), each("spec.progressDeadlineSeconds", `600`, `60`),
		each("spec.paused", `true`, `"yes"`),
		each("spec.strategy", `{}`, `null`, `{"type":"Recreate"}`, `{"type":"RollingUpdate"}`, `{"type":"BlueGreen"}`, `{"type":"Recreate","rollingUpdate":{"maxSurge":1}}`,
			`{"rollingUpdate":{"maxSurge":0,"maxUnavailable":0}}`, `{"rollingUpdate":{"maxSurge":"0%","maxUnavailable":0}}`, `{"rollingUpdate":{"maxSurge":0}}`, `{"rollingUpdate":null,"type":""}`),
		shares("spec.strategy.rollingUpdate.maxSurge"), shares("spec.strategy.rollingUpdate.maxUnavailable"))
}

func replicaSetMutations() []mutation {
	return join(metadata(), templates(), counts("spec.replicas", "spec.minReadySeconds"))
}

func statefulSetMutations() []mutation {
	return join(metadata(), templates(), counts("spec.replicas", "spec.minReadySeconds", "spec.ordinals.start"),
		each("spec.revisionHistoryLimit", `0`, `3`, `null`, `"3"`),
		except(stricter, "as for Deployments and DaemonSets", "spec.revisionHistoryLimit", `-1`),
		names("spec.serviceName"), each("spec.serviceName", ``, `""`),
		each("spec.podManagementPolicy", `"OrderedReady"`, `"Parallel"`, `"Sometimes"`, `""`, `null`),
		each("spec.updateStrategy", `{}`, `null`, `{"type":"OnDelete"}`, `{"type":"RollingUpdate"}`, `{"type":"Sometimes"}`, `{"type":"OnDelete","rollingUpdate":{"partition":1}}`, `{"type":"OnDelete","rollingUpdate":{}}`,
			`{"rollingUpdate":{"partition":2}}`, `{"type":"RollingUpdate","rollingUpdate":{}}`),
		counts("spec.updateStrategy.rollingUpdate.partition"), shares("spec.updateStrategy.rollingUpdate.maxUnavailable"),
		each("spec.persistentVolumeClaimRetentionPolicy", `{}`, `{"whenDeleted":"Delete"}`, `{"whenScaled":"Retain"}`, `{"whenScaled":"Keep"}`),
		each("spec.volumeClaimTemplates", `[]`, `[{"metadata":{"name":"data"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}]`))
}

func daemonSetMutations() []mutation {
	return join(metadata(), templates(), counts("spec.minReadySeconds", "spec.revisionHistoryLimit"),
		each("spec.updateStrategy", `{}`, `null`, `{"type":"OnDelete"}`, `{"type":"RollingUpdate"}`, `{"type":"Sometimes"}`,
			`{"rollingUpdate":{"maxSurge":1,"maxUnavailable":1}}`, `{"rollingUpdate":{"maxSurge":1,"maxUnavailable":0}}`, `{"rollingUpdate":{"maxSurge":0,"maxUnavailable":0}}`, `{"rollingUpdate":{}}`),
		shares("spec.updateStrategy.rollingUpdate.maxSurge"), shares("spec.updateStrategy.rollingUpdate.maxUnavailable"))
}

func configMapMutations() []mutation {
	return join(metadata(),
		each("data", ``, `{}`, `{"a":"b","c.d":"e"}`, `{"a/b":"c"}`, `{"":"c"}`, `{"..":"c"}`, `{".":"c"}`, `{"..x":"c"}`, `{"a":5}`, `{"a":null}`, `["a"]`),
		each("binaryData", `{}`, `{"x":"AAEC"}`, `{"a":"AAEC"}`, `{"a/b":"AAEC"}`, `{"x":"not base64"}`, `{"x":5}`),
		each("immutable", `true`, `false`, `"yes"`, `null`))
}

func secretMutations() []mutation {
	return join(metadata(),
		each("data", ``, `{}`, `{"a":"Yg==","c":""}`, `{"a/b":"Yg=="}`, `{"a":"not base64"}`, `{"a":5}`, `{"username":"Yg=="}`, `{"tls.crt":"Yg==","tls.key":"Yg=="}`, `{"tls.crt":"Yg=="}`,
			`{".dockercfg":"e30="}`, `{".dockercfg":"Yg=="}`, `{".dockerconfigjson":"e30="}`, `{".dockerconfigjson":"Yg=="}`, `{"ssh-privatekey":"Yg=="}`, `{"ssh-privatekey":""}`),
		each("type", `"Opaque"`, `""`, `"my/type"`, `"kubernetes.io/tls"`, `"kubernetes.io/basic-auth"`, `"kubernetes.io/ssh-auth"`, `"kubernetes.io/dockercfg"`, `"kubernetes.io/dockerconfigjson"`,
			`"kubernetes.io/service-account-token"`, `5`),
		each("immutable", `true`, `false`, `"yes"`))
}
