package explain

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/toyproxy/toyproxy/dataplane"
)

// ErrSyntax is wrapped by errors about text that means nothing.
var ErrSyntax = errors.New("not understood")

// ErrNotFound is wrapped by errors about names that no object has.
var ErrNotFound = errors.New("not found")

// Target is what a packet is sent to.
type Target struct {
	// Key is the address, protocol and port. It is zero when the Service that
	// was named has no frontend at all.
	Key dataplane.Key
	// Service is the one that was named; nil when an address was.
	Service *corev1.Service
	// Port is the place in its ports of the one that was meant.
	Port int
}

// String returns "Service default/web" or the address.
func (t Target) String() string {
	if t.Service != nil && !t.Key.Addr.IsValid() {
		return "Service " + t.Service.Namespace + "/" + t.Service.Name
	}
	return t.Key.String()
}

// Target reads "10.96.0.10:80", "10.96.0.10:53/udp", "svc/web" or
// "svc/web:http"; names are of a namespace. Of a Service with addresses of both
// families that of the family is taken; zero: the first.
func (s State) Target(text, namespace string, family dataplane.Family) (Target, error) {
	for _, kind := range []string{"svc/", "service/", "services/"} {
		if rest, ok := strings.CutPrefix(text, kind); ok {
			return s.targetService(rest, namespace, family)
		}
	}
	address, protocol, err := cutProtocol(text)
	switch _, isAddress := addressIn(address); {
	case !isAddress:
		return Target{}, fmt.Errorf("target %q %w: write 10.96.0.10:80, [fd00::a]:53/udp, svc/NAME or svc/NAME:PORT%s", text, ErrSyntax, s.meant(text, namespace))
	case err != nil:
		return Target{}, err
	}
	if at, err := netip.ParseAddrPort(address); err == nil && at.Port() > 0 {
		return Target{Key: dataplane.Key{Addr: at.Addr().Unmap(), Protocol: protocol, Port: at.Port()}, Port: -1}, nil
	}
	a, _ := addressIn(address)
	return s.onlyPort(a)
}

// addressIn reads an address, with or without a port.
func addressIn(text string) (netip.Addr, bool) {
	if at, err := netip.ParseAddrPort(text); err == nil && at.Port() > 0 {
		return at.Addr().Unmap(), true
	}
	a, err := netip.ParseAddr(strings.Trim(text, "[]"))
	return a.Unmap(), err == nil
}

// meant guesses what somebody wanted who wrote the name of an object and not what
// it is; empty when nobody knows.
func (s State) meant(text, namespace string) string {
	kind, name, cut := strings.Cut(text, "/")
	if cut && slices.Contains([]string{"pod", "pods", "po"}, kind) {
		return "; a Pod is no target but who sends: --from " + quote(name)
	}
	if !cut {
		kind, name = namespace, text
	}
	bare, _, _ := strings.Cut(name, ":")
	switch {
	case s.service(kind, bare) == nil:
		return ""
	case kind != namespace:
		return fmt.Sprintf(": is it svc/%s -n %s?", name, kind)
	}
	return fmt.Sprintf(": is it svc/%s?", name)
}

// cutProtocol takes "/udp" off; without it the protocol is TCP. What is before it
// is returned also when the protocol is none.
func cutProtocol(text string) (string, dataplane.Protocol, error) {
	rest, name, given := strings.Cut(text, "/")
	if !given {
		return rest, dataplane.TCP, nil
	}
	for _, p := range []dataplane.Protocol{dataplane.TCP, dataplane.UDP, dataplane.SCTP} {
		if strings.EqualFold(name, p.String()) {
			return rest, p, nil
		}
	}
	return rest, 0, fmt.Errorf("protocol %q %w: write /tcp, /udp or /sctp", name, ErrSyntax)
}

