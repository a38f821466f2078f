package oracle

const allocators = "the registry's allocators refuse it upstream, after validation"

func nodePort(number string) string {
	return `{"type":"NodePort","ports":[{"port":80,"nodePort":` + number + `}]}`
}

func serviceMutations() []mutation {
	return join(metadata(), servicePorts(), serviceAddresses(), serviceFields(), loadBalancer())
}

func servicePorts() []mutation {
	return join(
		each("spec.ports", `[]`, ``, `null`, `[{"port":80}]`, `[{"port":80},{"port":81}]`, `[{"name":"a","port":80},{"name":"a","port":81}]`,
			`[{"name":"a","port":80},{"name":"b","port":80}]`, `[{"name":"a","port":80},{"name":"b","port":80,"protocol":"UDP"}]`, `{"port":80}`, `[80]`,
			`[{"name":"a","port":80,"targetPort":8080},{"name":"b","port":81,"targetPort":8080}]`),
		ports("spec.ports[0].port"), ports("spec.ports[0].targetPort"), portNames("spec.ports[0].targetPort"),
		names("spec.ports[0].name"), each("spec.ports[0].name", `"dns"`, ``, `""`),
		protocols("spec.ports[0].protocol"),
		each("spec.ports[0].appProtocol", `"http"`, `"kubernetes.io/h2c"`, `"a b"`, `""`),
		each("spec.ports[0].nodePort", `0`, `30080`, `"30080"`),
		except(stricter, allocators, "spec", nodePort("80"), nodePort("29999"), nodePort("32768"), nodePort("-1")),
		each("spec.ports[0].targetprt", `80`), each("spec.ports[0].Port", `80`),
	)
}

func serviceAddresses() []mutation {
	return join(
		each("spec.clusterIP", `"None"`, `""`, `"10.96.7.7"`, `"fd00:10:96::7"`, `"none"`, `"010.96.0.20"`, `"10.96.0"`, `"::ffff:10.96.0.1"`, `"10.96.0.1/32"`, `5`),
		except(stricter, canonical, "spec.clusterIP", `"fd00:10:96:0::7"`, `"FD00:10:96::7"`),
		except(stricter, allocators, "spec.clusterIP",
			`"192.168.1.1"`, `"10.96.0.0"`, `"10.111.255.255"`, `"127.0.0.1"`, `"0.0.0.0"`, `"fd00:10:96::"`),
		each("spec.clusterIPs", `[]`, `["10.96.7.7"]`, `["10.96.7.7","fd00:10:96::7"]`, `["10.96.7.7","10.96.7.8"]`, `["None"]`, `["None","10.96.7.7"]`, `["10.96.7.7","None"]`, `[""]`, `"10.96.7.7"`),
		each("spec.ipFamilies", `["IPv4"]`, `["IPv6"]`, `["IPv4","IPv4"]`, `["ipv4"]`, `["IPv4","IPv6","IPv4"]`, `"IPv4"`),
		each("spec.ipFamilyPolicy", `"SingleStack"`, `"PreferDualStack"`, `"RequireDualStack"`, `"DualStack"`, `""`, `true`),
		each("spec.externalIPs", `[]`, `["203.0.113.7"]`, `["203.0.113.7","2001:db8::7"]`, `["10.1.2"]`, `["127.0.0.1"]`, `["fe80::1"]`, `["224.0.0.5"]`, `["0.0.0.0"]`, `["010.1.2.3"]`, `["x"]`),
		except(stricter, canonical, "spec.externalIPs", `["2001:db8::0007"]`),
	)
}

func serviceFields() []mutation {
	return join(
		each("spec.type", `"ClusterIP"`, `"NodePort"`, `"LoadBalancer"`, `"ExternalName"`, `"Headless"`, `""`, `1`),
		each("spec.externalName", `"db.example.com"`, `"db.example.com."`, `"db_1.example.com"`, `"10.1.2.3"`, `""`),
		each("spec.selector", `{}`, `null`, ``, `{"app":"web","tier":"front"}`, `{"a b":"c"}`, `{"a":"b c"}`, `["app"]`, `{"a":1}`, `{"matchLabels":{"a":"b"}}`),
		each("spec.sessionAffinity", `"None"`, `"ClientIP"`, `"Cookie"`, `""`),
		each("spec.sessionAffinityConfig", `{}`, `{"clientIP":{}}`, `{"clientIP":{"timeoutSeconds":5}}`, `{"clientIP":{"timeoutSeconds":0}}`, `{"clientIP":{"timeoutSeconds":86400}}`,
			`{"clientIP":{"timeoutSeconds":86401}}`, `{"clientIP":{"timeoutSeconds":"5"}}`, `{"clientIp":{"timeoutSeconds":5}}`),
		each("spec.publishNotReadyAddresses", `true`, `"true"`, `1`),
		each("spec.internalTrafficPolicy", `"Cluster"`, `"Local"`, `"Global"`, `""`),
		each("spec.externalTrafficPolicy", `"Cluster"`, `"Local"`, `"Global"`, `""`),
		each("spec.trafficDistribution", `"PreferClose"`, `"PreferSameZone"`, `"PreferSameNode"`, `"Near"`, `""`),
		each("metadata.annotations", `{"service.kubernetes.io/topology-mode":"Auto"}`, `{"service.kubernetes.io/topology-mode":"Auto","service.kubernetes.io/topology-aware-hints":"Disabled"}`),
		each("spec.selektor", `{}`), each("spec.Type", `"NodePort"`), each("spec", ``, `null`, `[]`, `"x"`),
	)
}

