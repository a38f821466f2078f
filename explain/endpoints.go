package explain

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/toyproxy/toyproxy/dataplane"
)

// candidate is an endpoint that a slice of the Service has for a port.
type candidate struct {
	addr  netip.AddrPort
	pod   string
	node  string
	ready bool
	// terminating and serving are as the slice says.
	terminating, serving bool
	zones                []string
}

// candidates lists what slices of a Service have for one of its ports, usable or
// not.
func (s State) candidates(svc *corev1.Service, port int, f dataplane.Family) []candidate {
	var out []candidate
	if port < 0 {
		return nil
	}
	for _, slice := range s.slicesOf(svc, f) {
		number, ok := numberIn(slice, svc.Spec.Ports[port])
		if !ok {
			continue
		}
		for _, ep := range slice.Endpoints {
			if c, ok := candidateOf(ep, number); ok {
				out = append(out, c)
			}
		}
	}
	slices.SortFunc(out, func(a, b candidate) int { return a.addr.Compare(b.addr) })
	return slices.CompactFunc(out, func(a, b candidate) bool { return a.addr == b.addr })
}

// numberIn is the number that a port of a Service has in a slice.
func numberIn(slice *discoveryv1.EndpointSlice, port corev1.ServicePort) (uint16, bool) {
	for _, p := range slice.Ports {
		protocol := corev1.ProtocolTCP
		if p.Protocol != nil {
			protocol = *p.Protocol
		}
		if p.Name != nil && *p.Name == port.Name && p.Port != nil && protocolOf(protocol) == protocolOf(port.Protocol) {
			return uint16(*p.Port), true
		}
	}
	return 0, false
}

func candidateOf(ep discoveryv1.Endpoint, number uint16) (c candidate, ok bool) {
	if len(ep.Addresses) == 0 {
		return c, false
	}
	a, err := netip.ParseAddr(ep.Addresses[0])
	is := func(b *bool, unset bool) bool { return b == nil && unset || b != nil && *b }
	c = candidate{addr: netip.AddrPortFrom(a, number), ready: is(ep.Conditions.Ready, true),
		serving: is(ep.Conditions.Serving, true), terminating: is(ep.Conditions.Terminating, false)}
	if ep.NodeName != nil {
		c.node = *ep.NodeName
	}
	if ref := ep.TargetRef; ref != nil && ref.Kind == "Pod" {
		c.pod = ref.Namespace + "/" + ref.Name
	}
	if ep.Hints != nil {
		for _, z := range ep.Hints.ForZones {
			c.zones = append(c.zones, z.Name)
		}
	}
	return c, err == nil
}

// becauseNoEndpoint says why no endpoint anywhere can serve a port of a Service.
func (s State) becauseNoEndpoint(svc *corev1.Service, port int, f dataplane.Family) []Cause {
	if len(svc.Spec.Selector) == 0 {
		return s.becauseSlices(svc, port, f)
	}
	selector := fmt.Sprintf("spec.selector: %s", selectorText(svc.Spec.Selector))
	matched := s.selected(svc)
	if len(matched) == 0 {
		return []Cause{s.cause(svc, "it matches no Pod"+s.nearest(svc), selector)}
	}
	var out []Cause
	for _, p := range matched {
		if why := notReady(p); why != "" {
			out = append(out, s.causeOf(refOfPod(p), why))
		}
	}
	if len(out) == len(matched) {
		head := fmt.Sprintf("it matches %s, and none is ready", pods(len(matched)))
		return append([]Cause{s.cause(svc, head, selector)}, first(out, 5)...)
	}
	if port >= 0 {
		if c, ok := s.noTargetPort(svc, port, matched); ok {
			return []Cause{c}
		}
	}
	return []Cause{s.cause(svc, fmt.Sprintf("it matches %s, of which none has an %s address", pods(len(matched)), f), selector)}
}

func pods(n int) string {
	if n == 1 {
		return "1 Pod"
	}
	return fmt.Sprintf("%d Pods", n)
}

// becauseSlices: the endpoints are given by hand.
func (s State) becauseSlices(svc *corev1.Service, port int, f dataplane.Family) []Cause {
	given := s.slicesOf(svc, f)
	switch {
	case len(given) == 0:
		return []Cause{s.cause(svc, fmt.Sprintf("it has no selector, and no %s EndpointSlice has the label %s=%s", f, discoveryv1.LabelServiceName, svc.Name), "spec.selector")}
	case port >= 0 && len(s.candidates(svc, port, f)) == 0:
		p := svc.Spec.Ports[port]
		return []Cause{s.cause(svc, fmt.Sprintf("none of its EndpointSlices has an endpoint with a port named %q of protocol %s", p.Name, protocolOf(p.Protocol)),
			fmt.Sprintf("spec.ports[%d].name", port))}
	}
	return []Cause{s.cause(svc, "none of the endpoints in its EndpointSlices is ready")}
}

