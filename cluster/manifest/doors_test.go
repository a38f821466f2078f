package manifest

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDoors reads objects of Ingress and of the Gateway API, good ones and bad.
func TestDoors(t *testing.T) {
	r := load(t, Options{Paths: []string{filepath.Join("testdata", "doors")}})
	var used []string
	for ref := range r.Objects.Refs() {
		used = append(used, ref.String())
	}
	slices.Sort(used)
	golden(t, filepath.Join("testdata", "doors.golden"), lines(r.Problems)+"used: "+strings.Join(used, ", ")+"\n")
}

// TestDoorDefaults requires the defaults of the CRDs, and no status of a manifest.
func TestDoorDefaults(t *testing.T) {
	o := load(t, Options{Paths: []string{filepath.Join("testdata", "doors")}}).Objects
	route, gateway := o.HTTPRoutes[0], o.Gateways[0]
	got := fmt.Sprintln(*route.Spec.Rules[1].Matches[0].Path.Value, *route.Spec.Rules[1].Matches[0].Path.Type, *route.Spec.ParentRefs[0].Kind,
		*route.Spec.Rules[0].BackendRefs[0].Weight, *route.Spec.Rules[0].BackendRefs[1].Weight, *route.Spec.Rules[0].BackendRefs[0].Kind,
		*route.Spec.Rules[0].Matches[0].Headers[0].Type, route.Spec.Rules[0].Filters[2].CORS.MaxAge) +
		fmt.Sprintln(gateway.APIVersion, *gateway.Spec.Listeners[0].AllowedRoutes.Namespaces.From, *gateway.Spec.Listeners[2].TLS.Mode,
			*gateway.Spec.Listeners[2].TLS.CertificateRefs[0].Kind, gateway.Status.Conditions[1].Type, gateway.Status.Conditions[1].Reason) +
		fmt.Sprintln(len(o.Ingresses[0].Status.LoadBalancer.Ingress), o.ReferenceGrants[0].APIVersion)
	want := "/ PathPrefix Gateway 0 1 Service Exact 5\n" +
		"gateway.networking.k8s.io/v1 Same Terminate Secret Programmed Pending\n" +
		"0 gateway.networking.k8s.io/v1\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}

// TestDefaultClass requires what the admission plugin DefaultIngressClass does.
func TestDefaultClass(t *testing.T) {
	const isDefault = `, annotations: {ingressclass.kubernetes.io/is-default-class: "true"}`
	class := func(name, more string) string {
		return fmt.Sprintf("---\napiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: {name: %s%s}\nspec: {controller: a.example/b}\n", name, more)
	}
	ingress := func(meta, spec string) string {
		return fmt.Sprintf("---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: web%s}\nspec: {%sdefaultBackend: {service: {name: web, port: {number: 80}}}}\n", meta, spec)
	}
	for _, c := range []struct{ name, text, want string }{
		{"no default", class("a", "") + ingress("", ""), "none"},
		{"default", class("a", "") + class("b", isDefault) + ingress("", ""), "b"},
		{"the default stands after", ingress("", "") + class("b", isDefault), "b"},
		{"first of two by name", class("c", isDefault) + class("b", isDefault) + ingress("", ""), "b"},
		{"youngest of two", class("c", ", creationTimestamp: 2026-01-01T00:00:00Z"+isDefault) + class("b", isDefault) + ingress("", ""), "c"},
		{"named", class("b", isDefault) + ingress("", "ingressClassName: a, "), "a"},
		{"named by the annotation", class("b", isDefault) + ingress(", annotations: {kubernetes.io/ingress.class: a}", ""), "none"},
	} {
		r := loadText(t, c.text)
		got := "none"
		if len(r.Objects.Ingresses) != 1 {
			t.Fatalf("%s: %s", c.name, lines(r.Problems))
		}
		if n := r.Objects.Ingresses[0].Spec.IngressClassName; n != nil {
			got = *n
		}
		if got != c.want {
			t.Errorf("%s: class %s, want %s", c.name, got, c.want)
		}
	}
}
