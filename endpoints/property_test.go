package endpoints_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apilabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/toyproxy/toyproxy/endpoints"
)

// world is the objects an index was given, and the index.
type world struct {
	x        *endpoints.Index
	pods     map[types.NamespacedName]*corev1.Pod
	services map[types.NamespacedName]*corev1.Service
	given    map[types.NamespacedName]*discoveryv1.EndpointSlice
	nodes    map[types.NamespacedName]*corev1.Node
}

func newWorld() *world {
	return &world{
		x: endpoints.New(), pods: map[types.NamespacedName]*corev1.Pod{},
		services: map[types.NamespacedName]*corev1.Service{}, given: map[types.NamespacedName]*discoveryv1.EndpointSlice{},
		nodes: map[types.NamespacedName]*corev1.Node{},
	}
}

// fresh is an index that is given the same objects for the first time.
func (w *world) fresh() *endpoints.Index {
	x := endpoints.New()
	for _, s := range w.services {
		x.SetService(s)
	}
	for _, p := range w.pods {
		x.SetPod(p)
	}
	for _, s := range w.given {
		x.SetSlice(s)
	}
	for _, n := range w.nodes {
		x.SetNode(n)
	}
	return x
}

// selecting is the brute force: every Service is asked for every Pod.
func (w *world) selects(svc *corev1.Service, p *corev1.Pod) bool {
	return p != nil && svc.Namespace == p.Namespace && svc.Spec.Type != corev1.ServiceTypeExternalName &&
		len(svc.Spec.Selector) > 0 && apilabels.SelectorFromSet(svc.Spec.Selector).Matches(apilabels.Set(p.Labels))
}

var (
	anyNamespace = rapid.SampledFrom([]string{"default", "other"})
	anyLabels    = rapid.MapOfN(rapid.SampledFrom([]string{"app", "tier", "env"}), rapid.SampledFrom([]string{"a", "b", ""}), 0, 3)
	anyName      = rapid.StringMatching(`[a-f]`)
)

func drawPod(t *rapid.T) *corev1.Pod {
	p := newPod(anyName.Draw(t, "pod"), fmt.Sprintf("10.0.0.%d", rapid.IntRange(1, 4).Draw(t, "address")), anyLabels.Draw(t, "labels"))
	p.Namespace = anyNamespace.Draw(t, "namespace")
	for _, edit := range []func(*corev1.Pod){
		ready(corev1.ConditionFalse), ready(corev1.ConditionTrue), terminating, phase(corev1.PodFailed), phase(corev1.PodRunning),
		addrs("10.0.0.9", "fd00::9"), containerPort("web", 80, "TCP"), containerPort("web", 8080, "TCP"),
		func(p *corev1.Pod) { p.Status.PodIP = "" },
		func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "h", "a" },
		on("n1"), on("n2"), weight("5"), weight("none"),
	} {
		if rapid.IntRange(0, 3).Draw(t, "edit") == 0 {
			edit(p)
		}
	}
	return p
}

func drawService(t *rapid.T) *corev1.Service {
	s := newService(anyName.Draw(t, "service"), anyLabels.Draw(t, "selector"))
	s.Namespace = anyNamespace.Draw(t, "namespace")
	for _, edit := range []func(*corev1.Service){
		dual, notReadyToo, target("web", "TCP"), distribute("PreferClose"), distribute("PreferSameNode"),
		func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName },
		func(s *corev1.Service) { s.Spec.Selector = nil },
	} {
		if rapid.IntRange(0, 4).Draw(t, "edit") == 0 {
			edit(s)
		}
	}
	return s
}

// pick draws the name of something that exists, if anything does.
func pick[V any](t *rapid.T, from map[types.NamespacedName]V) types.NamespacedName {
	if len(from) == 0 {
		return types.NamespacedName{}
	}
	keys := slices.SortedFunc(maps.Keys(from), func(a, b types.NamespacedName) int { return cmpNames(a, b) })
	return rapid.SampledFrom(keys).Draw(t, "which")
}

func cmpNames(a, b types.NamespacedName) int {
	if a.String() < b.String() {
		return -1
	}
	return 1
}

// podEvent sets a Pod, or with nil deletes it, and compares the Services said
// to be affected with those whose slices changed and those that select it.
func (w *world) podEvent(t *rapid.T, name types.NamespacedName, next *corev1.Pod) {
	old := w.pods[name]
	before := map[types.NamespacedName][]*discoveryv1.EndpointSlice{}
	for svc := range w.services {
		before[svc] = w.x.Resolve(svc)
	}
	var affected []types.NamespacedName
	if next == nil {
		affected = w.x.DeletePod(name)
		delete(w.pods, name)
	} else {
		affected = w.x.SetPod(next)
		w.pods[name] = next
	}
	now := w.fresh()
	for svcName, svc := range w.services {
		told := slices.Contains(affected, svcName)
		if told && !w.selects(svc, old) && !w.selects(svc, next) {
			t.Fatalf("%v selects neither state of %v and was touched", svcName, name)
		}
		if !told && !cmp.Equal(before[svcName], now.Resolve(svcName)) {
			t.Fatalf("%v changed with %v and nobody was told", svcName, name)
		}
	}
}

