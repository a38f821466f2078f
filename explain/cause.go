package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/toyproxy/toyproxy/dataplane"
)

// steps gives each step the fields behind it. A field that is behind several
// steps is named at the one that decides.
func (s State) steps(e *Explanation, tr dataplane.Trace, p dataplane.Packet) []Step {
	out := make([]Step, len(tr.Steps))
	done := map[dataplane.Subject]bool{}
	last := lastDispatch(tr.Steps)
	for i, step := range tr.Steps {
		out[i].Step = step
		subject := step.Subject
		if subject == dataplane.AboutDispatch && i != last {
			continue
		}
		if subject == dataplane.AboutChoice {
			out[i].Causes = s.chosen(e, step)
		}
		if done[subject] {
			continue
		}
		done[subject] = true
		out[i].Causes = append(s.behind(e, subject, p), out[i].Causes...)
		if subject == dataplane.AboutChoice && !done[dataplane.AboutClass] { // one rule decides both
			out[i].Causes = append(s.behind(e, dataplane.AboutClass, p), out[i].Causes...)
		}
	}
	return out
}

// lastDispatch is the step that has found the frontend.
func lastDispatch(steps []dataplane.Step) int {
	last := -1
	for i, s := range steps {
		if s.Subject == dataplane.AboutDispatch {
			last = i
		}
	}
	return last
}

// behind names the fields behind all steps of a subject.
func (s State) behind(e *Explanation, subject dataplane.Subject, p dataplane.Packet) []Cause {
	switch subject {
	case dataplane.AboutUnserved:
		return e.Because
	case dataplane.AboutRefusal, dataplane.AboutDiscard:
		if e.Service != nil {
			return e.Because
		}
		return nil
	}
	if e.Service == nil {
		return nil
	}
	switch subject {
	case dataplane.AboutDispatch:
		return []Cause{s.cause(e.Service, "", s.doorFields(e.Frontend, e.Service)...)}
	case dataplane.AboutSources:
		return []Cause{s.cause(e.Service, "allows "+joinPrefixes(e.Frontend.Allowed), "spec.loadBalancerSourceRanges")}
	case dataplane.AboutClass:
		return []Cause{s.classCause(e, p), s.policyCause(e)}
	case dataplane.AboutMasquerading:
		return []Cause{s.masqueradeCause(e)}
	case dataplane.AboutAffinity:
		return []Cause{s.cause(e.Service, "", "spec.sessionAffinity: "+string(e.Service.Spec.SessionAffinity))}
	case dataplane.AboutChoice:
		return []Cause{s.selectorCause(e)}
	case dataplane.AboutHairpin:
		return s.hairpinCause(e)
	}
	return nil
}

// doorFields are the fields that make a frontend.
func (s State) doorFields(fe dataplane.Frontend, svc *corev1.Service) []string {
	_, port := s.origin(fe)
	number := fmt.Sprintf("spec.ports[%d].port", port)
	same := func(text string) bool { a, err := netip.ParseAddr(text); return err == nil && a == fe.Addr }
	switch fe.Kind {
	case dataplane.NodePort:
		return []string{fmt.Sprintf("spec.ports[%d].nodePort", port)}
	case dataplane.ExternalIP:
		return []string{fmt.Sprintf("spec.externalIPs[%d]", slices.IndexFunc(svc.Spec.ExternalIPs, same)), number}
	case dataplane.LoadBalancerIP:
		i := slices.IndexFunc(svc.Status.LoadBalancer.Ingress, func(in corev1.LoadBalancerIngress) bool { return same(in.IP) })
		return []string{fmt.Sprintf("status.loadBalancer.ingress[%d].ip", i), number}
	}
	if i := slices.IndexFunc(svc.Spec.ClusterIPs, same); i > 0 {
		return []string{fmt.Sprintf("spec.clusterIPs[%d]", i), number}
	}
	return []string{"spec.clusterIP", number}
}

// classCause says what makes the source what it counts as.
func (s State) classCause(e *Explanation, p dataplane.Packet) Cause {
	n := s.Table.Node
	switch e.Class {
	case dataplane.FromPod:
		for _, r := range n.PodRanges {
			if len(n.PodInterfaces) == 0 && r.Contains(p.Src) {
				return Cause{Text: fmt.Sprintf("%s lies in the Pod range %s: a Pod", p.Src, r)}
			}
		}
		return Cause{Text: fmt.Sprintf("it came in by a link of Pods (%s): a Pod", strings.Join(n.PodInterfaces, ", "))}
	case dataplane.FromNode:
		return Cause{Text: "the node itself sends it"}
	}
	return Cause{Text: fmt.Sprintf("%s is neither a Pod nor the node: from outside", p.Src)}
}

// policyCause names the traffic policy that chose the endpoints.
func (s State) policyCause(e *Explanation) Cause {
	field, value := policyField(e.Frontend.Kind, e.Service)
	text := "all endpoints of the cluster that are ready"
	if value == "Local" {
		text = fmt.Sprintf("only endpoints on node %s", s.Node)
		if e.Frontend.Kind != dataplane.ClusterIP && e.Class != dataplane.FromOutside {
			text = "it binds clients outside; Pods and the node reach all endpoints"
		}
	}
	return s.cause(e.Service, text, field+": "+value)
}

// masqueradeCause says why the source is rewritten.
func (s State) masqueradeCause(e *Explanation) Cause {
	if e.Frontend.Kind == dataplane.ClusterIP {
		if e.Class == dataplane.FromPod {
			return Cause{Text: "everything that goes to a ClusterIP is masqueraded, by wish of the node"}
		}
		return Cause{Text: "the sender is no Pod: answers have to come back through this node"}
	}
	field, value := policyField(e.Frontend.Kind, e.Service)
	return s.cause(e.Service, "the endpoint may be on any node, and its answer has to come back through this one", field+": "+value)
}

// selectorCause says where the endpoints come from.
func (s State) selectorCause(e *Explanation) Cause {
	if len(e.Service.Spec.Selector) == 0 {
		return s.cause(e.Service, "it has no selector: its endpoints are those of EndpointSlices written by hand")
	}
	matched := s.selected(e.Service)
	ready := slices.DeleteFunc(slices.Clone(matched), func(p *corev1.Pod) bool { return notReady(p) != "" })
	return s.cause(e.Service, fmt.Sprintf("matches %s, %d ready", pods(len(matched)), len(ready)), "spec.selector: "+selectorText(e.Service.Spec.Selector))
}

// hairpinCause: somebody has dialled a Service of which it is an endpoint.
func (s State) hairpinCause(e *Explanation) []Cause {
	if e.From.Pod == nil || !s.serves(e.From.Pod, e.Target) {
		return nil
	}
	return []Cause{{Text: podName(e.From.Pod) + " is an endpoint of the Service it dials: its answer to itself would not come back this way"}}
}

// chosen names the Pod that a step of the choice leads to.
func (s State) chosen(e *Explanation, step dataplane.Step) []Cause {
	set, _ := s.Table.Set(e.Frontend.Routes[e.Class].Set)
	words := " " + step.Rule + " "
	for _, ep := range set.Endpoints {
		inMap := fmt.Sprintf(" : %s . %d ", ep.Addr.Addr(), ep.Addr.Port()) // as nft writes it
		if ep.Name != "" && (strings.Contains(words, " "+ep.Addr.String()+" ") || strings.HasSuffix(words, inMap)) {
			return []Cause{{Text: "Pod " + ep.Name}}
		}
	}
	return nil
}
