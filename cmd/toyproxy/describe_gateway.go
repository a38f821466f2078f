package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// describeDoor prints an object of a kind of the Gateway API. Nothing else happens
// to those but what their status says.
func describeDoor(w io.Writer, object any, l look) error {
	switch o := object.(type) {
	case *gatewayv1.Gateway:
		return describeGateway(w, o)
	case *gatewayv1.HTTPRoute:
		return describeRoute(w, o, l)
	case *gatewayv1.GatewayClass:
		return describeGatewayClass(w, o)
	}
	return nil
}

func describeGatewayClass(w io.Writer, c *gatewayv1.GatewayClass) error {
	p := newPage(w, "")
	p.say("Name", c.Name)
	p.sayMap("Labels", c.Labels, "=")
	p.say("Controller", string(c.Spec.ControllerName))
	p.say("Description", orNone(valueOf(c.Spec.Description)))
	if err := p.flush(); err != nil {
		return err
	}
	return describeStatus(w, c.Status.Conditions)
}

// describeStatus prints conditions, with what they say.
func describeStatus(w io.Writer, conditions []metav1.Condition) error {
	var rows [][]string
	for _, c := range conditions {
		rows = append(rows, []string{c.Type, string(c.Status), c.Reason, c.Message})
	}
	return describeConditions(w, []string{"Type", "Status", "Reason", "Message"}, rows)
}

func describeGateway(w io.Writer, g *gatewayv1.Gateway) error {
	p := newPage(w, "")
	p.sayMeta(&g.ObjectMeta)
	p.say("Class", string(g.Spec.GatewayClassName))
	var addresses []string
	for _, a := range g.Status.Addresses {
		addresses = append(addresses, a.Value)
	}
	p.say("Addresses", joinOr("<none>", addresses))
	if err := p.flush(); err != nil {
		return err
	}
	status := map[gatewayv1.SectionName]gatewayv1.ListenerStatus{}
	for _, s := range g.Status.Listeners {
		status[s.Name] = s
	}
	fmt.Fprintln(w, "Listeners:")
	c := newColumns(w)
	c.row("  Name", "Hostname", "Port", "Protocol", "Routes", "Programmed", "Wrong")
	for _, l := range g.Spec.Listeners {
		s := status[l.Name]
		c.row("  "+string(l.Name), cmp.Or(valueOf(l.Hostname), "*"), number(l.Port), string(l.Protocol), number(s.AttachedRoutes),
			conditionStatus(s.Conditions, "Programmed"), orNone(wrongOf(s.Conditions)))
	}
	if err := c.flush(); err != nil {
		return err
	}
	return describeStatus(w, g.Status.Conditions)
}

// wrongOf says what conditions find wrong: those that are not as they are when all
// is well.
func wrongOf(conditions []metav1.Condition) string {
	var out []string
	for _, c := range conditions {
		good := metav1.ConditionTrue
		if c.Type == string(gatewayv1.ListenerConditionConflicted) || c.Type == string(gatewayv1.ListenerConditionOverlappingTLSConfig) {
			good = metav1.ConditionFalse
		}
		if c.Status != good {
			out = append(out, c.Type+"="+string(c.Status)+" ("+c.Reason+")")
		}
	}
	return strings.Join(out, ", ")
}

func describeRoute(w io.Writer, r *gatewayv1.HTTPRoute, l look) error {
	p := newPage(w, "")
	p.sayMeta(&r.ObjectMeta)
	p.say("Hostnames", cmp.Or(joinAs(r.Spec.Hostnames), "*"))
	if err := p.flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "Parents:")
	c := newColumns(w)
	c.row("  Parent", "Accepted", "ResolvedRefs", "Wrong")
	for _, ref := range r.Spec.ParentRefs {
		status := routeStatus(r, ref)
		c.row("  "+parentText(ref), conditionStatus(status, "Accepted"), conditionStatus(status, "ResolvedRefs"), orNone(wrongOf(status)))
	}
	if err := c.flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "Rules:")
	c = newColumns(w)
	c.row("  Match", "Backends")
	c.row("  -----", "--------")
	for i := range r.Spec.Rules {
		describeRouteRule(c, &r.Spec.Rules[i], r.Namespace, l)
	}
	return c.flush()
}

// routeStatus are the conditions of a route below one parent, whoever set them.
func routeStatus(r *gatewayv1.HTTPRoute, ref gatewayv1.ParentReference) []metav1.Condition {
	for _, s := range r.Status.Parents {
		if s.ParentRef.Name == ref.Name && valueOf(s.ParentRef.Namespace) == valueOf(ref.Namespace) &&
			valueOf(s.ParentRef.SectionName) == valueOf(ref.SectionName) {
			return s.Conditions
		}
	}
	return nil
}

// parentText names a parent: "Gateway web/https".
func parentText(ref gatewayv1.ParentReference) string {
	text := valueOf(ref.Kind) + " " + string(ref.Name)
	if ref.Namespace != nil {
		text = valueOf(ref.Kind) + " " + string(*ref.Namespace) + "/" + string(ref.Name)
	}
	if ref.SectionName != nil {
		text += ", listener " + string(*ref.SectionName)
	}
	return text
}

func describeRouteRule(c columns, r *gatewayv1.HTTPRouteRule, namespace string, l look) {
	var backends []string
	for _, f := range r.Filters {
		backends = append(backends, string(f.Type))
	}
	for _, b := range r.BackendRefs {
		where := cmp.Or(valueOf(b.Namespace), namespace)
		port := int32(0)
		if b.Port != nil {
			port = *b.Port
		}
		text := fmt.Sprintf("%s:%d (%s)", b.Name, port, servedBy(l.Desired, where, string(b.Name), func(p corev1.ServicePort) bool { return p.Port == port }))
		if b.Weight != nil && len(r.BackendRefs) > 1 {
			text += fmt.Sprintf(" weight %d", *b.Weight)
		}
		backends = append(backends, text)
	}
	for i := 0; i < max(len(r.Matches), len(backends)); i++ {
		match, backend := "", ""
		if i < len(r.Matches) {
			match = matchText(&r.Matches[i])
		}
		if i < len(backends) {
			backend = backends[i]
		}
		c.row("  "+match, backend)
	}
}

// matchText says what a request must have: "GET PathPrefix /v1, header x-a=1".
func matchText(m *gatewayv1.HTTPRouteMatch) string {
	var parts []string
	if m.Path != nil {
		parts = append(parts, strings.TrimSpace(valueOf(m.Method)+" "+valueOf(m.Path.Type)+" "+valueOf(m.Path.Value)))
	}
	for _, h := range m.Headers {
		parts = append(parts, "header "+string(h.Name)+between(valueOf(h.Type))+h.Value)
	}
	for _, q := range m.QueryParams {
		parts = append(parts, "query "+string(q.Name)+between(valueOf(q.Type))+q.Value)
	}
	return strings.Join(parts, ", ")
}

// between stands between a name and a value: a tilde for regular expressions.
func between(kind string) string {
	if kind == string(gatewayv1.HeaderMatchRegularExpression) {
		return "~"
	}
	return "="
}
