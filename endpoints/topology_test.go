package endpoints_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/endpoints"
)

func newNode(name, zone string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if zone != "" {
		n.Labels = labels{corev1.LabelTopologyZone: zone}
	}
	return n
}

func on(node string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = node } }

func distribute(how string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.TrafficDistribution = &how }
}

// where renders the topology of endpoints: "10.0.0.1 in z1 for z1 n:n1".
func where(all []*discoveryv1.EndpointSlice) []string {
	var out []string
	for _, s := range all {
		for _, e := range s.Endpoints {
			text := e.Addresses[0]
			if e.Zone != nil {
				text += " in " + *e.Zone
			}
			if e.Hints != nil {
				text += " for"
				for _, z := range e.Hints.ForZones {
					text += " " + z.Name
				}
				for _, n := range e.Hints.ForNodes {
					text += " n:" + n.Name
				}
			}
			out = append(out, text)
		}
	}
	return out
}

// Field trafficDistribution becomes hints, from the labels of Nodes.
func TestTrafficDistribution(t *testing.T) {
	objects := []any{
		newNode("n1", "z1"), newNode("n2", ""),
		newPod("a", "10.0.0.1", web, on("n1")), newPod("b", "10.0.0.2", web, on("n2")), newPod("c", "10.0.0.3", web),
		newPod("d", "10.0.0.4", web, on("n1"), ready(corev1.ConditionFalse)), newPod("e", "10.0.0.5", web, on("n1"), ready(corev1.ConditionTrue), terminating),
	}
	zone := []string{"10.0.0.1 in z1 for z1", "10.0.0.2", "10.0.0.3", "10.0.0.4 in z1", "10.0.0.5 in z1"}
	for _, tc := range []struct {
		name string
		edit func(*corev1.Service)
		want []string
	}{
		{"not set", func(*corev1.Service) {}, []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"}},
		{"PreferClose", distribute("PreferClose"), zone},
		{"PreferSameZone", distribute("PreferSameZone"), zone},
		{"PreferSameNode", distribute("PreferSameNode"), []string{"10.0.0.1 in z1 for z1 n:n1", "10.0.0.2 for n:n2", "10.0.0.3", "10.0.0.4 in z1", "10.0.0.5 in z1"}},
		{"unknown", distribute("PreferFar"), []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			x := indexOf(append(objects, newService("web", web, tc.edit))...)
			equal(t, "endpoints", where(x.Resolve(key("default", "web"))), tc.want)
		})
	}
}

// A Node's zone concerns the Services that distribute and have a Pod there.
func TestSetNodeAffects(t *testing.T) {
	a, b := labels{"app": "a"}, labels{"app": "b"}
	x := indexOf(
		newPod("a", "10.0.0.1", a, on("n1")), newPod("b", "10.0.0.2", b, on("n2")), newPod("gone", "10.0.0.3", b, on("n1"), phase(corev1.PodFailed)),
		newService("near", a, distribute("PreferClose")), newService("plain", a), newService("elsewhere", b, distribute("PreferClose")),
		newService("given", nil, distribute("PreferClose")))
	equal(t, "new", names(x.SetNode(newNode("n1", "z1"))), []string{"near"})
	equal(t, "the same zone", names(x.SetNode(newNode("n1", "z1"))), nil)
	equal(t, "without Pods", names(x.SetNode(newNode("n9", "z1"))), nil)
	resolved := func() []string { return where(x.Resolve(key("default", "near"))) }
	equal(t, "endpoints", resolved(), []string{"10.0.0.1 in z1 for z1"})
	equal(t, "another zone", names(x.SetNode(newNode("n1", "z2"))), []string{"near"})
	equal(t, "endpoints", resolved(), []string{"10.0.0.1 in z2 for z2"})
	equal(t, "deleted", names(x.DeleteNode("n1")), []string{"near"})
	equal(t, "endpoints", resolved(), []string{"10.0.0.1"})
	equal(t, "deleted twice", names(x.DeleteNode("n1")), nil)
	x.SetService(newService("near", a))
	equal(t, "distributes no more", names(x.SetNode(newNode("n1", "z3"))), nil)
	x.DeleteService(key("default", "elsewhere"))
	equal(t, "a deleted Service", names(x.SetNode(newNode("n2", "z3"))), nil)
}

// However many Services there are, a Node's zone is the business of few.
func TestOneChangedZoneTouchesOnlyItsServices(t *testing.T) {
	x := endpoints.New()
	for i := range 1000 {
		app := labels{"app": fmt.Sprint(i)}
		x.SetPod(newPod(fmt.Sprint("p", i), "10.0.0.1", app, on("n1")))
		x.SetService(newService(fmt.Sprint("s", i), app))
	}
	x.SetService(newService("near", labels{"app": "7"}, distribute("PreferSameZone")))
	before := x.Stats()
	equal(t, "changed", names(x.SetNode(newNode("n1", "z1"))), []string{"near"})
	if visited := x.Stats().Visited - before.Visited; visited != 1 {
		t.Errorf("looked at %d Services", visited)
	}
}

func TestApplyFollowsNodes(t *testing.T) {
	store, x := cluster.NewStore(), endpoints.New()
	objs := cluster.Objects{
		Services: []*corev1.Service{newService("web", web, distribute("PreferClose"))},
		Pods:     []*corev1.Pod{newPod("p", "10.0.0.1", web, on("n1"))},
		Nodes:    []*corev1.Node{newNode("n1", "z1")},
	}
	x.Apply(store.Replace(objs))
	equal(t, "endpoints", where(x.Resolve(key("default", "web"))), []string{"10.0.0.1 in z1 for z1"})
	objs.Nodes = nil
	equal(t, "changed", names(x.Apply(store.Replace(objs))), []string{"web"})
	equal(t, "endpoints", where(x.Resolve(key("default", "web"))), []string{"10.0.0.1"})
}
