package endpoints_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/endpoints"
)

// A selector matches a Pod whose labels are a superset of it; the four Pods are
// the quiz of the lesson.
func TestSupersetRule(t *testing.T) {
	x := indexOf(
		newPod("p1", "10.0.0.1", labels{"app": "payments", "env": "prod", "version": "v2"}),
		newPod("p2", "10.0.0.2", labels{"app": "payments", "env": "staging"}),
		newPod("p3", "10.0.0.3", labels{"app": "payments", "env": "prod"}),
		newPod("p4", "10.0.0.4", labels{"app": "billing", "env": "prod"}),
		newPod("p5", "10.0.0.5", nil),
	)
	for _, tc := range []struct {
		name     string
		selector labels
		edit     func(*corev1.Service)
		want     []string
	}{
		{name: "both pairs", selector: labels{"app": "payments", "env": "prod"}, want: []string{"p1", "p3"}},
		{name: "one pair", selector: labels{"app": "payments"}, want: []string{"p1", "p2", "p3"}},
		{name: "only the new version", selector: labels{"app": "payments", "version": "v2"}, want: []string{"p1"}},
		{name: "known pairs on no one Pod", selector: labels{"app": "billing", "env": "staging"}},
		{name: "unknown value", selector: labels{"app": "pay"}},
		{name: "key as value", selector: labels{"payments": "app"}},
		{name: "empty value is a value", selector: labels{"app": ""}},
		{name: "nil selects nothing", selector: nil},
		{name: "empty selects nothing", selector: labels{}},
		{name: "another namespace", selector: labels{"app": "payments"}, edit: func(s *corev1.Service) { s.Namespace = "other" }},
		{name: "an alias selects nothing", selector: labels{"app": "payments"},
			edit: func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			svc := newService("svc", tc.selector)
			if tc.edit != nil {
				tc.edit(svc)
			}
			x.SetService(svc)
			defer x.DeleteService(key(svc.Namespace, "svc"))
			var got []string
			for p := range x.Selected(key(svc.Namespace, "svc")) {
				got = append(got, p.Name)
			}
			if len(got) != len(tc.want) {
				t.Fatalf("selected %v, want %v", got, tc.want)
			}
			if svc.Namespace == "default" {
				equal(t, "selected", selected(x, "svc"), tc.want)
			}
		})
	}
}

// What a Pod's change affects: Services of the old labels and of the new.
func TestSetPodAffects(t *testing.T) {
	a, b := labels{"app": "a"}, labels{"app": "b"}
	base := newPod("p", "10.0.0.1", a, ready(corev1.ConditionTrue))
	for _, tc := range []struct {
		name string
		next *corev1.Pod
		want []string
	}{
		{"nothing an endpoint shows", newPod("p", "10.0.0.1", a, ready(corev1.ConditionTrue), phase(corev1.PodRunning)), nil},
		{"readiness", newPod("p", "10.0.0.1", a, ready(corev1.ConditionFalse)), []string{"a", "both"}},
		{"address", newPod("p", "10.0.0.9", a, ready(corev1.ConditionTrue)), []string{"a", "both"}},
		{"second address", newPod("p", "10.0.0.1", a, ready(corev1.ConditionTrue), addrs("10.0.0.1", "fd00::1")), []string{"a", "both"}},
		{"terminating", newPod("p", "10.0.0.1", a, ready(corev1.ConditionTrue), terminating), []string{"a", "both"}},
		{"succeeded", newPod("p", "10.0.0.1", a, ready(corev1.ConditionTrue), phase(corev1.PodSucceeded)), []string{"a", "both"}},
		{"a container port", newPod("p", "10.0.0.1", a, ready(corev1.ConditionTrue), containerPort("x", 1, "TCP")), []string{"a", "both"}},
		{"host name", newPod("p", "10.0.0.1", a, ready(corev1.ConditionTrue), func(p *corev1.Pod) { p.Spec.Hostname = "h" }), []string{"a", "both"}},
		{"subdomain", newPod("p", "10.0.0.1", a, ready(corev1.ConditionTrue), func(p *corev1.Pod) { p.Spec.Subdomain = "a" }), []string{"a", "both"}},
		{"node", newPod("p", "10.0.0.1", a, ready(corev1.ConditionTrue), func(p *corev1.Pod) { p.Spec.NodeName = "n1" }), []string{"a", "both"}},
		{"another Pod of the name", newPod("p", "10.0.0.1", a, ready(corev1.ConditionTrue), func(p *corev1.Pod) { p.UID = "2" }), []string{"a", "both"}},
		{"other labels", newPod("p", "10.0.0.1", b, ready(corev1.ConditionTrue)), []string{"a", "b", "both"}},
		{"one more label", newPod("p", "10.0.0.1", labels{"app": "a", "tier": "web"}, ready(corev1.ConditionTrue)), []string{"a", "both", "tier"}},
		{"labels gone", newPod("p", "10.0.0.1", nil, ready(corev1.ConditionTrue)), []string{"a", "both"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			x := indexOf(newService("a", a), newService("both", a), newService("b", b), newService("tier", labels{"tier": "web"}), base)
			equal(t, "affected", names(x.SetPod(tc.next)), tc.want)
		})
	}
	t.Run("deleted", func(t *testing.T) {
		x := indexOf(newService("a", a), base)
		equal(t, "affected", names(x.DeletePod(key("default", "p"))), []string{"a"})
		equal(t, "affected again", names(x.DeletePod(key("default", "p"))), nil)
	})
	t.Run("without an address nobody is affected", func(t *testing.T) {
		x := indexOf(newService("a", a))
		equal(t, "set", names(x.SetPod(newPod("p", "", a))), nil)
		equal(t, "relabelled", names(x.SetPod(newPod("p", "", b))), nil)
		equal(t, "relabelled back", names(x.SetPod(newPod("p", "", a))), nil)
		equal(t, "given an address", names(x.SetPod(newPod("p", "10.0.0.1", a))), []string{"a"})
	})
}

