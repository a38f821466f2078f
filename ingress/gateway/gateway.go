package gateway

import (
	"cmp"
	"fmt"
	"slices"

	"net/netip"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/toyproxy/toyproxy/ingress"
)

// gateway is a Gateway of ours, judged.
type gateway struct {
	object    *gatewayv1.Gateway
	listeners []*listener
	// refused is not nil when nothing of it is served.
	refused *verdict
}

// gateways returns those that are served, the oldest first.
func (w *world) gateways() []*gateway {
	var out []*gateway
	for _, gw := range w.Objects.Gateways {
		if !w.serves(gw) {
			continue
		}
		g := &gateway{object: gw, refused: w.refusal(gw)}
		for i := range gw.Spec.Listeners {
			g.listeners = append(g.listeners, w.judge(gw, i))
		}
		conflicts(g.listeners)
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b *gateway) int { return older(a.object, b.object) })
	w.sharePorts(out)
	return out
}

// refusal says what makes a whole Gateway unfit, or returns nil.
func (w *world) refusal(gw *gatewayv1.Gateway) *verdict {
	const kind = gatewayv1.GatewayConditionAccepted
	if class := w.classes[string(gw.Spec.GatewayClassName)]; class.Spec.ParametersRef != nil {
		return new(no(kind, gatewayv1.GatewayReasonInvalidParameters, fmt.Sprintf("GatewayClass %s is not accepted", class.Name)))
	}
	if gw.Spec.Infrastructure != nil && gw.Spec.Infrastructure.ParametersRef != nil {
		return new(no(kind, gatewayv1.GatewayReasonInvalidParameters, "spec.infrastructure.parametersRef: this controller knows no parameters; remove the field"))
	}
	for i, addr := range gw.Spec.Addresses {
		if t := addr.Type; t != nil && *t != gatewayv1.IPAddressType && *t != gatewayv1.HostnameAddressType {
			return new(no(kind, gatewayv1.GatewayReasonUnsupportedAddress,
				fmt.Sprintf("spec.addresses[%d].type: %s is not served: use IPAddress or Hostname", i, *t)))
		}
	}
	return nil
}

// sharePorts keeps listeners off ports that Ingress, or an older Gateway, has with another
// protocol: one proxy serves all of them, where a port speaks TLS or does not.
func (w *world) sharePorts(gateways []*gateway) {
	type owner struct {
		tls  bool
		name string
	}
	owners := map[uint16]owner{}
	for _, port := range w.Taken {
		owners[port.Number] = owner{port.TLS, "Ingress"}
	}
	for _, g := range gateways {
		for _, l := range g.listeners {
			if g.refused != nil || !l.served() {
				continue
			}
			o, taken := owners[l.port()]
			switch {
			case !taken:
				owners[l.port()] = owner{l.tls(), fmt.Sprintf("Gateway %s, which is older", key(g.object))}
			case o.tls != l.tls():
				speaks := map[bool]string{true: "HTTPS", false: "HTTP"}[o.tls]
				l.refuse(gatewayv1.ListenerReasonPortUnavailable, fmt.Sprintf("port %d speaks %s for %s: use another port", l.port(), speaks, o.name))
			}
		}
	}
}

// config returns what the Gateway serves, as if it were alone.
func (g *gateway) config() ingress.Config {
	var out ingress.Config
	for _, l := range g.listeners {
		if g.refused != nil || !l.served() {
			continue
		}
		i := slices.IndexFunc(out.Ports, func(p ingress.Port) bool { return p.Number == l.port() })
		if i < 0 {
			i = len(out.Ports)
			out.Ports = append(out.Ports, ingress.Port{Number: l.port(), TLS: l.tls()})
		}
		out.Ports[i].Listeners = append(out.Ports[i].Listeners, ingress.Listener{
			Name:     fmt.Sprintf("Gateway %s: %s", key(g.object), l.spec.Name),
			Hostname: l.hostname, Certificates: l.certificates, Routes: inOrder(l.routes),
		})
	}
	slices.SortFunc(out.Ports, func(a, b ingress.Port) int { return cmp.Compare(a.Number, b.Number) })
	for _, port := range out.Ports {
		slices.SortFunc(port.Listeners, func(a, b ingress.Listener) int { return a.Hostname.Compare(b.Hostname) })
	}
	return out
}

