package manifest

import discoveryv1 "k8s.io/api/discovery/v1"

// pool holds what many endpoints have in common, so that it is in memory once: objects
// that are loaded are only read.
type pool struct {
	texts map[string]*string
	truth map[bool]*bool
}

func newPool() pool { return pool{map[string]*string{}, map[bool]*bool{}} }

// compact makes an object take no more room than what it holds needs. Decoding leaves
// a third of it empty, and most memory is that of endpoints.
func (p pool) compact(obj object) {
	s, ok := obj.(*discoveryv1.EndpointSlice)
	if !ok {
		return
	}
	s.Endpoints = exact(s.Endpoints)
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		e.Addresses = exact(e.Addresses)
		e.NodeName, e.Zone = shared(p.texts, e.NodeName), shared(p.texts, e.Zone)
		c := &e.Conditions
		c.Ready, c.Serving, c.Terminating = shared(p.truth, c.Ready), shared(p.truth, c.Serving), shared(p.truth, c.Terminating)
	}
}

// exact returns a list without room for more.
func exact[T any](list []T) []T {
	if list == nil || cap(list) == len(list) {
		return list
	}
	out := make([]T, len(list))
	copy(out, list)
	return out
}

// shared returns a pointer to the same value that all others have.
func shared[T comparable](known map[T]*T, v *T) *T {
	if v == nil {
		return nil
	}
	if known[*v] == nil {
		known[*v] = v
	}
	return known[*v]
}
