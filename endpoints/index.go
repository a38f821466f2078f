package endpoints

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
)

// Index holds Services, Pods, EndpointSlices and the zones of Nodes, and resolves
// Services to slices. Objects given to it are shared: nobody may change them afterwards; an
// object with the name of one it holds replaces that. It is not safe for
// concurrent use: the agent owns it.
type Index struct {
	postings postings
	pods     map[types.NamespacedName]*pod
	services map[types.NamespacedName]*service
	// given lists the EndpointSlices as given of each Service, by name;
	// givenTo is the way back.
	given   map[types.NamespacedName][]*discoveryv1.EndpointSlice
	givenTo map[types.NamespacedName]types.NamespacedName
	// zones are those of the Nodes; distributed are the Services they matter to.
	zones       zones
	distributed map[*service]struct{}
	stats       Stats
}

// Stats counts what changes cost, from the making of the Index on.
type Stats struct {
	// Changes is the number of Pods set or deleted, and of changed zones.
	Changes uint64
	// Visited is the number of Services that were looked at because of them.
	Visited uint64
	// Affected is the number of Services that were found to select them.
	Affected uint64
	// Built is the number of times the slices of a Service were built.
	Built uint64
}

// New returns an empty index.
func New() *Index {
	return &Index{
		postings: postings{},
		pods:     map[types.NamespacedName]*pod{},
		services: map[types.NamespacedName]*service{},
		given:    map[types.NamespacedName][]*discoveryv1.EndpointSlice{},
		givenTo:  map[types.NamespacedName]types.NamespacedName{},

		zones:       zones{},
		distributed: map[*service]struct{}{},
	}
}

// Stats returns the counters.
func (x *Index) Stats() Stats { return x.stats }

// SetPod adds or replaces a Pod and returns the Services whose endpoints that
// changes, sorted: those that selected the old labels and those that select the
// new ones. A change that no endpoint shows (a restart count, say) changes none.
func (x *Index) SetPod(object *corev1.Pod) []types.NamespacedName {
	name := nameOf(object)
	p := x.pods[name]
	if p == nil {
		p = &pod{}
		x.pods[name] = p
	}
	x.stats.Changes++
	old := p.object
	relabelled := old == nil || !maps.Equal(old.Labels, object.Labels)
	if !relabelled && sameEndpoint(old, object) {
		p.object = object
		return nil
	}
	var touched []*service
	if old != nil && hasEndpoint(old) {
		touched = x.selecting(touched, p)
	}
	if relabelled {
		x.postings.leave(p)
	}
	p.object = object
	if relabelled {
		x.postings.enter(p)
	}
	if hasEndpoint(object) && (relabelled || !hasEndpoint(old)) {
		touched = x.selecting(touched, p)
	}
	return x.touch(touched)
}

// DeletePod removes a Pod and returns the Services that lose it, sorted.
func (x *Index) DeletePod(name types.NamespacedName) []types.NamespacedName {
	p := x.pods[name]
	if p == nil {
		return nil
	}
	x.stats.Changes++
	var touched []*service
	if hasEndpoint(p.object) {
		touched = x.selecting(nil, p)
	}
	x.postings.leave(p)
	delete(x.pods, name)
	return x.touch(touched)
}

// touch marks the Services' slices as stale and returns their names, each once.
func (x *Index) touch(touched []*service) []types.NamespacedName {
	var names []types.NamespacedName
	for _, s := range touched {
		if s.seen == x.stats.Changes {
			continue
		}
		s.seen, s.fresh, s.resolved = x.stats.Changes, false, nil
		names = append(names, s.name)
	}
	x.stats.Affected += uint64(len(names))
	slices.SortFunc(names, compareNames)
	return names
}

// SetService adds or replaces a Service. It changes the endpoints of no other.
func (x *Index) SetService(object *corev1.Service) {
	name := nameOf(object)
	s := x.services[name]
	if s == nil {
		s = &service{name: name}
		x.services[name] = s
	}
	x.adopt(s, object)
}

// DeleteService removes a Service. EndpointSlices given for it stay, and serve
// a later Service of that name.
func (x *Index) DeleteService(name types.NamespacedName) {
	if s := x.services[name]; s != nil {
		x.disown(s)
		delete(x.distributed, s)
		delete(x.services, name)
	}
}