// onlyPort is the target of an address without a port, if there is no doubt.
func (s State) onlyPort(a netip.Addr) (Target, error) {
	var found []dataplane.Frontend
	for _, fe := range s.Table.Frontends {
		if fe.Addr == a {
			found = append(found, fe)
		}
	}
	if len(found) == 1 {
		return Target{Key: found[0].Key, Port: -1}, nil
	}
	what := "no Service has it"
	if len(found) > 0 {
		what = "it has " + joinAnd(portsAt(found))
	}
	return Target{}, fmt.Errorf("target %s %w: a port is needed, as in %s; %s", a, ErrSyntax, netip.AddrPortFrom(a, 80), what)
}

// portsAt lists the ports of frontends as "80/tcp (default/web:http)".
func portsAt(list []dataplane.Frontend) []string {
	var out []string
	for _, fe := range list {
		out = append(out, fmt.Sprintf("%d/%s (%s)", fe.Port, fe.Protocol, fe.Service))
	}
	return out
}

// targetService reads NAME or NAME:PORT, where a port is a name or a number with
// perhaps a protocol.
func (s State) targetService(text, namespace string, family dataplane.Family) (Target, error) {
	name, port, named := strings.Cut(text, ":")
	svc := s.service(namespace, name)
	if svc == nil {
		return Target{}, s.noService(name, namespace)
	}
	t := Target{Service: svc, Port: -1}
	if named {
		i, err := portNamed(svc, port)
		if err != nil {
			return Target{}, err
		}
		t.Port = i
	} else if len(svc.Spec.Ports) > 0 {
		t.Port = 0
	}
	addr, err := addressOf(svc, family)
	if err != nil {
		return Target{}, err
	}
	if s.unserved(svc) != nil || t.Port < 0 || !addr.IsValid() {
		return t, nil
	}
	p := svc.Spec.Ports[t.Port]
	t.Key = dataplane.Key{Addr: addr, Protocol: protocolOf(p.Protocol), Port: uint16(p.Port)}
	return t, nil
}

// addressOf returns a Service's ClusterIP of a family; zero: its first.
func addressOf(svc *corev1.Service, family dataplane.Family) (netip.Addr, error) {
	var have []netip.Addr
	for _, text := range append([]string{svc.Spec.ClusterIP}, svc.Spec.ClusterIPs...) {
		if a, err := netip.ParseAddr(text); err == nil {
			have = append(have, a)
		}
	}
	for _, a := range have {
		if family == 0 || dataplane.FamilyOf(a) == family {
			return a, nil
		}
	}
	if len(have) > 0 {
		return netip.Addr{}, fmt.Errorf("%s address of Service %s/%s %w: it has %s", family, svc.Namespace, svc.Name, ErrNotFound, have[0])
	}
	return netip.Addr{}, nil
}

// portNamed finds a port by its name, or by its number and perhaps protocol.
func portNamed(svc *corev1.Service, text string) (int, error) {
	number, protocol, hasProtocol := strings.Cut(text, "/")
	i := slices.IndexFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool {
		if p.Name == text && text != "" {
			return true
		}
		same := !hasProtocol || strings.EqualFold(protocol, protocolOf(p.Protocol).String())
		return strconv.Itoa(int(p.Port)) == number && same
	})
	if i >= 0 {
		return i, nil
	}
	return -1, fmt.Errorf("port %q of Service %s/%s %w: it has %s", text, svc.Namespace, svc.Name, ErrNotFound, joinAnd(portsOf(svc)))
}

// portsOf lists the ports of a Service as "80/tcp (http)".
func portsOf(svc *corev1.Service) []string {
	var out []string
	for _, p := range svc.Spec.Ports {
		text := fmt.Sprintf("%d/%s", p.Port, protocolOf(p.Protocol))
		if p.Name != "" {
			text += " (" + p.Name + ")"
		}
		out = append(out, text)
	}
	return out
}

// noService says that there is no such Service, and which were perhaps meant.
func (s State) noService(name, namespace string) error {
	var names []string
	for _, o := range s.Objects.Services {
		names = append(names, o.Namespace+"/"+o.Name)
	}
	return fmt.Errorf("Service %s/%s %w%s", namespace, name, ErrNotFound, near(namespace+"/"+name, names, "Service"))
}
