package gateway

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/toyproxy/toyproxy/ingress"
)

const twoGateways = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: a, namespace: infra}
spec: {gatewayClassName: toyproxy, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: b, namespace: infra}
spec: {gatewayClassName: toyproxy, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web, namespace: infra}
spec: {parentRefs: [{name: a}, {name: b}], rules: [{backendRefs: [{name: v1, port: 8080}]}]}
`

// parents prints who says what of a route, and since which minute.
func parents(s gatewayv1.HTTPRouteStatus) string {
	var b strings.Builder
	for _, p := range s.Parents {
		fmt.Fprintf(&b, "%s by %s:", p.ParentRef.Name, p.ControllerName)
		for _, c := range p.Conditions {
			fmt.Fprintf(&b, " %s=%s@%d generation %d", c.Type, c.Status, c.LastTransitionTime.Minute(), c.ObservedGeneration)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// TestTimes requires that a condition has the time at which it turned, and that others
// keep theirs while the generation goes on.
func TestTimes(t *testing.T) {
	in := input(t, twoGateways)
	in.Objects = written(in.Objects, Compile(in))
	route := in.Objects.HTTPRoutes[0].DeepCopy()
	route.Generation = 7
	route.Spec.Rules[0].BackendRefs[0].Name = "gone"
	in.Objects.HTTPRoutes = []*gatewayv1.HTTPRoute{route}
	in.Now = at(5 * time.Minute)
	want := "a by toyproxy.dev/gateway-controller: Accepted=True@1 generation 7 ResolvedRefs=False@5 generation 7\n" +
		"b by toyproxy.dev/gateway-controller: Accepted=True@1 generation 7 ResolvedRefs=False@5 generation 7\n"
	if diff := cmp.Diff(want, parents(Compile(in).Routes[key(route)])); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestOtherControllers requires that what others have written stays, that what is ours and
// stands for no parent any more goes, and that conditions of other types stay.
func TestOtherControllers(t *testing.T) {
	in := input(t, twoGateways)
	route := in.Objects.HTTPRoutes[0].DeepCopy()
	foreign := metav1.Condition{Type: "Accepted", Status: metav1.ConditionTrue, LastTransitionTime: at(3 * time.Minute)}
	extra := metav1.Condition{Type: "example.com/Seen", Status: metav1.ConditionTrue, LastTransitionTime: at(4 * time.Minute)}
	route.Status.Parents = []gatewayv1.RouteParentStatus{
		{ParentRef: gatewayv1.ParentReference{Name: "mesh"}, ControllerName: "other.example/x", Conditions: []metav1.Condition{foreign}},
		{ParentRef: gatewayv1.ParentReference{Name: "removed"}, ControllerName: ControllerName},
		{ParentRef: route.Spec.ParentRefs[0], ControllerName: ControllerName, Conditions: []metav1.Condition{extra}},
	}
	in.Objects.HTTPRoutes = []*gatewayv1.HTTPRoute{route}
	want := "mesh by other.example/x: Accepted=True@3 generation 0\n" +
		"a by toyproxy.dev/gateway-controller: example.com/Seen=True@4 generation 0 Accepted=True@1 generation 0 ResolvedRefs=True@1 generation 0\n" +
		"b by toyproxy.dev/gateway-controller: Accepted=True@1 generation 0 ResolvedRefs=True@1 generation 0\n"
	if diff := cmp.Diff(want, parents(Compile(in).Routes[key(route)])); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}

	route.Spec.ParentRefs = nil
	want = "mesh by other.example/x: Accepted=True@3 generation 0\n"
	if diff := cmp.Diff(want, parents(Compile(in).Routes[key(route)])); diff != "" {
		t.Errorf("route without parents of ours (-want +got):\n%s", diff)
	}
}

// TestOneGateway requires that a proxy of one Gateway serves that one, says nothing of the
// others, and leaves alone what their proxies have said.
func TestOneGateway(t *testing.T) {
	in := input(t, twoGateways)
	in.Objects = written(in.Objects, Compile(in))
	in.Now = at(9 * time.Minute)
	in.Gateways = []types.NamespacedName{{Namespace: "infra", Name: "b"}}
	in.Addresses = []string{"192.0.2.81"}
	out := Compile(in)
	if n := len(out.Config.Ports[0].Listeners); n != 1 || len(out.Gateways) != 1 {
		t.Errorf("%d listeners and %d Gateways, want those of one", n, len(out.Gateways))
	}
	var names []string
	for _, obj := range out.Changed(in.Objects) {
		names = append(names, obj.GetName())
	}
	if diff := cmp.Diff([]string{"b"}, names); diff != "" {
		t.Errorf("only the address of b is new (-want +got):\n%s", diff)
	}
}

// TestUnreadable compiles what the checks of manifests refuse and an API server might
// still hold: each is told, and nothing is served in its place.
func TestUnreadable(t *testing.T) {
	regex, bad := gatewayv1.PathMatchRegularExpression, gatewayv1.HeaderMatchRegularExpression
	for _, c := range []struct {
		name   string
		change func(*gatewayv1.HTTPRouteRule)
		want   string
	}{
		{"path", func(r *gatewayv1.HTTPRouteRule) {
			r.Matches = []gatewayv1.HTTPRouteMatch{{Path: &gatewayv1.HTTPPathMatch{Type: &regex, Value: new("/(?=x)")}}}
		}, `regular expression "/(?=x)"`},
		{"dots", func(r *gatewayv1.HTTPRouteRule) {
			r.Matches = []gatewayv1.HTTPRouteMatch{{Path: &gatewayv1.HTTPPathMatch{Value: new("/a/..%2f")}}}
		}, `path "/a/..%2f"`},
		{"path type", func(r *gatewayv1.HTTPRouteRule) {
			r.Matches = []gatewayv1.HTTPRouteMatch{{Path: &gatewayv1.HTTPPathMatch{Type: new(gatewayv1.PathMatchType("Glob"))}}}
		}, "path type Glob"},
		{"header", func(r *gatewayv1.HTTPRouteRule) {
			r.Matches = []gatewayv1.HTTPRouteMatch{{Headers: []gatewayv1.HTTPHeaderMatch{{Type: &bad, Name: "a", Value: "("}}}}
		}, `regular expression "("`},
		{"timeout", func(r *gatewayv1.HTTPRouteRule) {
			r.Timeouts = &gatewayv1.HTTPRouteTimeouts{Request: new(gatewayv1.Duration("soon"))}
		}, `timeouts.request: "soon"`},
		{"timeouts", func(r *gatewayv1.HTTPRouteRule) {
			r.Timeouts = &gatewayv1.HTTPRouteTimeouts{Request: new(gatewayv1.Duration("1s")), BackendRequest: new(gatewayv1.Duration("2s"))}
		}, "timeouts.backendRequest: 2s is longer"},
		{"redirect", func(r *gatewayv1.HTTPRouteRule) {
			r.Filters = []gatewayv1.HTTPRouteFilter{{Type: gatewayv1.HTTPRouteFilterRequestRedirect, RequestRedirect: &gatewayv1.HTTPRequestRedirectFilter{StatusCode: new(200)}}}
		}, "requestRedirect.statusCode: 200"},
		{"both", func(r *gatewayv1.HTTPRouteRule) {
			r.Filters = []gatewayv1.HTTPRouteFilter{
				{Type: gatewayv1.HTTPRouteFilterRequestRedirect, RequestRedirect: &gatewayv1.HTTPRequestRedirectFilter{}},
				{Type: gatewayv1.HTTPRouteFilterURLRewrite, URLRewrite: &gatewayv1.HTTPURLRewriteFilter{}},
			}
		}, "IncompatibleFilters"},
		{"fraction", func(r *gatewayv1.HTTPRouteRule) {
			r.Filters = []gatewayv1.HTTPRouteFilter{{Type: gatewayv1.HTTPRouteFilterRequestMirror, RequestMirror: &gatewayv1.HTTPRequestMirrorFilter{
				BackendRef: gatewayv1.BackendObjectReference{Name: "v1", Port: new(gatewayv1.PortNumber(8080))}, Fraction: &gatewayv1.Fraction{Numerator: 3, Denominator: new(int32(2))},
			}}}
		}, "requestMirror.fraction: 3 of 2"},
		{"empty filter", func(r *gatewayv1.HTTPRouteRule) {
			r.Filters = []gatewayv1.HTTPRouteFilter{{Type: gatewayv1.HTTPRouteFilterURLRewrite}}
		}, "filter URLRewrite"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := input(t, twoGateways)
			route := in.Objects.HTTPRoutes[0].DeepCopy()
			c.change(&route.Spec.Rules[0])
			in.Objects.HTTPRoutes = []*gatewayv1.HTTPRoute{route}
			out := Compile(in)
			if got := told(out.Routes[key(route)].Parents[0].Conditions); !strings.Contains(got, "Accepted=False") || !strings.Contains(got, c.want) {
				t.Errorf("conditions:%s\nwant Accepted=False and %s", got, c.want)
			}
			_, req := request(t, "GET http://a.example/")
			if r := ingress.NewRouter(out.Config).Lookup(80, req).Route; r != nil && len(r.Split) > 0 {
				t.Errorf("the rule is served all the same: %+v", r.Split)
			}
		})
	}
}

// TestTwoControllers requires that of two proxies with controller names of their own
// each serves the Gateways of its class, and leaves the other's statuses alone.
func TestTwoControllers(t *testing.T) {
	const edge gatewayv1.GatewayController = "edge.example/controller"
	in := input(t, strings.Replace(twoGateways, "{name: b, namespace: infra}\nspec: {gatewayClassName: toyproxy", "{name: b, namespace: infra}\nspec: {gatewayClassName: edge", 1)+`
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: edge}
spec: {controllerName: edge.example/controller}
`)
	in.Objects = written(in.Objects, Compile(in))
	in.Controller = edge
	out := Compile(in)
	want := "a by toyproxy.dev/gateway-controller: Accepted=True@1 generation 0 ResolvedRefs=True@1 generation 0\n" +
		"b by edge.example/controller: Accepted=True@1 generation 0 ResolvedRefs=True@1 generation 0\n"
	if diff := cmp.Diff(want, parents(out.Routes[key(in.Objects.HTTPRoutes[0])])); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if _, ours := out.Gateways[types.NamespacedName{Namespace: "infra", Name: "a"}]; ours || len(out.Classes) != 1 {
		t.Errorf("Gateway a is served by the other proxy, and %d classes", len(out.Classes))
	}
	in.Objects = written(in.Objects, out)
	in.Controller = ""
	if changed := Compile(in).Changed(in.Objects); len(changed) > 0 {
		t.Errorf("the first proxy writes again: %v", changed)
	}
}
