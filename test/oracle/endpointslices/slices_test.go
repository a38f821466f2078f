package endpointslices

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/endpointslice"
	"k8s.io/endpointslice/metrics"
	"k8s.io/endpointslice/util"
	"k8s.io/klog/v2"
	"pgregory.net/rapid"

	"github.com/toyproxy/toyproxy/endpoints"
)

// anyNode has every node: upstream leaves out Pods of nodes it does not know.
type anyNode struct{}

func (anyNode) List(labels.Selector) ([]*corev1.Node, error) { return nil, nil }

func (anyNode) Get(name string) (*corev1.Node, error) {
	return theNode(name), nil
}

// theNode of name n1 is in zone z1, others are in none.
func theNode(name string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if name == "n1" {
		n.Labels = map[string]string{corev1.LabelTopologyZone: "z1"}
	}
	return n
}

// controller is the reconciler of a cluster's EndpointSlice controller, with an
// API server that only takes note of what is created.
type controller struct {
	reconciler *endpointslice.Reconciler
	created    []*discoveryv1.EndpointSlice
}

func newController() *controller {
	c, client := &controller{}, &fake.Clientset{}
	client.AddReactor("create", "endpointslices", func(action clienttesting.Action) (bool, runtime.Object, error) {
		created := action.(clienttesting.CreateAction).GetObject().(*discoveryv1.EndpointSlice)
		created.Name = fmt.Sprintf("%s%d", created.GenerateName, len(c.created))
		c.created = append(c.created, created)
		return true, created, nil
	})
	c.reconciler = endpointslice.NewReconciler(client, anyNode{}, 100, util.NewEndpointSliceTracker(), nil, record.NewFakeRecorder(100), endpoints.ManagedBy,
		endpointslice.WithPreferSameTrafficDistributionEnabled(true))
	return c
}

// slices are those that the controller creates for a new Service.
func (c *controller) slices(t *rapid.T, svc *corev1.Service, pods []*corev1.Pod) []*discoveryv1.EndpointSlice {
	c.created = nil
	if err := c.reconciler.Reconcile(klog.Background(), svc, pods, nil, time.Time{}); err != nil {
		t.Fatal(err)
	}
	return c.created
}

// lines describes slices without names and order: for each slice its family,
// size, ports, labels and owner, and for each endpoint all it says; its zone
// only when the Service distributes its traffic, since ours has none otherwise.
func lines(svc *corev1.Service, all []*discoveryv1.EndpointSlice) []string {
	var out []string
	for _, s := range all {
		var ports []string
		for _, p := range s.Ports {
			ports = append(ports, fmt.Sprintf("%s/%s/%d/%v", *p.Name, *p.Protocol, *p.Port, deref(p.AppProtocol)))
		}
		slices.Sort(ports)
		head := fmt.Sprintf("%s %s", s.AddressType, strings.Join(ports, ","))
		owner := s.OwnerReferences[0]
		out = append(out, fmt.Sprintf("%s: %d endpoints, %v, %s %s %s %t", head, len(s.Endpoints), s.Labels, owner.APIVersion, owner.Kind, owner.Name, *owner.Controller))
		for _, e := range s.Endpoints {
			c := e.Conditions
			out = append(out, fmt.Sprintf("%s: %v %t %t %t host=%v node=%v %s/%s/%s", head, e.Addresses, *c.Ready, *c.Serving, *c.Terminating,
				deref(e.Hostname), deref(e.NodeName), e.TargetRef.Kind, e.TargetRef.Namespace, e.TargetRef.Name)+topology(svc, e))
		}
	}
	slices.Sort(out)
	return out
}

func topology(svc *corev1.Service, e discoveryv1.Endpoint) string {
	text := ""
	if svc.Spec.TrafficDistribution != nil {
		text = " zone=" + deref(e.Zone)
	}
	if e.Hints != nil {
		text += fmt.Sprintf(" hints=%v%v", e.Hints.ForZones, e.Hints.ForNodes)
	}
	return text
}

func deref(s *string) string {
	if s == nil {
		return "<nil>"
	}
	return *s
}

func drawTarget(t *rapid.T, name string) corev1.ServicePort {
	p := corev1.ServicePort{
		Name: name, Port: 80, Protocol: rapid.SampledFrom([]corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP}).Draw(t, "protocol"),
		TargetPort: rapid.SampledFrom([]intstr.IntOrString{intstr.FromInt32(8080), intstr.FromString("web"), intstr.FromString("dns")}).Draw(t, "target"),
	}
	if rapid.Bool().Draw(t, "appProtocol") {
		p.AppProtocol = new("kubernetes.io/h2c")
	}
	return p
}

