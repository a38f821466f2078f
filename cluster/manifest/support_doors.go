package manifest

import (
	"slices"

	"github.com/toyproxy/toyproxy/cluster"
)

// doorSupport are the rows of Ingress and of the Gateway API.
func doorSupport() []entry {
	return slices.Concat(
		of(cluster.Ingress, ingressSupport()),
		of(cluster.IngressClass, ingressClassSupport()),
		of(cluster.GatewayClass, gatewayClassSupport()),
		of(cluster.Gateway, gatewaySupport()),
		of(cluster.HTTPRoute, routeSupport()),
		of(cluster.HTTPRoute, filterSupport("spec.rules.filters")),
		of(cluster.HTTPRoute, filterSupport("spec.rules.backendRefs.filters")),
		of(cluster.ReferenceGrant, grantSupport()),
	)
}

// statusNote stands by the status of what `toyproxy ingress` serves.
const statusNote = "written by `toyproxy ingress`; what a manifest says of it is not read"

// experimentalNote stands by fields that the standard channel of the Gateway API lacks.
const experimentalNote = "of the experimental channel"

func ingressSupport() []entry {
	return []entry{
		{path: "spec.ingressClassName", standing: honoured, note: "left out, it becomes that of the IngressClass with annotation `ingressclass.kubernetes.io/is-default-class: \"true\"`"},
		{path: "spec.defaultBackend.service", standing: honoured},
		{path: "spec.defaultBackend.resource", standing: ignored, note: "requests get 500"},
		{path: "spec.rules.host", standing: honoured},
		{path: "spec.rules.http.paths.path", standing: honoured},
		{path: "spec.rules.http.paths.pathType", standing: honoured, note: "`ImplementationSpecific` is `Prefix`, or with annotation `use-regex` a regular expression"},
		{path: "spec.rules.http.paths.backend.service", standing: honoured},
		{path: "spec.rules.http.paths.backend.resource", standing: ignored, note: "requests get 500"},
		{path: "spec.tls", standing: honoured},
		{path: "status", standing: kept, note: statusNote},
	}
}

func ingressClassSupport() []entry {
	return []entry{
		{path: "spec.controller", standing: honoured},
		{path: "spec.parameters", standing: ignored, note: "there is nothing to set by them"},
	}
}

func gatewayClassSupport() []entry {
	return []entry{
		{path: "spec.controllerName", standing: honoured},
		{path: "spec.description", standing: kept},
		{path: "spec.parametersRef", standing: ignored, note: "there is nothing to set by them"},
		{path: "status", standing: kept, note: statusNote},
	}
}

func gatewaySupport() []entry {
	return []entry{
		{path: "spec.gatewayClassName", standing: honoured},
		{path: "spec.listeners.name", standing: honoured},
		{path: "spec.listeners.hostname", standing: honoured},
		{path: "spec.listeners.port", standing: honoured},
		{path: "spec.listeners.protocol", standing: ignored, unless: []string{"HTTP", "HTTPS"}, note: "the listener's status says so"},
		{path: "spec.listeners.tls.mode", standing: ignored, unless: []string{"Terminate"}},
		{path: "spec.listeners.tls.certificateRefs", standing: honoured},
		{path: "spec.listeners.tls.options", standing: ignored},
		{path: "spec.listeners.allowedRoutes", standing: honoured},
		{path: "spec.addresses", standing: honoured, note: "chooses among the addresses of the Service of `toyproxy ingress`; others are not to be had"},
		{path: "spec.infrastructure", standing: ignored, note: "nothing is made for a Gateway"},
		{path: "spec.allowedListeners", standing: ignored, note: "there are no ListenerSets here"},
		{path: "spec.tls", standing: ignored, note: "certificates of clients: with `frontend` HTTPS listeners are refused, as nobody would check them"},
		{path: "spec.defaultScope", standing: ignored, note: experimentalNote},
		{path: "status", standing: kept, note: statusNote},
	}
}

func routeSupport() []entry {
	return []entry{
		{path: "spec.parentRefs", standing: honoured},
		{path: "spec.useDefaultGateways", standing: ignored, note: experimentalNote},
		{path: "spec.hostnames", standing: honoured},
		{path: "spec.rules.name", standing: kept},
		{path: "spec.rules.matches", standing: honoured, note: "regular expressions are RE2"},
		{path: "spec.rules.backendRefs.group", standing: honoured},
		{path: "spec.rules.backendRefs.kind", standing: honoured, note: "`Service`; requests to others get 500, and the route's status says so"},
		{path: "spec.rules.backendRefs.name", standing: honoured},
		{path: "spec.rules.backendRefs.namespace", standing: honoured},
		{path: "spec.rules.backendRefs.port", standing: honoured},
		{path: "spec.rules.backendRefs.weight", standing: honoured},
		{path: "spec.rules.timeouts", standing: honoured},
		{path: "spec.rules.retry", standing: ignored, note: experimentalNote},
		{path: "spec.rules.sessionPersistence", standing: ignored, note: experimentalNote},
		{path: "status", standing: kept, note: statusNote},
	}
}

func filterSupport(prefix string) []entry {
	return []entry{
		{path: prefix + ".type", standing: honoured},
		{path: prefix + ".requestHeaderModifier", standing: honoured},
		{path: prefix + ".responseHeaderModifier", standing: honoured},
		{path: prefix + ".requestMirror", standing: honoured},
		{path: prefix + ".requestRedirect", standing: honoured},
		{path: prefix + ".urlRewrite", standing: honoured},
		{path: prefix + ".cors", standing: ignored, note: "requests get 500"},
		{path: prefix + ".externalAuth", standing: ignored, note: experimentalNote + ": requests get 500"},
		{path: prefix + ".extensionRef", standing: ignored, note: "there are no filters but those above: requests get 500"},
	}
}

func grantSupport() []entry {
	return []entry{
		{path: "spec.from", standing: honoured},
		{path: "spec.to", standing: honoured},
	}
}