// status is what the object is told.
func (g *gateway) status(in Input) gatewayv1.GatewayStatus {
	gw := g.object
	accepted := g.accepted()
	addresses, programmed := g.addresses(in.Addresses)
	if !accepted.holds {
		programmed = no(gatewayv1.GatewayConditionProgrammed, gatewayv1.GatewayReasonInvalid, accepted.message)
	} else if programmed.holds && !slices.ContainsFunc(g.listeners, (*listener).served) {
		programmed = no(gatewayv1.GatewayConditionProgrammed, gatewayv1.GatewayReasonInvalid, "no listener is served: see their conditions")
	}
	out := gatewayv1.GatewayStatus{
		Addresses:  addresses,
		Conditions: conditions(gw.Status.Conditions, gw.Generation, in.Now, []verdict{accepted, programmed}),
	}
	for _, l := range g.listeners {
		out.Listeners = append(out.Listeners, gatewayv1.ListenerStatus{
			Name: l.spec.Name, SupportedKinds: l.kinds, AttachedRoutes: l.attached,
			Conditions: conditions(oldConditions(gw, l.spec.Name), gw.Generation, in.Now,
				[]verdict{l.accepted, l.conflict, l.refs, l.programmed(accepted.holds)}),
		})
	}
	return out
}

func oldConditions(gw *gatewayv1.Gateway, name gatewayv1.SectionName) []metav1.Condition {
	for _, l := range gw.Status.Listeners {
		if l.Name == name {
			return l.Conditions
		}
	}
	return nil
}

// accepted is true with one good listener; its reason tells of bad ones beside it.
func (g *gateway) accepted() verdict {
	const kind = gatewayv1.GatewayConditionAccepted
	if g.refused != nil {
		return *g.refused
	}
	good := 0
	for _, l := range g.listeners {
		if l.accepted.holds {
			good++
		}
	}
	switch {
	case good == 0:
		return no(kind, gatewayv1.GatewayReasonListenersNotValid, "no listener is accepted: see their conditions")
	case good < len(g.listeners):
		return yes(kind, gatewayv1.GatewayReasonListenersNotValid, "some listeners are not accepted: see their conditions")
	}
	return yes(kind, gatewayv1.GatewayReasonAccepted, "the Gateway is accepted")
}

// addresses returns those of the proxy, of which spec.addresses may choose some, and
// the condition Programmed as far as they decide it.
func (g *gateway) addresses(all []string) ([]gatewayv1.GatewayStatusAddress, verdict) {
	const kind = gatewayv1.GatewayConditionProgrammed
	if g.refused != nil {
		return nil, *g.refused
	}
	if len(all) == 0 {
		return nil, no(kind, gatewayv1.GatewayReasonAddressNotAssigned, "the proxy's Service has no address yet")
	}
	ok := yes(kind, gatewayv1.GatewayReasonProgrammed, "the Gateway is served")
	chosen := all
	for i, want := range g.object.Spec.Addresses {
		if i == 0 {
			chosen = nil
		}
		var found []string
		for _, have := range all {
			if want.Value == have || want.Value == "" && addressType(have) == typeOf(want) {
				found = append(found, have)
			}
		}
		if len(found) == 0 {
			ok = no(kind, gatewayv1.GatewayReasonAddressNotUsable,
				fmt.Sprintf("spec.addresses[%d]: the proxy has no address %q; it has %s", i, want.Value, all))
		}
		chosen = append(chosen, found...)
	}
	var out []gatewayv1.GatewayStatusAddress
	for _, value := range chosen {
		out = append(out, gatewayv1.GatewayStatusAddress{Type: new(addressType(value)), Value: value})
	}
	return out, ok
}

func typeOf(addr gatewayv1.GatewaySpecAddress) gatewayv1.AddressType {
	if addr.Type == nil {
		return gatewayv1.IPAddressType
	}
	return *addr.Type
}

func addressType(value string) gatewayv1.AddressType {
	if _, err := netip.ParseAddr(value); err != nil {
		return gatewayv1.HostnameAddressType
	}
	return gatewayv1.IPAddressType
}
