package endpoints

import (
	"cmp"
	"maps"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
)

// refileAfter is how many Pods a Service may be looked at in vain before its
// rarest label is determined anew. What was rare when the Service came need not
// stay rare; looking once in a while keeps the amortised cost constant.
const refileAfter = 32

// service is a Service with its interned selector.
type service struct {
	name   types.NamespacedName
	object *corev1.Service
	// selector is the interned selector; empty selects nothing.
	selector []*posting
	// home is the posting that files the Service, at this place in its list.
	home *posting
	at   int
	// misses counts the Pods looked at in vain since the Service was filed.
	misses int
	// seen is the number of the last change that touched the Service, so that
	// it is reported once.
	seen uint64
	// resolved are the slices made from the selector, while they are fresh.
	resolved []*discoveryv1.EndpointSlice
	fresh    bool
}

// selector returns the labels a Pod must carry; none: the Service selects
// nothing. (Not everything: that is what an empty label selector means
// elsewhere.) An ExternalName is an alias of a name, never a group of Pods.
func selector(svc *corev1.Service) map[string]string {
	if svc == nil || svc.Spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	return svc.Spec.Selector
}

// selects reports whether the Pod's labels are a superset of the selector, which
// is not empty: nobody asks a Service that selects nothing.
func (s *service) selects(p *pod) bool {
	for _, want := range s.selector {
		if !p.carries(want) {
			return false
		}
	}
	return true
}

// pods yields the Pods the selector selects, in no order.
func (s *service) pods(yield func(*pod) bool) {
	if len(s.selector) == 0 {
		return
	}
	shortest := s.selector[0]
	for _, other := range s.selector[1:] {
		if len(other.pods) < len(shortest.pods) {
			shortest = other
		}
	}
	for _, m := range shortest.pods {
		if (len(s.selector) == 1 || s.selects(m.pod)) && !yield(m.pod) {
			return
		}
	}
}

// adopt makes the Service hold this object, and files it anew if the selector
// is another one.
func (x *Index) adopt(s *service, object *corev1.Service) {
	if !maps.Equal(selector(s.object), selector(object)) {
		x.disown(s)
		for key, value := range selector(object) {
			want := x.postings.in(object.Namespace).intern(label{key, value})
			want.users++
			s.selector = append(s.selector, want)
		}
		x.file(s)
	}
	s.object, s.fresh, s.resolved = object, false, nil
	if near, _ := distributes(object); near {
		x.distributed[s] = struct{}{}
	} else {
		delete(x.distributed, s)
	}
}

// disown takes the Service's selector out of the index.
func (x *Index) disown(s *service) {
	s.unfile()
	for _, want := range s.selector {
		want.users--
		x.postings.release(s.name.Namespace, want)
	}
	s.selector = s.selector[:0]
}

// file puts the Service under the rarest label of its selector: the one fewest
// Pods carry, since each Pod that carries it will look at the Service. As long
// as there are no Pods the label with the fewest Services is taken, which
// spreads Services that have one label in common.
func (x *Index) file(s *service) {
	s.unfile()
	if len(s.selector) == 0 {
		return
	}
	rarest := s.selector[0]
	for _, other := range s.selector[1:] {
		if other.rarerThan(rarest) {
			rarest = other
		}
	}
	s.home, s.at, s.misses = rarest, len(rarest.filed), 0
	rarest.filed = append(rarest.filed, s)
}

func (p *posting) rarerThan(o *posting) bool {
	return cmp.Or(
		cmp.Compare(len(p.pods), len(o.pods)),
		cmp.Compare(len(p.filed), len(o.filed)),
		p.label.compare(o.label)) < 0
}

func (s *service) unfile() {
	if s.home == nil {
		return
	}
	last := len(s.home.filed) - 1
	moved := s.home.filed[last]
	s.home.filed[s.at], moved.at = moved, s.at
	s.home.filed[last] = nil
	s.home.filed = s.home.filed[:last]
	s.home = nil
}

// selecting appends the Services that select the Pod to found. It looks only
// at those filed under one of the Pod's labels.
func (x *Index) selecting(found []*service, p *pod) []*service {
	var misfiled []*service
	for i := range p.places {
		for _, s := range p.places[i].posting.filed {
			x.stats.Visited++
			if s.selects(p) {
				found = append(found, s)
				continue
			}
			if s.misses++; s.misses == refileAfter {
				misfiled = append(misfiled, s)
			}
		}
	}
	for _, s := range misfiled {
		x.file(s)
	}
	return found
}
