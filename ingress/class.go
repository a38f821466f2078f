package ingress

import (
	"cmp"
	"fmt"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ControllerName is the spec.controller of the IngressClasses that are served here.
const ControllerName = "toyproxy.dev/ingress"

// ClassName is the name of a class in the annotation kubernetes.io/ingress.class
// that needs no IngressClass object.
const ClassName = "toyproxy"

const classAnnotation = "kubernetes.io/ingress.class"

// classes says which objects are ours.
type classes struct {
	byName map[string]*networkingv1.IngressClass
	// chosen is the default class, nil when there is none.
	chosen     *networkingv1.IngressClass
	controller string
}

func newClasses(all []*networkingv1.IngressClass, controller string) classes {
	c := classes{byName: map[string]*networkingv1.IngressClass{}, controller: cmp.Or(controller, ControllerName)}
	for _, class := range all {
		c.byName[class.Name] = class
		if class.Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true" &&
			(c.chosen == nil || isNewer(class, c.chosen)) {
			c.chosen = class
		}
	}
	return c
}

// isNewer: of several default classes the API server takes the newest, then that
// whose name comes first.
func isNewer(a, b *networkingv1.IngressClass) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return b.CreationTimestamp.Before(&a.CreationTimestamp)
	}
	return a.Name < b.Name
}

// ours says whether an object is to be served, and why not where a person may wonder.
// Without any IngressClass there is no other controller to leave an object to: all are served.
func (c classes) ours(ing *networkingv1.Ingress) (served bool, field, why string) {
	name, field := ing.Annotations[classAnnotation], "metadata.annotations["+classAnnotation+"]"
	legacy := name != ""
	if n := ing.Spec.IngressClassName; n != nil && *n != "" {
		name, field, legacy = *n, "spec.ingressClassName", false
	}
	class := c.byName[name]
	switch {
	case len(c.byName) == 0:
		return true, "", ""
	case name == "" && c.chosen != nil:
		return c.chosen.Spec.Controller == c.controller, "", ""
	case name == "":
		return false, "spec.ingressClassName", "names no class and no IngressClass is the default, so nobody serves it: " +
			"set it, or annotate a class with " + networkingv1.AnnotationIsDefaultIngressClass + `: "true"`
	case class != nil:
		return class.Spec.Controller == c.controller, "", ""
	case legacy:
		// The name may be that of a controller that knows it without an object.
		return name == ClassName, "", ""
	}
	return false, field, fmt.Sprintf("there is no IngressClass %q, so nobody serves the object: create it with spec.controller %s", name, c.controller)
}

// served returns the objects to serve, the oldest first.
func (c *compiler) served() []*object {
	known := newClasses(c.in.Classes, c.in.Controller)
	var out []*object
	for _, ing := range c.in.Ingresses {
		o := &object{Ingress: ing}
		ours, field, why := known.ours(ing)
		if why != "" {
			c.warn(o, field, "%s", why)
		}
		if ours {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b *object) int { return compareAge(a.CreationTimestamp, b.CreationTimestamp, a, b) })
	return out
}

// compareAge orders by age, then by namespace and name.
func compareAge(at, bt v1.Time, a, b *object) int {
	return cmp.Or(at.Compare(bt.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
