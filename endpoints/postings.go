package endpoints

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
)

// label is one pair of key and value.
type label struct{ key, value string }

func (a label) compare(b label) int {
	return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.value, b.value))
}

// posting is all that is known about one label in one namespace; a selector
// never reaches beyond its own. There is one posting for each, so that its
// address stands for both and comparing labels compares pointers.
type posting struct {
	label label
	// pods are the Pods that carry the label, in no order.
	pods []membership
	// filed are the Services for which this was the rarest label, in no order.
	filed []*service
	// users counts the selectors that name the label, filed here or not.
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
	// room holds the places of a Pod with no more labels than most have.
	room [6]place
}

// carries reports whether the Pod has the label of the posting. Pods have few
// labels: a walk beats any set.
func (p *pod) carries(want *posting) bool {
	for i := range p.places {
		if p.places[i].posting == want {
			return true
		}
	}
	return false
}

// postings interns labels, by namespace: a Pod looks its own up once.
type postings map[string]namespace

// namespace is the postings of one namespace.
type namespace map[label]*posting

// in returns the postings of a namespace.
func (ps postings) in(name string) namespace {
	ns := ps[name]
	if ns == nil {
		ns = namespace{}
		ps[name] = ns
	}
	return ns
}

// intern returns the posting of the label, new if nobody uses it yet.
func (ns namespace) intern(of label) *posting {
	found := ns[of]
	if found == nil {
		found = &posting{label: of}
		ns[of] = found
	}
	return found
}

// release forgets the posting when nobody uses it any more. Values such as
// pod-template-hash come and go for ever.
func (ps postings) release(namespace string, p *posting) {
	if len(p.pods) > 0 || p.users > 0 {
		return
	}
	delete(ps[namespace], p.label)
	if len(ps[namespace]) == 0 {
		delete(ps, namespace)
	}
}

// enter lists the Pod under each of its labels.
func (ps postings) enter(p *pod) {
	if p.places == nil {
		p.places = p.room[:0]
	}
	if len(p.object.Labels) == 0 {
		return
	}
	ns := ps.in(p.object.Namespace)
	for key, value := range p.object.Labels {
		list := ns.intern(label{key, value})
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
		ps.release(p.object.Namespace, list)
	}
	p.places = p.places[:0]
}
