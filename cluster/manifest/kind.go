package manifest

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/toyproxy/toyproxy/cluster"
)

const (
	defaultNamespace = "default"
	coreVersion      = "v1"
	discoveryVersion = "discovery.k8s.io/v1"
	appsVersion      = "apps/v1"
	ingressVersion   = "networking.k8s.io/v1"
	gatewayVersion   = "gateway.networking.k8s.io/v1"
	// oldGatewayVersion has the same fields; the CRDs serve it still.
	oldGatewayVersion = "gateway.networking.k8s.io/v1beta1"
)

// object is what all kinds of objects have.
type object interface {
	runtime.Object
	metav1.Object
}

// rules is what is done with an object of one kind.
type rules struct {
	apiVersion string
	// older is another version that is read as if it were apiVersion; mostly none.
	older      string
	namespaced bool
	empty      func() object
	// settle fills in the defaults that depend on nothing but the object.
	settle func(object)
	// check says what the API server would refuse.
	check func(object) field.ErrorList
	// stated are the fields that a manifest must write though an empty value is a
	// good one, "spec.from[].group": in the Go type it is as if it were not written.
	stated []string
}

// rulesOf returns the rules of the kinds this product acts on.
func rulesOf(kind cluster.Kind) (rules, bool) {
	switch kind {
	case cluster.Service:
		return makeRules(coreVersion, true, defaultService, checkService), true
	case cluster.Pod:
		return makeRules(coreVersion, true, defaultPod, checkPod), true
	case cluster.EndpointSlice:
		return makeRules(discoveryVersion, true, defaultEndpointSlice, checkEndpointSlice), true
	case cluster.Node:
		return makeRules(coreVersion, false, defaultNode, checkNode), true
	case cluster.Namespace:
		return makeRules(coreVersion, false, defaultNamespaceObject, checkNamespace), true
	case cluster.ConfigMap:
		return makeRules(coreVersion, true, defaultConfigMap, checkConfigMap), true
	case cluster.Secret:
		return makeRules(coreVersion, true, defaultSecret, checkSecret), true
	}
	if r, ok := doorRules(kind); ok {
		return r, true
	}
	return workloadRules(kind)
}

// doorRules are those of the kinds of Ingress and of the Gateway API.
func doorRules(kind cluster.Kind) (rules, bool) {
	switch kind {
	case cluster.Ingress:
		return makeRules(ingressVersion, true, defaultIngress, checkIngress), true
	case cluster.IngressClass:
		return makeRules(ingressVersion, false, defaultIngressClass, checkIngressClass), true
	case cluster.GatewayClass:
		return gatewayRules(makeRules(gatewayVersion, false, defaultGatewayClass, checkGatewayClass), "spec.parametersRef.group"), true
	case cluster.Gateway:
		return gatewayRules(makeRules(gatewayVersion, true, defaultGateway, checkGateway), "spec.infrastructure.parametersRef.group"), true
	case cluster.HTTPRoute:
		return gatewayRules(makeRules(gatewayVersion, true, defaultHTTPRoute, checkHTTPRoute), "spec", "spec.rules[].filters[].extensionRef.group",
			"spec.rules[].backendRefs[].filters[].extensionRef.group", "spec.rules[].filters[].requestMirror.fraction.numerator",
			"spec.rules[].backendRefs[].filters[].requestMirror.fraction.numerator"), true
	case cluster.ReferenceGrant:
		return gatewayRules(makeRules(gatewayVersion, true, defaultReferenceGrant, checkReferenceGrant), "spec.from[].group", "spec.to[].group"), true
	}
	return rules{}, false
}

// gatewayRules are those of a kind of the Gateway API.
func gatewayRules(r rules, stated ...string) rules {
	r.older, r.stated = oldGatewayVersion, stated
	return r
}

// workloadRules are those of the kinds that make Pods.
func workloadRules(kind cluster.Kind) (rules, bool) {
	switch kind {
	case cluster.Deployment:
		return makeRules(appsVersion, true, defaultDeployment, checkDeployment), true
	case cluster.ReplicaSet:
		return makeRules(appsVersion, true, defaultReplicaSet, checkReplicaSet), true
	case cluster.StatefulSet:
		return makeRules(appsVersion, true, defaultStatefulSet, checkStatefulSet), true
	case cluster.DaemonSet:
		return makeRules(appsVersion, true, defaultDaemonSet, checkDaemonSet), true
	}
	return rules{}, false
}

// makeRules hides the Go type of one kind behind the interface of all.
func makeRules[T any, P interface {
	*T
	object
}](apiVersion string, namespaced bool, settle func(P), check func(P) field.ErrorList) rules {
	return rules{
		apiVersion: apiVersion,
		namespaced: namespaced,
		empty:      func() object { return P(new(T)) },
		settle:     func(o object) { settle(o.(P)) },
		check:      func(o object) field.ErrorList { return check(o.(P)) },
	}
}

// scheme knows the types of those kinds and no others, for the strict decoder.
func scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	s.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Service{}, &corev1.Pod{}, &corev1.Node{}, &corev1.Namespace{},
		&corev1.ConfigMap{}, &corev1.Secret{})
	s.AddKnownTypes(appsv1.SchemeGroupVersion, &appsv1.Deployment{}, &appsv1.ReplicaSet{}, &appsv1.StatefulSet{}, &appsv1.DaemonSet{})
	s.AddKnownTypes(discoveryv1.SchemeGroupVersion, &discoveryv1.EndpointSlice{})
	s.AddKnownTypes(networkingv1.SchemeGroupVersion, &networkingv1.Ingress{}, &networkingv1.IngressClass{})
	for _, version := range []string{gatewayVersion, oldGatewayVersion} {
		s.AddKnownTypes(schema.FromAPIVersionAndKind(version, "").GroupVersion(),
			&gatewayv1.GatewayClass{}, &gatewayv1.Gateway{}, &gatewayv1.HTTPRoute{}, &gatewayv1.ReferenceGrant{})
	}
	return s
}

// pick returns the rules for an object as written, or the problem with its
// apiVersion and kind. Kinds that nothing acts on give a warning.
func pick(r raw) (rules, *cluster.Problem) {
	var p cluster.Problem
	rules, ours := rulesOf(cluster.Kind(r.kind))
	switch group := groupOf(r.apiVersion); {
	case r.kind == "":
		p = r.problem("kind", "kind is missing, so what this object is cannot be told; add kind: Service, say")
	case r.apiVersion == "" && ours:
		p = r.problem("apiVersion", fmt.Sprintf("apiVersion is missing; add apiVersion: %s", rules.apiVersion))
	case r.apiVersion == "":
		p = r.problem("apiVersion", "apiVersion is missing; add it")
	case r.apiVersion == rules.apiVersion, ours && r.apiVersion == rules.older:
		return rules, nil
	case ours && group == groupOf(rules.apiVersion):
		p = r.problem("apiVersion", fmt.Sprintf("%s has no %s; write apiVersion: %s", r.apiVersion, r.kind, rules.apiVersion))
	case r.kind == "Endpoints" && group == "":
		p = r.warning("kind", "kind Endpoints is not acted on; write an EndpointSlice, which took its place in Kubernetes 1.21")
	default:
		p = r.warning("kind", fmt.Sprintf("kind %s of %s is not acted on; the object is skipped", r.kind, r.apiVersion))
	}
	return rules, &p
}

func groupOf(apiVersion string) string {
	group, _, grouped := strings.Cut(apiVersion, "/")
	if !grouped {
		return ""
	}
	return group
}
