package endpoints

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// pair is a label with the namespace it is seen in: a selector never reaches
// beyond its own.
type pair struct{ namespace, key, value string }

func (a pair) compare(b pair) int {
	return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.value, b.value), cmp.Compare(a.namespace, b.namespace))
}

// posting is all that is known about one pair. There is one posting a pair, so
// that its address stands for the pair and comparing labels compares pointers.
type posting struct {
	pair pair
	// pods are the Pods that carry the pair, in no order.
	pods []membership
	// filed are the Services for which this was the rarest pair, in no order.
	filed []*service
	// users counts the selectors that name the pair, filed here or not.
	users int
}

// membership is a Pod in a posting, and which of the Pod's places it fills.
type membership struct {
	pod  *pod
	slot int
}

// place is a posting that lists a Pod, and where in the list. Both ends know
// each other's position, so that leaving is a swap with the last one and costs
// the same in a list of ten and of a hundred thousand.
type place struct {
	posting *posting
	at      int
}

// pod is a Pod with the postings that list it.
type pod struct {
	object *corev1.Pod
	places []place
}

// carries reports whether the Pod has the pair of the posting. Pods have few
// labels: a walk beats any set.
func (p *pod) carries(want *posting) bool {
	for i := range p.places {
		if p.places[i].posting == want {
			return true
		}
	}
	return false
}

// postings interns pairs.
type postings map[pair]*posting

// intern returns the posting of the pair, new if nobody uses it yet.
func (ps postings) intern(of pair) *posting {
	found := ps[of]
	if found == nil {
		found = &posting{pair: of}
		ps[of] = found
	}
	return found
}

// release forgets the posting when nobody uses it any more. Values such as
// pod-template-hash come and go for ever.
func (ps postings) release(p *posting) {
	if len(p.pods) == 0 && p.users == 0 {
		delete(ps, p.pair)
	}
}

// enter lists the Pod under each of its labels.
func (ps postings) enter(p *pod, object *corev1.Pod) {
	p.places = slices.Grow(p.places[:0], len(object.Labels))
	for key, value := range object.Labels {
		list := ps.intern(pair{object.Namespace, key, value})
		list.pods = append(list.pods, membership{p, len(p.places)})
		p.places = append(p.places, place{list, len(list.pods) - 1})
	}
}

// leave takes the Pod out of every list.
func (ps postings) leave(p *pod) {
	for _, spot := range p.places {
		list, last := spot.posting, len(spot.posting.pods)-1
		moved := list.pods[last]
		list.pods[spot.at] = moved
		moved.pod.places[moved.slot].at = spot.at
		list.pods[last] = membership{}
		list.pods = list.pods[:last]
		ps.release(list)
	}
	p.places = p.places[:0]
}
