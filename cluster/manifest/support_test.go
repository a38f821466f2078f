package manifest

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/toyproxy/toyproxy/cluster"
)

func TestSupportDocument(t *testing.T) {
	// What passes of the Gateway API's conformance tests is written by those who run them.
	passes, err := os.ReadFile(filepath.Join("..", "..", "test", "gateway", "passes.md"))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, filepath.Join("..", "..", "docs", "support.md"), SupportDocument()+string(passes))
}

// TestSupportCoversTheAPI requires an entry for each field that the Go types of
// the API have, so that none is silently ignored.
func TestSupportCoversTheAPI(t *testing.T) {
	s := newSupport()
	for kind, obj := range map[cluster.Kind]any{
		cluster.Service: corev1.Service{}, cluster.EndpointSlice: discoveryv1.EndpointSlice{}, cluster.Pod: corev1.Pod{},
		cluster.Node: corev1.Node{}, cluster.Namespace: corev1.Namespace{}, cluster.ConfigMap: corev1.ConfigMap{}, cluster.Secret: corev1.Secret{},
		cluster.Deployment: appsv1.Deployment{}, cluster.ReplicaSet: appsv1.ReplicaSet{}, cluster.StatefulSet: appsv1.StatefulSet{}, cluster.DaemonSet: appsv1.DaemonSet{},
		cluster.Ingress: networkingv1.Ingress{}, cluster.IngressClass: networkingv1.IngressClass{}, cluster.GatewayClass: gatewayv1.GatewayClass{},
		cluster.Gateway: gatewayv1.Gateway{}, cluster.HTTPRoute: gatewayv1.HTTPRoute{}, cluster.ReferenceGrant: gatewayv1.ReferenceGrant{},
	} {
		for _, path := range uncovered(reflect.TypeOf(obj), s[kind], "") {
			t.Errorf("%s: field %s has no entry in the support table", kind, path)
		}
	}
}

// uncovered descends along entries only: an entry speaks of all below it.
func uncovered(t reflect.Type, n *supportNode, path string) (missing []string) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if n == nil {
		return []string{path}
	}
	if n.entry != nil || t.Kind() != reflect.Struct {
		return nil
	}
	for name, ft := range jsonFields(t) {
		missing = append(missing, uncovered(ft, n.children[name], strings.TrimPrefix(path+"."+name, "."))...)
	}
	return missing
}

// TestSupportTableIsReal requires every path of the table to be a field.
func TestSupportTableIsReal(t *testing.T) {
	types := map[cluster.Kind]reflect.Type{
		"": reflect.TypeFor[corev1.Pod](), cluster.Service: reflect.TypeFor[corev1.Service](), cluster.EndpointSlice: reflect.TypeFor[discoveryv1.EndpointSlice](),
		cluster.Pod: reflect.TypeFor[corev1.Pod](), cluster.Node: reflect.TypeFor[corev1.Node](), cluster.Namespace: reflect.TypeFor[corev1.Namespace](),
		cluster.ConfigMap: reflect.TypeFor[corev1.ConfigMap](), cluster.Secret: reflect.TypeFor[corev1.Secret](),
		cluster.Deployment: reflect.TypeFor[appsv1.Deployment](), cluster.ReplicaSet: reflect.TypeFor[appsv1.ReplicaSet](),
		cluster.StatefulSet: reflect.TypeFor[appsv1.StatefulSet](), cluster.DaemonSet: reflect.TypeFor[appsv1.DaemonSet](),
		cluster.Ingress: reflect.TypeFor[networkingv1.Ingress](), cluster.IngressClass: reflect.TypeFor[networkingv1.IngressClass](),
		cluster.GatewayClass: reflect.TypeFor[gatewayv1.GatewayClass](), cluster.Gateway: reflect.TypeFor[gatewayv1.Gateway](),
		cluster.HTTPRoute: reflect.TypeFor[gatewayv1.HTTPRoute](), cluster.ReferenceGrant: reflect.TypeFor[gatewayv1.ReferenceGrant](),
	}
	seen := map[string]bool{}
	for _, e := range supportTable() {
		at := types[e.kind]
		for name := range strings.SplitSeq(e.path, ".") {
			for at.Kind() == reflect.Pointer || at.Kind() == reflect.Slice {
				at = at.Elem()
			}
			next, ok := jsonFields(at)[name]
			if !ok {
				t.Fatalf("%s: %s is no field of the API", e.kind, e.path)
			}
			at = next
		}
		if key := string(e.kind) + " " + e.path; seen[key] {
			t.Errorf("%s stands twice in the table", key)
		} else {
			seen[key] = true
		}
	}
}

func TestWarnings(t *testing.T) {
	r := loadText(t, `apiVersion: v1
kind: Pod
metadata:
  name: web
  finalizers: []
spec:
  restartPolicy: Always
  dnsPolicy: Default
  terminationGracePeriodSeconds: 2
  hostNetwork: false
  nodeSelector: {}
  containers:
  - name: a
    image: nginx
    ports: [{containerPort: 80}, {containerPort: 81, hostPort: 81}]
    livenessProbe: {tcpSocket: {port: 80}}
    env: [{name: A, value: b}]
  - name: b
    image: nginx
    livenessProbe: {tcpSocket: {port: 80}}
    workingDir: /tmp
    env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: B, valueFrom: {configMapKeyRef: {name: c, key: k}}}]
    resources: {limits: {cpu: 1}}
  initContainers: [{name: i, image: i, stdin: true, tty: false}]
  securityContext: {runAsUser: 1, seccompProfile: {type: Unconfined}}
  volumes: [{name: v, emptyDir: {}}, {name: w, nfs: {server: a, path: /b}}]
---
apiVersion: v1
kind: Service
metadata: {name: web, annotations: {a: b}}
spec: {type: LoadBalancer, externalTrafficPolicy: Local, loadBalancerIP: 203.0.113.9, loadBalancerSourceRanges: [192.0.2.0/24], ports: [{port: 80, nodePort: 30080}], healthCheckNodePort: 30081}
status: {loadBalancer: {ingress: [{ip: 203.0.113.9}]}}
`)
	want := `warning: -:15:64: Pod default/web: spec.containers[0].ports[1].hostPort: accepted, not acted on yet
warning: -:23:5: Pod default/web: spec.containers[1].resources: accepted, not acted on
warning: -:24:47: Pod default/web: spec.initContainers[0].stdin: accepted, not acted on
warning: -:25:35: Pod default/web: spec.securityContext.seccompProfile: accepted, not acted on: seccomp, AppArmor, SELinux and the like
warning: -:26:48: Pod default/web: spec.volumes[1].nfs: accepted, not acted on: volumes of any other kind: a container that mounts one is not started
warning: -:31:74: Service default/web: spec.loadBalancerIP: accepted, not acted on: deprecated, and nobody here gives out such addresses; write status.loadBalancer.ingress
`
	if diff := cmp.Diff(want, lines(r.Problems)); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	if len(r.Objects.Pods) != 1 || len(r.Objects.Services) != 1 {
		t.Error("a warning must not leave an object out")
	}
}
