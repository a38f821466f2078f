package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/toyproxy/toyproxy/balance"
	"github.com/toyproxy/toyproxy/dataplane"
)

// unserved says why a Service has no frontend; nil when it may have one.
func (s State) unserved(svc *corev1.Service) *Cause {
	_, other := svc.Labels[balance.ProxyNameLabel]
	var c Cause
	switch {
	case svc.Spec.Type == corev1.ServiceTypeExternalName:
		c = s.cause(svc, fmt.Sprintf("it is another name of %s and has no address: only DNS knows it", svc.Spec.ExternalName), "spec.type: ExternalName")
	case other:
		c = s.cause(svc, fmt.Sprintf("the proxy %q serves it, not this one: take the label away to have it served here", svc.Labels[balance.ProxyNameLabel]),
			"metadata.labels["+balance.ProxyNameLabel+"]")
	case svc.Spec.ClusterIP == corev1.ClusterIPNone:
		c = s.cause(svc, "it is headless: clients dial the endpoints that DNS names, and no rule is in between", "spec.clusterIP: None")
	case svc.Spec.ClusterIP == "":
		c = s.cause(svc, "it has no address yet", "spec.clusterIP")
	case len(svc.Spec.Ports) == 0:
		c = s.cause(svc, "it has no ports", "spec.ports")
	default:
		return nil
	}
	return &c
}

// because says why the table gives a packet the fate it has; nothing when it is
// delivered and that needs no word.
func (s State) because(to Target, p dataplane.Packet) []Cause {
	fe, found := s.Table.Dialled(p)
	if !found {
		return s.becauseNone(to, p)
	}
	svc, port := s.origin(fe)
	if svc == nil {
		return nil
	}
	out := s.becauseRoute(fe, svc, port, p)
	if to.Service != nil && svc != to.Service {
		out = append(out, s.cause(to.Service, fmt.Sprintf("%s belongs to Service %s/%s, which is older or first by name; this one takes over when that one goes",
			fe.Key, svc.Namespace, svc.Name), "spec.clusterIP"))
	}
	return out
}

// becauseRoute says why a frontend treats packets from there as it does.
func (s State) becauseRoute(fe dataplane.Frontend, svc *corev1.Service, port int, p dataplane.Packet) []Cause {
	if fe.Allowed != nil && !slices.ContainsFunc(fe.Allowed, func(r netip.Prefix) bool { return r.Contains(p.Src) }) {
		return []Cause{s.cause(svc, fmt.Sprintf("%s is in none of %s", sourceText(p), joinPrefixes(fe.Allowed)), "spec.loadBalancerSourceRanges")}
	}
	switch fe.Routes[s.Table.Node.Class(p)].Verdict {
	case dataplane.Refuse:
		return s.becauseNoEndpoint(svc, port, dataplane.FamilyOf(fe.Addr))
	case dataplane.Drop:
		return s.becauseElsewhere(fe, svc, port)
	}
	return nil
}

func sourceText(p dataplane.Packet) string {
	if p.Src.IsValid() {
		return p.Src.String()
	}
	return "the node"
}

func joinPrefixes(list []netip.Prefix) string {
	if len(list) == 0 {
		return "no range at all"
	}
	var out []string
	for _, p := range list {
		out = append(out, p.String())
	}
	if len(out) > 5 {
		out = append(first(out, 5), fmt.Sprintf("%d others", len(list)-5))
	}
	return joinAnd(out)
}

// policyField is the field that keeps traffic of a door on the node.
func policyField(k dataplane.Kind, svc *corev1.Service) (field, value string) {
	if k == dataplane.ClusterIP {
		value = string(corev1.ServiceInternalTrafficPolicyCluster)
		if p := svc.Spec.InternalTrafficPolicy; p != nil {
			value = string(*p)
		}
		return "spec.internalTrafficPolicy", value
	}
	value = string(svc.Spec.ExternalTrafficPolicy)
	if value == "" {
		value = string(corev1.ServiceExternalTrafficPolicyCluster)
	}
	return "spec.externalTrafficPolicy", value
}

