package state

import (
	"encoding/json"
	"path/filepath"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/toyproxy/toyproxy/cluster"
)

// RemotePods is the directory of the Pods that other nodes run.
const RemotePods = "remote-pods"

// Directories names the directories below a state directory that hold objects of a
// kind: its plural in lower case and, for Pods, also that of those of other nodes. Of
// two that hold an object of the same name, the first counts.
func Directories(kind cluster.Kind) []string {
	switch kind {
	case cluster.Service:
		return []string{"services"}
	case cluster.Pod:
		return []string{"pods", RemotePods}
	case cluster.EndpointSlice:
		return []string{"endpointslices"}
	case cluster.Node:
		return []string{"nodes"}
	case cluster.Namespace:
		return []string{"namespaces"}
	case cluster.ConfigMap:
		return []string{"configmaps"}
	case cluster.Secret:
		return []string{"secrets"}
	case cluster.Deployment:
		return []string{"deployments"}
	case cluster.ReplicaSet:
		return []string{"replicasets"}
	case cluster.StatefulSet:
		return []string{"statefulsets"}
	case cluster.DaemonSet:
		return []string{"daemonsets"}
	}
	return doorDirectories(kind)
}

func doorDirectories(kind cluster.Kind) []string {
	switch kind {
	case cluster.Ingress:
		return []string{"ingresses"}
	case cluster.IngressClass:
		return []string{"ingressclasses"}
	case cluster.GatewayClass:
		return []string{"gatewayclasses"}
	case cluster.Gateway:
		return []string{"gateways"}
	case cluster.HTTPRoute:
		return []string{"httproutes"}
	case cluster.ReferenceGrant:
		return []string{"referencegrants"}
	}
	return nil
}

// Empty returns a new object of a kind; nil for a kind that is not kept.
func Empty(kind cluster.Kind) metav1.Object {
	switch kind {
	case cluster.Service:
		return &corev1.Service{}
	case cluster.Pod:
		return &corev1.Pod{}
	case cluster.EndpointSlice:
		return &discoveryv1.EndpointSlice{}
	case cluster.Node:
		return &corev1.Node{}
	case cluster.Namespace:
		return &corev1.Namespace{}
	case cluster.ConfigMap:
		return &corev1.ConfigMap{}
	case cluster.Secret:
		return &corev1.Secret{}
	case cluster.Deployment:
		return &appsv1.Deployment{}
	case cluster.ReplicaSet:
		return &appsv1.ReplicaSet{}
	case cluster.StatefulSet:
		return &appsv1.StatefulSet{}
	case cluster.DaemonSet:
		return &appsv1.DaemonSet{}
	}
	return emptyDoor(kind)
}

func emptyDoor(kind cluster.Kind) metav1.Object {
	switch kind {
	case cluster.Ingress:
		return &networkingv1.Ingress{}
	case cluster.IngressClass:
		return &networkingv1.IngressClass{}
	case cluster.GatewayClass:
		return &gatewayv1.GatewayClass{}
	case cluster.Gateway:
		return &gatewayv1.Gateway{}
	case cluster.HTTPRoute:
		return &gatewayv1.HTTPRoute{}
	case cluster.ReferenceGrant:
		return &gatewayv1.ReferenceGrant{}
	}
	return nil
}

// FileName is the name of the file of an object within the directory of its kind.
func FileName(object types.NamespacedName) string {
	return filepath.Base(Dir[metav1.Object]{}.file(object))
}

// Decode reads an object of a kind, and its text, from a file that Dir.Save wrote.
// What is no such object, or belongs into a file of another name, gives a
// *CorruptError; a missing file gives an error that satisfies
// errors.Is(err, fs.ErrNotExist).
func Decode(kind cluster.Kind, path string) (metav1.Object, []byte, error) {
	text, err := readFile(path)
	if err != nil {
		return nil, nil, err
	}
	obj := Empty(kind)
	if err := json.Unmarshal(text, obj); err != nil {
		return nil, nil, &CorruptError{path, err}
	}
	name := types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	if FileName(name) != filepath.Base(path) {
		return nil, nil, &CorruptError{path, misplacedError{name}}
	}
	return obj, text, nil
}

// misplacedError says that a file holds an object that belongs into another.
type misplacedError struct{ name types.NamespacedName }

// Error names the object and its file.
func (e misplacedError) Error() string {
	return "it holds " + e.name.String() + ", whose file is " + FileName(e.name)
}