// nodeEvent sets a Node, or with nil deletes it. The Services said to be
// affected are those whose slices changed, and no others.
func (w *world) nodeEvent(t *rapid.T, name types.NamespacedName, next *corev1.Node) {
	before := map[types.NamespacedName][]*discoveryv1.EndpointSlice{}
	for name := range w.services {
		before[name] = w.x.Resolve(name)
	}
	var told []types.NamespacedName
	if next == nil {
		delete(w.nodes, name)
		told = w.x.DeleteNode(name.Name)
	} else {
		w.nodes[name] = next
		told = w.x.SetNode(next)
	}
	for name := range w.services {
		if changed := !cmp.Equal(before[name], w.x.Resolve(name)); changed != slices.Contains(told, name) {
			t.Fatalf("%v changed: %t, told: %v", name, changed, told)
		}
	}
}

func (w *world) check(t *rapid.T) {
	now := w.fresh()
	for name, svc := range w.services {
		var want []string
		for _, p := range w.pods {
			if w.selects(svc, p) {
				want = append(want, p.Name)
			}
		}
		slices.Sort(want)
		var got []string
		for p := range w.x.Selected(name) {
			got = append(got, p.Name)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("%v with %v selects %v, brute force %v", name, svc.Spec.Selector, got, want)
		}
	}
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		for _, namespace := range []string{"default", "other"} {
			if diff := cmp.Diff(now.Resolve(key(namespace, name)), w.x.Resolve(key(namespace, name))); diff != "" {
				t.Fatalf("%s/%s (-from scratch +incremental):\n%s", namespace, name, diff)
			}
		}
	}
}

// Whatever happens in whatever order, selection is what brute force says, and
// the slices are those of an index that sees the objects for the first time.
func TestIncrementalEqualsFromScratch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		t.Repeat(map[string]func(*rapid.T){
			"set pod": func(t *rapid.T) {
				p := drawPod(t)
				w.podEvent(t, key(p.Namespace, p.Name), p)
			},
			"relabel pod": func(t *rapid.T) {
				name := pick(t, w.pods)
				if old := w.pods[name]; old != nil {
					next := old.DeepCopy()
					next.Labels = anyLabels.Draw(t, "labels")
					w.podEvent(t, name, next)
				}
			},
			"delete pod": func(t *rapid.T) { w.podEvent(t, pick(t, w.pods), nil) },
			"set service": func(t *rapid.T) {
				s := drawService(t)
				w.services[key(s.Namespace, s.Name)] = s
				w.x.SetService(s)
			},
			"delete service": func(t *rapid.T) {
				name := pick(t, w.services)
				delete(w.services, name)
				w.x.DeleteService(name)
			},
			"set slice": func(t *rapid.T) {
				s := newSlice(anyName.Draw(t, "slice"), rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "of"), "10.0.0.7")
				w.given[key(s.Namespace, s.Name)] = s
				w.x.SetSlice(s)
			},
			"delete slice": func(t *rapid.T) {
				name := pick(t, w.given)
				delete(w.given, name)
				w.x.DeleteSlice(name)
			},
			"set node": func(t *rapid.T) {
				n := newNode(rapid.SampledFrom([]string{"n1", "n2"}).Draw(t, "node"), rapid.SampledFrom([]string{"", "z1", "z2"}).Draw(t, "zone"))
				w.nodeEvent(t, key("", n.Name), n)
			},
			"delete node": func(t *rapid.T) { w.nodeEvent(t, pick(t, w.nodes), nil) },
			"":            func(t *rapid.T) { w.check(t) },
		})
	})
}

// Large worlds, few checks: refiling and long lists.
func TestBruteForceAtSize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		many := rapid.IntRange(50, 400).Draw(t, "objects")
		values := rapid.IntRange(2, 40).Draw(t, "values")
		draw := func(most int) labels {
			out := labels{}
			for _, k := range []string{"app", "tier", "env", "hash"}[:rapid.IntRange(1, most).Draw(t, "n")] {
				out[k] = fmt.Sprint(rapid.IntRange(0, values).Draw(t, "v") % (1 + values>>len(out)))
			}
			return out
		}
		for i := range many {
			s := newService(fmt.Sprintf("s%d", i), draw(3))
			w.services[key("default", s.Name)] = s
			w.x.SetService(s)
			p := newPod(fmt.Sprintf("p%d", i%(many/2)), "10.0.0.1", draw(4))
			w.pods[key("default", p.Name)] = p
			w.x.SetPod(p)
		}
		w.check(t)
	})
}