// becauseElsewhere: there are endpoints, but policy keeps the packet here.
func (s State) becauseElsewhere(fe dataplane.Frontend, svc *corev1.Service, port int) []Cause {
	field, value := policyField(fe.Kind, svc)
	nodes := map[string]int{}
	for _, c := range s.candidates(svc, port, dataplane.FamilyOf(fe.Addr)) {
		if c.ready {
			nodes[c.node]++
		}
	}
	var where []string
	for name, n := range nodes {
		if name == "" {
			name = "a node that nobody names"
		}
		where = append(where, fmt.Sprintf("%d on %s", n, name))
	}
	slices.Sort(where)
	return []Cause{s.cause(svc, fmt.Sprintf("it leaves no endpoint here, on node %s; ready elsewhere: %s", s.Node, joinAnd(where)), field+": "+value)}
}

// becauseNone says why no frontend has an address and port.
func (s State) becauseNone(to Target, p dataplane.Packet) []Cause {
	if to.Service != nil {
		if c := s.unserved(to.Service); c != nil {
			return []Cause{*c}
		}
	}
	if out := s.otherPorts(p); out != nil {
		return out
	}
	if p.Addr.IsLoopback() {
		return []Cause{s.becauseLoopback(p)}
	}
	if out := s.claimants(p.Addr); out != nil {
		return out
	}
	if pod := s.podAt(p.Addr); pod != nil {
		return []Cause{{Text: fmt.Sprintf("%s is the address of %s itself: whoever dials it talks to the Pod, and no Service is involved", p.Addr, podName(pod))}}
	}
	switch inRange := slices.ContainsFunc(s.Table.Node.ServiceRanges, func(r netip.Prefix) bool { return r.Contains(p.Addr) }); {
	case inRange:
		return []Cause{{Text: fmt.Sprintf("%s is in the range of Services (--service-cidr), and no Service has it: toyproxy get services -A lists those there are", p.Addr)}}
	case slices.Contains(s.Own, p.Addr) || slices.Contains(s.Table.Node.Addrs, p.Addr):
		return []Cause{{Text: fmt.Sprintf("%s is an address of the node, and no NodePort has port %d/%s: what listens there is a process of the node", p.Addr, p.Port, p.Protocol)}}
	}
	return []Cause{{Text: fmt.Sprintf("no Service has the address %s", p.Addr)}}
}

// becauseLoopback: no node port answers on an address of loopback that nobody has
// asked for, and every Pod has a loopback of its own.
func (s State) becauseLoopback(p dataplane.Packet) Cause {
	if pod := s.podAt(p.Src); pod != nil {
		return Cause{Text: fmt.Sprintf("%s is the loopback address of %s itself, from which no packet comes out: what listens there is a process of the Pod", p.Addr, podName(pod))}
	}
	for _, fe := range s.Table.Frontends {
		svc, port := s.origin(fe)
		if fe.Kind != dataplane.NodePort || fe.Port != p.Port || fe.Protocol != p.Protocol || dataplane.FamilyOf(fe.Addr) != dataplane.FamilyOf(p.Addr) || svc == nil {
			continue
		}
		at := "another address of the node"
		if i := slices.IndexFunc(s.Table.Node.Addrs, func(a netip.Addr) bool { return dataplane.FamilyOf(a) == dataplane.FamilyOf(p.Addr) }); i >= 0 {
			at = netip.AddrPortFrom(s.Table.Node.Addrs[i], p.Port).String()
		}
		return s.cause(svc, fmt.Sprintf("node ports do not answer on loopback addresses, unless --nodeport-addresses asks for it: dial %s", at), fmt.Sprintf("spec.ports[%d].nodePort", port))
	}
	return Cause{Text: fmt.Sprintf("%s is a loopback address, where no Service answers: what listens there is a process of the node", p.Addr)}
}