func drawService(t *rapid.T) *corev1.Service {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "svc", Labels: map[string]string{"team": "a"}},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"}, PublishNotReadyAddresses: rapid.Bool().Draw(t, "publish"),
			TrafficDistribution: rapid.SampledFrom([]*string{nil, new(corev1.ServiceTrafficDistributionPreferClose),
				new(corev1.ServiceTrafficDistributionPreferSameZone), new(corev1.ServiceTrafficDistributionPreferSameNode)}).Draw(t, "distribution"),
			ClusterIP:  rapid.SampledFrom([]string{"10.96.0.10", "fd00::10", "None"}).Draw(t, "clusterIP"),
			IPFamilies: rapid.SampledFrom([][]corev1.IPFamily{nil, {"IPv4"}, {"IPv6"}, {"IPv4", "IPv6"}}).Draw(t, "families"),
		},
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "ports") {
		svc.Spec.Ports = append(svc.Spec.Ports, drawTarget(t, fmt.Sprintf("p%d", i)))
	}
	if len(svc.Spec.Ports) == 0 {
		svc.Spec.ClusterIP = "None" // only headless Services may have none
	}
	return svc
}

func drawPod(t *rapid.T, i int) *corev1.Pod {
	always := corev1.ContainerRestartPolicyAlways
	container := func() corev1.Container {
		return corev1.Container{
			RestartPolicy: rapid.SampledFrom([]*corev1.ContainerRestartPolicy{nil, &always}).Draw(t, "restart"),
			Ports: []corev1.ContainerPort{{
				Name:          rapid.SampledFrom([]string{"web", "dns", "x"}).Draw(t, "port"),
				ContainerPort: rapid.Int32Range(8080, 8082).Draw(t, "number"),
				Protocol:      rapid.SampledFrom([]corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP}).Draw(t, "protocol"),
			}},
		}
	}
	four, six := fmt.Sprintf("10.244.%d.%d", i/200, i%200+1), fmt.Sprintf("fd00:10:244::%x", i+1)
	ips := rapid.SampledFrom([][]string{{four}, {six}, {four, six}, {six, four}, nil}).Draw(t, "addresses")
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("p%03d", i), Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{
			NodeName: rapid.SampledFrom([]string{"", "n1", "n2"}).Draw(t, "node"), HostNetwork: rapid.Bool().Draw(t, "hostNetwork"),
			Hostname: rapid.SampledFrom([]string{"", "h"}).Draw(t, "hostname"), Subdomain: rapid.SampledFrom([]string{"", "web", "other"}).Draw(t, "subdomain"),
			Containers: []corev1.Container{container()}, InitContainers: []corev1.Container{container()},
		},
		Status: corev1.PodStatus{
			Phase: rapid.SampledFrom([]corev1.PodPhase{"", corev1.PodPending, corev1.PodRunning, corev1.PodRunning, corev1.PodFailed, corev1.PodSucceeded}).Draw(t, "phase"),
			Conditions: []corev1.PodCondition{{
				Type:   rapid.SampledFrom([]corev1.PodConditionType{corev1.PodReady, corev1.PodReady, corev1.PodScheduled}).Draw(t, "condition"),
				Status: rapid.SampledFrom([]corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown}).Draw(t, "status"),
			}},
		},
	}
	for _, ip := range ips {
		p.Status.PodIP = ips[0]
		p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: ip})
	}
	if rapid.IntRange(0, 3).Draw(t, "terminating") == 0 {
		p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	}
	return p
}

// Package endpoints makes the slices that the EndpointSlice controller of a
// cluster makes, but for names and for the order of endpoints.
func TestEndpointSlicesAreThoseOfTheController(t *testing.T) {
	metrics.RegisterMetrics()
	upstream := newController()
	rapid.Check(t, func(t *rapid.T) {
		svc := drawService(t)
		x := endpoints.New()
		x.SetService(svc)
		x.SetNode(theNode("n1"))
		var pods []*corev1.Pod
		// Mostly few Pods; copies of the last make the slices overflow.
		for i := range rapid.IntRange(0, 6).Draw(t, "pods") {
			pods = append(pods, drawPod(t, i))
		}
		if len(pods) > 0 && rapid.IntRange(0, 4).Draw(t, "overflow") == 0 {
			for i := range rapid.IntRange(80, 250).Draw(t, "copies") {
				p := pods[len(pods)-1].DeepCopy()
				p.Name = fmt.Sprintf("copy%03d", i)
				pods = append(pods, p)
			}
		}
		for _, p := range pods {
			x.SetPod(p)
		}
		want, got := lines(svc, upstream.slices(t, svc, pods)), lines(svc, x.Resolve(types.NamespacedName{Namespace: "default", Name: "web"}))
		if !slices.Equal(want, got) {
			t.Fatalf("controller:\n%s\nendpoints:\n%s", strings.Join(want, "\n"), strings.Join(got, "\n"))
		}
	})
}