func names(keys []types.NamespacedName) []string {
	var out []string
	for _, k := range keys {
		out = append(out, k.Name)
	}
	return out
}

// One changed Pod touches only the Services that select it, among 10,000 that
// have a label in common with it, whether Services or Pods come first.
func TestOneChangedPodTouchesOnlyItsServices(t *testing.T) {
	for _, servicesFirst := range []bool{true, false} {
		t.Run(fmt.Sprintf("servicesFirst=%t", servicesFirst), func(t *testing.T) {
			x := endpoints.New()
			var objects []any
			for i := range 10_000 {
				app := fmt.Sprintf("app-%d", i)
				with := labels{"app": app, "all": "web"}
				objects = append(objects, newService(app, with), newPod(app, fmt.Sprintf("10.0.%d.%d", i/256, i%256), with))
			}
			for pass := range 2 {
				for i := range objects {
					if isService(objects[i]) == (servicesFirst == (pass == 0)) {
						set(x, objects[i])
					}
				}
			}
			x.SetService(newService("second", labels{"app": "app-7"}))
			resolveAll(x, objects)
			before := x.Stats()
			if before.Visited > 50_000 {
				t.Errorf("filling the index looked at %d Services", before.Visited)
			}
			changed := x.SetPod(newPod("app-7", "10.0.0.7", labels{"app": "app-7", "all": "web"}, ready(corev1.ConditionFalse)))
			equal(t, "changed", names(changed), []string{"app-7", "second"})
			resolveAll(x, objects)
			after := x.Stats()
			if affected, built := after.Affected-before.Affected, after.Built-before.Built; affected != 2 || built != 2 {
				t.Errorf("affected %d and built %d Services, want 2 and 2", affected, built)
			}
			// The label all have in common may file a Service or two, never many.
			if visited := after.Visited - before.Visited; visited > 4 {
				t.Errorf("looked at %d Services", visited)
			}
		})
	}
}

func isService(object any) bool {
	_, ok := object.(*corev1.Service)
	return ok
}

func resolveAll(x *endpoints.Index, objects []any) {
	for _, o := range objects {
		if s, ok := o.(*corev1.Service); ok {
			x.Resolve(key(s.Namespace, s.Name))
		}
	}
	x.Resolve(key("default", "second"))
}

// A label that was rare when Services came may become common. They move.
func TestServicesMoveToTheirRarestLabel(t *testing.T) {
	x := endpoints.New()
	for i := range 1000 {
		// tier=web is carried by one Pod at first, each app by two.
		app := fmt.Sprintf("app-%d", i)
		x.SetPod(newPod(app+"-a", "10.0.0.1", labels{"app": app}))
		x.SetPod(newPod(app+"-b", "10.0.0.1", labels{"app": app}))
		x.SetService(newService(app, labels{"app": app, "tier": "web"}))
	}
	for i := range 100 {
		x.SetPod(newPod(fmt.Sprintf("new-%d", i), "10.0.0.1", labels{"tier": "web"}))
	}
	before := x.Stats().Visited
	x.SetPod(newPod("last", "10.0.0.1", labels{"tier": "web"}))
	if visited := x.Stats().Visited - before; visited != 0 {
		t.Errorf("a Pod that no Service selects made %d Services be looked at", visited)
	}
}