// selected returns the Pods that the selector of a Service matches.
func (s State) selected(svc *corev1.Service) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(s.Objects.Pods), func(p *corev1.Pod) bool {
		return p.Namespace != svc.Namespace || len(missing(svc.Spec.Selector, p)) > 0
	})
}

// missing lists the labels of a selector that a Pod does not have, sorted.
func missing(selector map[string]string, p *corev1.Pod) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(selector)) {
		if have, ok := p.Labels[key]; !ok || have != selector[key] {
			out = append(out, key)
		}
	}
	return out
}

// nearest names the Pod whose labels come nearest to a selector.
func (s State) nearest(svc *corev1.Service) string {
	var best *corev1.Pod
	rank := -1 << 30
	for _, p := range s.Objects.Pods {
		r := -10 * len(missing(svc.Spec.Selector, p))
		for _, key := range missing(svc.Spec.Selector, p) {
			if have := p.Labels[key]; have != "" && distance(have, svc.Spec.Selector[key]) <= 2 {
				r += 8
			}
		}
		if p.Namespace != svc.Namespace {
			r -= 5
		}
		if r > rank {
			best, rank = p, r
		}
	}
	if best == nil {
		return ": there are none"
	}
	keys := missing(svc.Spec.Selector, best)
	if len(keys) == 0 {
		return fmt.Sprintf(": %s has the labels, but a selector matches in its own namespace only", podName(best))
	}
	var differs []string
	for _, key := range keys {
		if have, ok := best.Labels[key]; ok {
			differs = append(differs, key+"="+have)
		} else {
			differs = append(differs, "no "+key)
		}
	}
	return fmt.Sprintf("; the nearest, %s, has %s", podName(best), joinAnd(differs))
}

func selectorText(selector map[string]string) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(selector)) {
		out = append(out, key+"="+selector[key])
	}
	return strings.Join(out, ",")
}

// notReady says why a Pod does not serve; empty when it does.
func notReady(p *corev1.Pod) string {
	switch {
	case p.DeletionTimestamp != nil:
		return "it terminates"
	case p.Status.Phase == corev1.PodSucceeded, p.Status.Phase == corev1.PodFailed:
		return fmt.Sprintf("it has ended (%s)", p.Status.Phase)
	case len(addressesOf(p)) == 0:
		return "it has no address"
	}
	for _, c := range p.Status.Conditions {
		if c.Type != corev1.PodReady || c.Status == corev1.ConditionTrue {
			continue
		}
		why := "it is not ready"
		for _, detail := range append([]string{c.Reason, c.Message}, waiting(p)...) {
			if detail != "" {
				return why + ": " + quote(detail)
			}
		}
		return why
	}
	if len(p.Status.Conditions) > 0 && !slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady }) {
		return "it has not said that it is ready"
	}
	return ""
}

// waiting says what containers wait for.
func waiting(p *corev1.Pod) []string {
	var out []string
	for _, c := range p.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil {
			out = append(out, fmt.Sprintf("container %s: %s", c.Name, w.Reason))
		}
	}
	return out
}

// noTargetPort: Pods are ready, but none has the port by its name.
func (s State) noTargetPort(svc *corev1.Service, port int, matched []*corev1.Pod) (Cause, bool) {
	target, protocol := svc.Spec.Ports[port].TargetPort, protocolOf(svc.Spec.Ports[port].Protocol)
	if target.Type != intstr.String {
		return Cause{}, false
	}
	var have []string
	for _, cp := range namedPorts(matched) {
		if cp.Name == target.StrVal && protocolOf(cp.Protocol) == protocol {
			return Cause{}, false
		}
		if text := fmt.Sprintf("%s (%d/%s)", cp.Name, cp.ContainerPort, protocolOf(cp.Protocol)); !slices.Contains(have, text) {
			have = append(have, text)
		}
	}
	slices.Sort(have)
	return s.cause(svc, fmt.Sprintf("no container of the %s that match has a %s port of that name; they have %s", pods(len(matched)), protocol, joinAnd(have)),
		fmt.Sprintf("spec.ports[%d].targetPort: %s", port, target.StrVal)), true
}

// namedPorts are the ports of containers that have a name.
func namedPorts(of []*corev1.Pod) []corev1.ContainerPort {
	var out []corev1.ContainerPort
	for _, p := range of {
		for _, c := range p.Spec.Containers {
			out = append(out, c.Ports...)
		}
	}
	return slices.DeleteFunc(out, func(p corev1.ContainerPort) bool { return p.Name == "" })
}