// SetSlice adds or replaces an EndpointSlice as given and returns the Services
// that this changes: the one its label kubernetes.io/service-name names now,
// and the one it named before. A slice without the label belongs to none.
func (x *Index) SetSlice(object *discoveryv1.EndpointSlice) []types.NamespacedName {
	changed := x.DeleteSlice(nameOf(object))
	of := object.Labels[discoveryv1.LabelServiceName]
	if of == "" {
		return changed
	}
	owner := types.NamespacedName{Namespace: object.Namespace, Name: of}
	at, _ := slices.BinarySearchFunc(x.given[owner], object.Name, compareSlice)
	// A new list each time: Resolve has handed out the old one.
	x.given[owner] = slices.Insert(slices.Clip(x.given[owner]), at, object)
	x.givenTo[nameOf(object)] = owner
	if slices.Contains(changed, owner) {
		return changed
	}
	return append(changed, owner)
}

// DeleteSlice removes an EndpointSlice as given and returns its Service.
func (x *Index) DeleteSlice(name types.NamespacedName) []types.NamespacedName {
	owner, ok := x.givenTo[name]
	if !ok {
		return nil
	}
	delete(x.givenTo, name)
	rest := slices.DeleteFunc(slices.Clone(x.given[owner]), func(s *discoveryv1.EndpointSlice) bool { return s.Name == name.Name })
	x.given[owner] = rest
	if len(rest) == 0 {
		delete(x.given, owner)
	}
	return []types.NamespacedName{owner}
}

// Resolve returns the EndpointSlices of a Service: those made from its selector
// followed by those given for it by label, as in a cluster, where the controller
// owns its slices and leaves others of the Service alone. One endpoint may stand
// in several. The result is shared: read only.
func (x *Index) Resolve(name types.NamespacedName) []*discoveryv1.EndpointSlice {
	given := x.given[name]
	s := x.services[name]
	if s == nil || len(s.selector) == 0 {
		return given
	}
	if !s.fresh {
		var selected []*corev1.Pod
		for p := range s.pods {
			selected = append(selected, p.object)
		}
		s.resolved, s.fresh = slicesFor(s.object, selected, x.zones), true
		x.stats.Built++
	}
	if len(given) == 0 {
		return s.resolved
	}
	return slices.Concat(s.resolved, given)
}

// Selected yields the Pods a Service selects, in no particular order and
// whether or not they have an address.
func (x *Index) Selected(name types.NamespacedName) iter.Seq[*corev1.Pod] {
	return func(yield func(*corev1.Pod) bool) {
		s := x.services[name]
		if s == nil {
			return
		}
		for p := range s.pods {
			if !yield(p.object) {
				return
			}
		}
	}
}

// Service returns a Service as it was given; nil if the index has none of that
// name.
func (x *Index) Service(name types.NamespacedName) *corev1.Service {
	if s := x.services[name]; s != nil {
		return s.object
	}
	return nil
}

// Services yields all Services, in no particular order.
func (x *Index) Services() iter.Seq[*corev1.Service] {
	return func(yield func(*corev1.Service) bool) {
		for _, s := range x.services {
			if !yield(s.object) {
				return
			}
		}
	}
}

// Apply takes the events of a store and returns the Services whose frontends or
// endpoints may have changed, those that went included, sorted, each once.
// Events of other kinds are ignored.
func (x *Index) Apply(events []cluster.Event) []types.NamespacedName {
	changed := map[types.NamespacedName]struct{}{}
	for _, e := range events {
		for _, name := range x.apply(e) {
			changed[name] = struct{}{}
		}
	}
	return slices.SortedFunc(maps.Keys(changed), compareNames)
}

func (x *Index) apply(e cluster.Event) []types.NamespacedName {
	name := e.Object.NamespacedName
	switch object := e.New.(type) {
	case *corev1.Pod:
		return x.SetPod(object)
	case *discoveryv1.EndpointSlice:
		return x.SetSlice(object)
	case *corev1.Service:
		x.SetService(object)
		return []types.NamespacedName{name}
	case *corev1.Node:
		return x.SetNode(object)
	case nil:
		return x.remove(e.Object)
	}
	return nil
}

func (x *Index) remove(ref cluster.Ref) []types.NamespacedName {
	switch ref.Kind {
	case cluster.Pod:
		return x.DeletePod(ref.NamespacedName)
	case cluster.EndpointSlice:
		return x.DeleteSlice(ref.NamespacedName)
	case cluster.Service:
		x.DeleteService(ref.NamespacedName)
		return []types.NamespacedName{ref.NamespacedName}
	case cluster.Node:
		return x.DeleteNode(ref.Name)
	}
	return nil
}

func nameOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

func compareNames(a, b types.NamespacedName) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

func compareSlice(s *discoveryv1.EndpointSlice, name string) int {
	return strings.Compare(s.Name, name)
}