// Label values such as template hashes come and go for ever.
func TestIndexForgets(t *testing.T) {
	x := endpoints.New()
	for i := range 100 {
		x.SetService(newService("s", labels{"hash": fmt.Sprint(i)}))
		x.SetPod(newPod("p", "10.0.0.1", labels{"hash": fmt.Sprint(i), "app": "a"}))
	}
	if got := x.Labels(); got != 2 {
		t.Errorf("%d labels are remembered, want 2", got)
	}
	x.DeleteService(key("default", "s"))
	x.DeletePod(key("default", "p"))
	if got := x.Labels(); got != 0 {
		t.Errorf("%d labels are remembered by an empty index", got)
	}
}

func TestSlicesAsGiven(t *testing.T) {
	x := indexOf(newService("web", nil), newSlice("web-b", "web", "10.0.0.2"), newSlice("web-a", "web", "10.0.0.1"), newSlice("stray", "", "10.0.0.9"))
	web := key("default", "web")
	equal(t, "by name", show(x.Resolve(web)), []string{"IPv4 10.0.0.1 ---", "IPv4 10.0.0.2 ---"})
	before := x.Resolve(web)
	equal(t, "moved to another Service", names(x.SetSlice(newSlice("web-a", "api", "10.0.0.1"))), []string{"web", "api"})
	equal(t, "what remains", show(x.Resolve(web)), []string{"IPv4 10.0.0.2 ---"})
	equal(t, "results already handed out stay", show(before), []string{"IPv4 10.0.0.1 ---", "IPv4 10.0.0.2 ---"})
	before = x.Resolve(web)
	equal(t, "moved back", names(x.SetSlice(newSlice("web-a", "web", "10.0.0.1"))), []string{"api", "web"})
	equal(t, "results already handed out stay", show(before), []string{"IPv4 10.0.0.2 ---"})
	equal(t, "moved again", names(x.SetSlice(newSlice("web-a", "api", "10.0.0.1"))), []string{"web", "api"})
	equal(t, "replaced", names(x.SetSlice(newSlice("web-b", "web", "10.0.0.3"))), []string{"web"})
	equal(t, "label gone", names(x.SetSlice(newSlice("web-b", ""))), []string{"web"})
	equal(t, "deleted", names(x.DeleteSlice(key("default", "web-a"))), []string{"api"})
	equal(t, "deleted twice", names(x.DeleteSlice(key("default", "web-a"))), nil)
	equal(t, "nothing left", show(x.Resolve(web)), nil)
}

// Slices written by hand for a Service with a selector are used beside its own.
func TestSelectorAndGivenSlicesAreJoined(t *testing.T) {
	x := indexOf(newService("web", labels{"app": "web"}), newPod("p", "10.0.0.1", labels{"app": "web"}), newSlice("hand", "web", "192.0.2.1"))
	equal(t, "slices", show(x.Resolve(key("default", "web"))), []string{"IPv4 http/TCP/8080 10.0.0.1 rs-", "IPv4 192.0.2.1 ---"})
}

func TestApplyFollowsAStore(t *testing.T) {
	store, x := cluster.NewStore(), endpoints.New()
	web := labels{"app": "web"}
	step := func(want []string, objs cluster.Objects) {
		t.Helper()
		equal(t, "changed", names(x.Apply(store.Replace(objs))), want)
	}
	svc, pod, slice := newService("web", web), newPod("p", "10.0.0.1", web), newSlice("s", "db", "10.0.0.2")
	step([]string{"db", "web"}, cluster.Objects{
		Services: []*corev1.Service{svc}, Pods: []*corev1.Pod{pod}, EndpointSlices: []*discoveryv1.EndpointSlice{slice}, Nodes: []*corev1.Node{{}},
	})
	step(nil, cluster.Objects{Services: []*corev1.Service{svc}, Pods: []*corev1.Pod{pod}, EndpointSlices: []*discoveryv1.EndpointSlice{slice}})
	step([]string{"web"}, cluster.Objects{Services: []*corev1.Service{svc}, EndpointSlices: []*discoveryv1.EndpointSlice{slice}})
	step([]string{"db", "web"}, cluster.Objects{Services: []*corev1.Service{newService("web", labels{"app": "other"})}})
	step([]string{"web"}, cluster.Objects{})
	if got := x.Labels(); got != 0 {
		t.Errorf("%d labels remain of an empty store", got)
	}
}
