package balance_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/balance"
	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/dataplane"
)

func node() balance.Node {
	return balance.Node{Name: "n1", PodRanges: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:10:244::/56")}}
}

// newService has the ClusterIP 10.96.0.10 and the ports given as
// "name:port/protocol".
func newService(name string, ports ...string) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.96.0.10", ClusterIPs: []string{"10.96.0.10"}},
	}
	for _, text := range ports {
		name, number, protocol := parsePort(text)
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: name, Port: number, Protocol: protocol})
	}
	return s
}

func parsePort(text string) (name string, number int32, protocol corev1.Protocol) {
	name, rest, _ := strings.Cut(text, ":")
	if _, err := fmt.Sscanf(rest, "%d/%s", &number, &protocol); err != nil {
		panic(text + ": " + err.Error())
	}
	return name, number, protocol
}

func clusterIP(s *corev1.Service, ips ...string) *corev1.Service {
	s.Spec.ClusterIP, s.Spec.ClusterIPs = ips[0], ips
	return s
}

// ports are slice ports given as "name:port/protocol".
func ports(texts ...string) []discoveryv1.EndpointPort {
	var out []discoveryv1.EndpointPort
	for _, text := range texts {
		name, number, protocol := parsePort(text)
		out = append(out, discoveryv1.EndpointPort{Name: &name, Port: &number, Protocol: &protocol})
	}
	return out
}

// newSlice has endpoints given as "address", "address@node" and either followed
// by " " and the letters of the conditions that hold: r(eady), s(erving),
// t(erminating). Without letters the conditions are not set.
func newSlice(name string, ports []discoveryv1.EndpointPort, endpoints ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: name},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: ports,
	}
	for _, text := range endpoints {
		where, conditions, set := strings.Cut(text, " ")
		addr, on, placed := strings.Cut(where, "@")
		ep := discoveryv1.Endpoint{Addresses: []string{addr}}
		if placed {
			ep.NodeName = &on
		}
		if set {
			has := func(letter string) *bool { return new(strings.Contains(conditions, letter)) }
			ep.Conditions = discoveryv1.EndpointConditions{Ready: has("r"), Serving: has("s"), Terminating: has("t")}
		}
		s.Endpoints = append(s.Endpoints, ep)
		if strings.Contains(addr, ":") {
			s.AddressType = discoveryv1.AddressTypeIPv6
		}
	}
	return s
}

// tableOf builds the table of Services that all have the same slices.
func tableOf(slices []*discoveryv1.EndpointSlice, services ...*corev1.Service) (dataplane.Table, []cluster.Problem) {
	return balance.Build(node(), services, func(types.NamespacedName) []*discoveryv1.EndpointSlice { return slices })
}

// show renders a table, one frontend a line: key, fate of Pods, node and
// outside, endpoints. One fate for all is written once; "+m" is masqueraded.
func show(t dataplane.Table) []string {
	var lines []string
	for _, fe := range t.Frontends {
		var fates []string
		for _, r := range fe.Routes {
			fates = append(fates, fate(r))
		}
		var eps []string
		for _, name := range setNames(fe) {
			set, ok := t.Set(name)
			if !ok {
				eps = append(eps, "no set "+name)
			}
			for _, e := range set.Endpoints {
				eps = append(eps, e.Addr.String())
			}
		}
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %s", fe.Key, strings.Join(slices.Compact(fates), ","), strings.Join(eps, " "))))
	}
	return lines
}

func fate(r dataplane.Route) string {
	if r.Masquerade {
		return r.Verdict.String() + "+m"
	}
	return r.Verdict.String()
}

func setNames(fe dataplane.Frontend) []string {
	var names []string
	for _, r := range fe.Routes {
		if r.Set != "" && !slices.Contains(names, r.Set) {
			names = append(names, r.Set)
		}
	}
	return names
}

func texts(problems []cluster.Problem) []string {
	var out []string
	for _, p := range problems {
		text := p.String()
		if p.Warning {
			text = "warning: " + text
		}
		out = append(out, text)
	}
	return out
}

func equal[T comparable](t *testing.T, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %v\nwant %v", what, lines(got), lines(want))
	}
}

func lines[T any](of []T) string {
	var out []string
	for _, v := range of {
		out = append(out, fmt.Sprint(v))
	}
	return strings.Join(out, "\n     ")
}
