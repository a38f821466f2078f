package manifest

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/toyproxy/toyproxy/cluster"
)

// allocator gives Services their cluster IPs and node ports.
type allocator struct {
	addresses addresses
	nodePorts nodePorts
	earlier   func(types.NamespacedName) *corev1.Service
}

// settle allocates for all Services and returns those that could be served. In
// order: what Services that were there before ask for and what they had, what new
// ones ask for, what is left. So a new Service never takes what another has, not
// even by name: it is refused, as an API server does.
func (a allocator) settle(items []*item) ([]*item, []cluster.Problem) {
	slices.SortFunc(items, bySeniority)
	var problems []cluster.Problem
	step := func(do func(*item, *corev1.ServiceSpec) field.ErrorList) {
		kept := items[:0]
		for _, it := range items {
			errs := do(it, &it.obj.(*corev1.Service).Spec)
			if problems = append(problems, it.refusals(errs)...); len(errs) == 0 {
				kept = append(kept, it)
			}
		}
		items = kept
	}
	step(func(it *item, spec *corev1.ServiceSpec) field.ErrorList {
		if a.earlierOf(it) == nil {
			return nil
		}
		return a.claim(it, spec)
	})
	step(func(it *item, spec *corev1.ServiceSpec) field.ErrorList {
		if old := a.earlierOf(it); old != nil {
			a.addresses.keep(spec, it.ref, &old.Spec)
			a.nodePorts.keep(spec, it.ref, &old.Spec)
		}
		return nil
	})
	step(func(it *item, spec *corev1.ServiceSpec) field.ErrorList {
		if a.earlierOf(it) != nil {
			return nil
		}
		return a.claim(it, spec)
	})
	step(func(it *item, spec *corev1.ServiceSpec) field.ErrorList {
		return lists(a.addresses.fill(spec, it.ref), a.nodePorts.fill(spec, it.ref))
	})
	return items, problems
}

// claim settles the families of a Service and takes what it asks for.
func (a allocator) claim(it *item, spec *corev1.ServiceSpec) field.ErrorList {
	if errs := a.addresses.families().settle(spec); len(errs) > 0 {
		return errs
	}
	if errs := lists(a.addresses.refuse(spec), a.nodePorts.refuse(spec)); len(errs) > 0 {
		return errs
	}
	a.addresses.claim(spec, it.ref)
	a.nodePorts.claim(spec, it.ref)
	return nil
}

func (a allocator) earlierOf(it *item) *corev1.Service {
	if a.earlier == nil {
		return nil
	}
	return a.earlier(it.ref.NamespacedName)
}

// bySeniority puts the Service first that keeps what two claim: the older one,
// by creation time where manifests carry it, else by namespace and name.
func bySeniority(a, b *item) int {
	ta, tb := a.obj.GetCreationTimestamp(), b.obj.GetCreationTimestamp()
	switch {
	case ta.IsZero() != tb.IsZero():
		if ta.IsZero() {
			return 1
		}
		return -1
	case !ta.Equal(&tb):
		return ta.Compare(tb.Time)
	}
	return byName(a, b)
}

func byName(a, b *item) int {
	return cmp.Or(cmp.Compare(a.ref.Namespace, b.ref.Namespace), cmp.Compare(a.ref.Name, b.ref.Name))
}