// otherPorts: the address is some Service's, the port or the protocol is not.
func (s State) otherPorts(p dataplane.Packet) []Cause {
	var out []Cause
	for _, fe := range s.frontendsAt(p.Addr) {
		svc, port := s.origin(fe)
		switch {
		case svc == nil || port < 0:
			continue
		case fe.Port == p.Port:
			return []Cause{s.cause(svc, fmt.Sprintf("the port is %[1]s, not %[2]s: dial %[3]s/%[1]s", fe.Protocol, p.Protocol, netip.AddrPortFrom(p.Addr, p.Port)),
				fmt.Sprintf("spec.ports[%d].protocol", port))}
		}
		text := fmt.Sprintf("no port %d/%s; it has %s", p.Port, p.Protocol, joinAnd(portsOf(svc)))
		if fe.Kind == dataplane.NodePort {
			text = fmt.Sprintf("its node port is %d/%s, not %d/%s", fe.Port, fe.Protocol, p.Port, p.Protocol)
		}
		if c := s.cause(svc, text, "spec.ports"); len(out) == 0 || out[len(out)-1].String() != c.String() {
			out = append(out, c)
		}
	}
	return first(out, 5)
}

// frontendsAt are the frontends of an address, NodePorts included.
func (s State) frontendsAt(a netip.Addr) []dataplane.Frontend {
	var out []dataplane.Frontend
	for _, fe := range s.Table.Frontends {
		nodePort := fe.Kind == dataplane.NodePort && slices.Contains(s.Table.Node.Addrs, a) && dataplane.FamilyOf(fe.Addr) == dataplane.FamilyOf(a)
		if fe.Addr == a || nodePort {
			out = append(out, fe)
		}
	}
	return out
}

// claimants are Services that name the address and have no frontend there.
func (s State) claimants(a netip.Addr) []Cause {
	var out []Cause
	for _, svc := range s.Objects.Services {
		if !slices.Contains(append([]string{svc.Spec.ClusterIP}, svc.Spec.ClusterIPs...), a.String()) && !slices.Contains(svc.Spec.ExternalIPs, a.String()) {
			continue
		}
		if c := s.unserved(svc); c != nil {
			out = append(out, *c)
			continue
		}
		out = append(out, s.cause(svc, fmt.Sprintf("it names %s and has no frontend there: toyproxy validate says what is wrong with it", a)))
	}
	return out
}

// others are Services that claim the address and port of a frontend and do not
// have it.
func (s State) others(fe dataplane.Frontend) []string {
	owner, _ := s.origin(fe)
	var out []string
	for _, svc := range s.Objects.Services {
		if svc != owner && s.unserved(svc) == nil && claims(svc, fe) {
			out = append(out, svc.Namespace+"/"+svc.Name)
		}
	}
	return out
}

// claims reports whether a Service asks for the address and port of a frontend.
func claims(svc *corev1.Service, fe dataplane.Frontend) bool {
	at := append(slices.Clone(svc.Spec.ClusterIPs), svc.Spec.ClusterIP)
	at = append(at, svc.Spec.ExternalIPs...)
	for _, in := range svc.Status.LoadBalancer.Ingress {
		at = append(at, in.IP)
	}
	return slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool {
		if protocolOf(p.Protocol) != fe.Protocol {
			return false
		}
		if fe.Kind == dataplane.NodePort {
			return p.NodePort == int32(fe.Port)
		}
		return p.Port == int32(fe.Port) && slices.Contains(at, fe.Addr.String())
	})
}

// ways lists how else a port of a Service is reached from outside.
func (s State) ways(fe dataplane.Frontend) []string {
	var out []string
	for _, o := range s.Table.Frontends {
		if o.Service != fe.Service || o.Protocol != fe.Protocol || o.Key == fe.Key || dataplane.FamilyOf(o.Addr) != dataplane.FamilyOf(fe.Addr) {
			continue
		}
		at := o.Key.String()
		if o.Kind == dataplane.NodePort {
			at = fmt.Sprintf("port %d/%s of the node", o.Port, o.Protocol)
		}
		out = append(out, at+" ("+o.Kind.String()+")")
	}
	return out
}

// quote keeps texts from manifests on one line.
func quote(text string) string { return strings.Join(strings.Fields(text), " ") }
