package manifest

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/toyproxy/toyproxy/cluster"
)

const (
	defaultNamespace = "default"
	coreVersion      = "v1"
	discoveryVersion = "discovery.k8s.io/v1"
	appsVersion      = "apps/v1"
)

// object is what all kinds of objects have.
type object interface {
	runtime.Object
	metav1.Object
}

// rules is what is done with an object of one kind.
type rules struct {
	apiVersion string
	namespaced bool
	empty      func() object
	// settle fills in the defaults that depend on nothing but the object.
	settle func(object)
	// check says what the API server would refuse.
	check func(object) field.ErrorList
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
	return workloadRules(kind)
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
	case r.apiVersion == rules.apiVersion:
		return rules, nil
	case ours && group == groupOf(rules.apiVersion):
		p = r.problem("apiVersion", fmt.Sprintf("%s has no %s; write apiVersion: %s", r.apiVersion, r.kind, rules.apiVersion))
	case r.kind == "Endpoints" && group == "":
		p = r.warning("kind", "kind Endpoints is not acted on; write an EndpointSlice, which took its place in Kubernetes 1.21")
	case isComing(r.kind, group):
		p = r.warning("kind", fmt.Sprintf("kind %s is not acted on yet; the object is skipped", r.kind))
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

// isComing reports whether a later version will act on the kind.
func isComing(kind, group string) bool {
	return (kind == "Ingress" || kind == "IngressClass") && group == "networking.k8s.io"
}