func loadBalancer() []mutation {
	return join(
		each("spec.type", `"LoadBalancer"`, `"LoadBalancer"`, `"NodePort"`),
		each("spec.loadBalancerIP", `"203.0.113.7"`, `"anything"`),
		each("spec.loadBalancerClass", `"example.com/lb"`, `"lb"`, `"a b"`),
		each("spec.loadBalancerSourceRanges", `["10.0.0.0/8"]`, `[" 10.0.0.0/8 "]`, `["10.0.0.1/8"]`, `["10.0.0.0"]`, `["010.0.0.0/8"]`, `["2001:db8::/32"]`, `[]`, `["x"]`),
		except(stricter, canonical, "spec", `{"type":"LoadBalancer","ports":[{"port":80}],"loadBalancerSourceRanges":["2001:db8:0::/32"]}`),
		each("metadata.annotations", `{"service.beta.kubernetes.io/load-balancer-source-ranges":"10.0.0.0/8, 192.168.0.0/16"}`, `{"service.beta.kubernetes.io/load-balancer-source-ranges":"x"}`, `{"service.beta.kubernetes.io/load-balancer-source-ranges":""}`),
		each("spec.allocateLoadBalancerNodePorts", `true`, `false`, `"no"`),
		each("spec.healthCheckNodePort", `0`, `30200`),
		each("status", `{"loadBalancer":{}}`),
		except(looser, "ignored and reported: the status of a Service whose type has changed", "status", `{"loadBalancer":{"ingress":[{"ip":"203.0.113.9"}]}}`),
	)
}

func balancerMutations() []mutation {
	const ingress = "status.loadBalancer.ingress"
	return join(
		each("spec.externalTrafficPolicy", `"Cluster"`, `"Local"`, `"Local"`, `"Global"`, `""`, `null`),
		each("spec.healthCheckNodePort", `0`, `30200`, `"30200"`),
		each("spec.allocateLoadBalancerNodePorts", `true`, `false`, `null`),
		each("spec.loadBalancerClass", `"example.com/lb"`, `"a b"`, `""`), each("spec.loadBalancerIP", `"203.0.113.7"`),
		each("spec.loadBalancerSourceRanges", `["10.0.0.0/8","10.0.0.0/8"]`, `["10.0.0.0/8","10.1.0.0/16","10.1.2.3/32"]`, `["0.0.0.0/0"]`, `["::/0","10.0.0.0/8"]`,
			`["10.0.0.1/8"]`, `["10.0.0.0/33"]`, `["10.0.0.0/8 -j ACCEPT"]`, `["10.0.0.0/8","x"]`, `[""]`, `["x"]`, `[]`, `"10.0.0.0/8"`),
		each("spec.externalIPs", `["203.0.113.9"]`, `["203.0.113.9","203.0.113.9"]`, `["10.96.7.7"]`, `["169.254.1.1"]`, `["::1"]`, `["::ffff:203.0.113.9"]`, `["203.0.113.9/32"]`, `[""]`, `["a"]`, `"203.0.113.9"`, `[null]`),
		each("spec.ports[0].nodePort", `30080`, `0`, `null`), each("spec.ports[1].nodePort", `30080`, `30081`),
		each("spec.sessionAffinity", `"ClientIP"`), each("spec.internalTrafficPolicy", `"Local"`),
		each(ingress, `[]`, `null`, `[{}]`, `{"ip":"203.0.113.9"}`),
		each(ingress+"[0].ip", `"2001:db8::9"`, `"203.0.113"`, `"0203.0.113.9"`, `"127.0.0.1"`, `""`, `"203.0.113.9 "`, `"203.0.113.9\n"`, `9`),
		except(stricter, canonical, ingress+"[0].ip", `"2001:DB8::9"`),
		each(ingress+"[0].ipMode", `"VIP"`, `"Proxy"`, `"Both"`, `""`, `null`, `1`), each(ingress+"[2].ipMode", `"VIP"`),
		each(ingress+"[0].hostname", `"a.example.com"`, `"a_b.example.com"`, `"203.0.113.9"`, `"10.1"`),
		each(ingress+"[0].ports", `[{"port":80,"protocol":"TCP"}]`, `[]`),
		each(ingress+"[0].ipmode", `"VIP"`),
	)
}
