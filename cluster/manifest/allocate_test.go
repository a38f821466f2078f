package manifest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
)

// service writes a Service manifest; spec is YAML in flow style, without ports
// when it brings its own.
func service(name, spec string) string {
	namespace, name, found := strings.Cut(name, "/")
	if !found {
		namespace, name = "default", namespace
	}
	if !strings.Contains(spec, "ports:") {
		spec = strings.TrimSuffix("ports: [{port: 80}], "+spec, ", ")
	}
	return fmt.Sprintf("---\napiVersion: v1\nkind: Service\nmetadata: {name: %s, namespace: %s}\nspec: {%s}\n", name, namespace, spec)
}

func loadServices(t *testing.T, earlier *Result, cidrs string, manifests ...string) Result {
	t.Helper()
	opts := Options{Paths: []string{"-"}, Stdin: bytes.NewBufferString(strings.Join(manifests, ""))}
	for text := range strings.FieldsSeq(cidrs) {
		opts.ServiceCIDRs = append(opts.ServiceCIDRs, netip.MustParsePrefix(text))
	}
	if earlier != nil {
		opts.Earlier = func(name types.NamespacedName) *corev1.Service {
			i := slices.IndexFunc(earlier.Objects.Services, func(s *corev1.Service) bool { return s.Namespace == name.Namespace && s.Name == name.Name })
			if i < 0 {
				return nil
			}
			return earlier.Objects.Services[i]
		}
	}
	return load(t, opts)
}

// given prints what each Service was given: "web 10.96.1.1 SingleStack 80:30086".
func given(r Result) string {
	var b strings.Builder
	for _, s := range r.Objects.Services {
		fmt.Fprintf(&b, "%s %s", s.Name, strings.Join(s.Spec.ClusterIPs, ","))
		if p := s.Spec.IPFamilyPolicy; p != nil {
			fmt.Fprintf(&b, " %s %v", *p, s.Spec.IPFamilies)
		}
		for _, p := range s.Spec.Ports {
			if p.NodePort != 0 {
				fmt.Fprintf(&b, " %s/%d:%d", p.Protocol, p.Port, p.NodePort)
			}
		}
		if h := s.Spec.HealthCheckNodePort; h != 0 {
			fmt.Fprintf(&b, " health:%d", h)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestAllocation(t *testing.T) {
	const v4, v6, dual, dual64 = "10.96.0.0/12", "fd00:10:96::/112", "10.96.0.0/12 fd00:10:96::/112", "fd00:10:96::/112 10.96.0.0/12"
	for _, tc := range []struct{ name, cidrs, manifests, want, problems string }{
		{"dynamic addresses begin above the static band", v4, service("a", "") + service("b", ""), "a 10.96.1.1 SingleStack [IPv4]\nb 10.96.1.2 SingleStack [IPv4]\n", ""},
		{"a small range has a small band", "10.96.0.0/24", service("a", ""), "a 10.96.0.17 SingleStack [IPv4]\n", ""},
		{"a tiny range has none", "10.96.0.0/29", service("a", ""), "a 10.96.0.1 SingleStack [IPv4]\n", ""},
		{"IPv6", v6, service("a", ""), "a fd00:10:96::101 SingleStack [IPv6]\n", ""},
		{"the first range is the primary family", dual64, service("a", ""), "a fd00:10:96::101 SingleStack [IPv6]\n", ""},
		{"an explicit address is passed over", v4, service("a", "") + service("b", "clusterIP: 10.96.1.1"), "a 10.96.1.2 SingleStack [IPv4]\nb 10.96.1.1 SingleStack [IPv4]\n", ""},
		{"kube-dns takes the tenth address", v4, service("kube-system/kube-dns", ""), "kube-dns 10.96.0.10 SingleStack [IPv4]\n", ""},
		{"kube-dns makes way", v4, service("kube-system/kube-dns", "") + service("z", "clusterIP: 10.96.0.10"), "z 10.96.0.10 SingleStack [IPv4]\nkube-dns 10.96.1.1 SingleStack [IPv4]\n", ""},
		{"dual stack where it can be", dual, service("a", "ipFamilyPolicy: PreferDualStack"), "a 10.96.1.1,fd00:10:96::101 PreferDualStack [IPv4 IPv6]\n", ""},
		{"preferred dual stack without a second range", v4, service("a", "ipFamilyPolicy: PreferDualStack"), "a 10.96.1.1 PreferDualStack [IPv4]\n", ""},
		{"order of families", dual, service("a", "ipFamilyPolicy: RequireDualStack, ipFamilies: [IPv6]"), "a fd00:10:96::101,10.96.1.1 RequireDualStack [IPv6 IPv4]\n", ""},
		{"second address is added", dual, service("a", "ipFamilyPolicy: RequireDualStack, clusterIP: 10.96.0.7"), "a 10.96.0.7,fd00:10:96::101 RequireDualStack [IPv4 IPv6]\n", ""},
		{"family of the address", dual, service("a", "clusterIP: 'fd00:10:96::7'"), "a fd00:10:96::7 SingleStack [IPv6]\n", ""},
		{"headless with selector", dual, service("a", "clusterIP: None, selector: {a: b}"), "a None SingleStack [IPv4]\n", ""},
		{"headless without selector", v4, service("a", "clusterIP: None"), "a None RequireDualStack [IPv4 IPv6]\n", ""},
		{"external name", v4, service("a", "type: ExternalName, externalName: example.com"), "a \n", ""},
		{"dual stack required in vain", v4, service("a", "ipFamilyPolicy: RequireDualStack"), "",
			`Service default/a: spec.ipFamilyPolicy: Invalid value: "RequireDualStack": the only service CIDR is IPv4; add one of the other family (--service-cidr), or write PreferDualStack`},
		{"two families, one stack", dual, service("a", "ipFamilies: [IPv4, IPv6]"), "",
			`Service default/a: spec.ipFamilyPolicy: Invalid value: "SingleStack": must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified`},
		{"family without range", v4, service("a", "ipFamilies: [IPv6]"), "", `Service default/a: spec.ipFamilies[0]: Invalid value: "IPv6": no service CIDR of this family; add one (--service-cidr)`},
		{"address of a family without range", v4, service("a", "clusterIP: 'fd00::1'"), "", `Service default/a: spec.clusterIP: Invalid value: "fd00::1": no service CIDR is IPv6; add one (--service-cidr)`},
		{"outside the range", v4, service("a", "clusterIP: 192.168.0.1"), "",
			`Service default/a: spec.clusterIP: Invalid value: "192.168.0.1": not an address for Services of the service CIDR 10.96.0.0/12; choose one between 10.96.0.1 and 10.111.255.254, or leave the field out`},
		{"network address", "10.96.0.0/29", service("a", "clusterIP: 10.96.0.0"), "",
			`Service default/a: spec.clusterIP: Invalid value: "10.96.0.0": not an address for Services of the service CIDR 10.96.0.0/29; choose one between 10.96.0.1 and 10.96.0.6, or leave the field out`},
		{"broadcast address", "10.96.0.0/29", service("a", "clusterIP: 10.96.0.7"), "",
			`Service default/a: spec.clusterIP: Invalid value: "10.96.0.7": not an address for Services of the service CIDR 10.96.0.0/29; choose one between 10.96.0.1 and 10.96.0.6, or leave the field out`},
		{"range used up", "10.96.0.0/30", service("a", "") + service("b", "") + service("c", ""), "a 10.96.0.1 SingleStack [IPv4]\nb 10.96.0.2 SingleStack [IPv4]\n",
			`Service default/c: spec.clusterIPs[0]: Invalid value: "": no address is left in the service CIDR 10.96.0.0/30; give a bigger one (--service-cidr)`},
		{"claimed twice: first by name", v4, service("b", "clusterIP: 10.96.0.7") + service("a", "clusterIP: 10.96.0.7"), "a 10.96.0.7 SingleStack [IPv4]\n",
			`Service default/b: spec.clusterIP: Invalid value: "10.96.0.7": Service default/a has this address; choose another, or leave the field out`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			check(t, loadServices(t, nil, tc.cidrs, tc.manifests), tc.want, tc.problems)
		})
	}
}

func check(t *testing.T, r Result, want, problems string) {
	t.Helper()
	if diff := cmp.Diff(want, given(r)); diff != "" {
		t.Errorf("given (-want +got):\n%s", diff)
	}
	var got []string
	for _, p := range r.Problems {
		if !p.Warning {
			p.Position = cluster.Position{}
			got = append(got, p.String())
		}
	}
	if diff := cmp.Diff(problems, strings.Join(got, "\n")); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestNodePorts(t *testing.T) {
	const dns = "ports: [{name: u, protocol: UDP, port: 53%s}, {name: t, protocol: TCP, port: 53%s}]"
	both := func(u, t string) string { return "type: NodePort, " + fmt.Sprintf(dns, u, t) }
	for _, tc := range []struct{ name, manifests, want, problems string }{
		{"above the static band", service("a", "type: NodePort"), "a 10.96.1.1 SingleStack [IPv4] TCP/80:30086\n", ""},
		// Field fault 10: one number, two protocols.
		{"TCP and UDP of one number, asked for", service("a", both(", nodePort: 30053", ", nodePort: 30053")), "a 10.96.1.1 SingleStack [IPv4] UDP/53:30053 TCP/53:30053\n", ""},
		{"TCP and UDP of one number, two Services", service("a", "type: NodePort, ports: [{port: 53, nodePort: 30053}]") + service("b", "type: NodePort, ports: [{port: 53, protocol: UDP, nodePort: 30053}]"),
			"a 10.96.1.1 SingleStack [IPv4] TCP/53:30053\nb 10.96.1.2 SingleStack [IPv4] UDP/53:30053\n", ""},
		{"both protocols of a port share a number", service("a", both("", "")), "a 10.96.1.1 SingleStack [IPv4] UDP/53:30086 TCP/53:30086\n", ""},
		{"also one that is asked for", service("a", both("", ", nodePort: 30053")), "a 10.96.1.1 SingleStack [IPv4] UDP/53:30053 TCP/53:30053\n", ""},
		{"passed over when taken", service("a", both("", ", nodePort: 30053")) + service("b", "type: NodePort, ports: [{port: 5, protocol: UDP, nodePort: 30053}]"),
			"a 10.96.1.1 SingleStack [IPv4] UDP/53:30086 TCP/53:30053\nb 10.96.1.2 SingleStack [IPv4] UDP/5:30053\n", ""},
		{"load balancer", service("a", "type: LoadBalancer"), "a 10.96.1.1 SingleStack [IPv4] TCP/80:30086\n", ""},
		{"load balancer without node ports", service("a", "type: LoadBalancer, allocateLoadBalancerNodePorts: false"), "a 10.96.1.1 SingleStack [IPv4]\n", ""},
		{"health check", service("a", "type: LoadBalancer, externalTrafficPolicy: Local"), "a 10.96.1.1 SingleStack [IPv4] TCP/80:30086 health:30087\n", ""},
		{"health check asked for", service("a", "type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 30001"), "a 10.96.1.1 SingleStack [IPv4] TCP/80:30086 health:30001\n", ""},
		{"claimed twice", service("a", "type: NodePort, ports: [{port: 1, nodePort: 30001}]") + service("b", "type: NodePort, ports: [{port: 1, nodePort: 30001}]"), "a 10.96.1.1 SingleStack [IPv4] TCP/1:30001\n",
			`Service default/b: spec.ports[0].nodePort: Invalid value: 30001: Service default/a has this TCP node port; choose another, or leave the field out`},
		{"health check on the Service's own node port", service("a", "type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 30001, ports: [{port: 1, nodePort: 30001}]"), "",
			`Service default/a: spec.healthCheckNodePort: Duplicate value: 30001`},
		{"out of range", service("a", "type: NodePort, ports: [{port: 1, nodePort: 80}]"), "",
			`Service default/a: spec.ports[0].nodePort: Invalid value: 80: not a node port; choose one between 30000 and 32767, or leave the field out`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			check(t, loadServices(t, nil, "10.96.0.0/12", tc.manifests), tc.want, tc.problems)
		})
	}
}

func TestSeniority(t *testing.T) {
	claim := func(name, created string) string {
		return fmt.Sprintf("---\napiVersion: v1\nkind: Service\nmetadata: {name: %s%s}\nspec: {clusterIP: 10.96.0.7, ports: [{port: 80}]}\n", name, created)
	}
	old, young := ", creationTimestamp: 2026-01-01T00:00:00Z", ", creationTimestamp: 2026-06-01T00:00:00Z"
	for _, tc := range []struct{ name, a, b, winner string }{
		{"by name", claim("a", ""), claim("b", ""), "a"},
		{"the older", claim("a", young), claim("b", old), "b"},
		{"one with a time is older than one without", claim("a", ""), claim("b", young), "b"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := loadServices(t, nil, "10.96.0.0/12", tc.a, tc.b)
			if len(r.Objects.Services) != 1 || r.Objects.Services[0].Name != tc.winner {
				t.Errorf("want %s alone, got:\n%s%s", tc.winner, given(r), lines(r.Problems))
			}
		})
	}
}

func TestEarlierAllocationsAreKept(t *testing.T) {
	first := loadServices(t, nil, "", service("c", "type: NodePort"), service("d", "type: LoadBalancer, externalTrafficPolicy: Local"))
	again := loadServices(t, &first, "",
		service("a", "type: NodePort"), service("c", "type: NodePort, ipFamilyPolicy: PreferDualStack"), service("d", "type: LoadBalancer, externalTrafficPolicy: Local"))
	check(t, again, `a 10.96.1.3 SingleStack [IPv4] TCP/80:30089
c 10.96.1.1,fd00:10:96::101 PreferDualStack [IPv4 IPv6] TCP/80:30086
d 10.96.1.2 SingleStack [IPv4] TCP/80:30087 health:30088
`, "")

	// Nobody takes what another was given, not even by asking for it; who has it
	// may give it up in the same pass.
	refused := loadServices(t, &again, "", service("b", "clusterIP: 10.96.1.1"), service("c", "type: NodePort"))
	check(t, refused, "c 10.96.1.1 SingleStack [IPv4] TCP/80:30086\n", `Service default/b: spec.clusterIP: Invalid value: "10.96.1.1": Service default/c has this address; choose another, or leave the field out`)
	given := loadServices(t, &again, "", service("b", "clusterIP: 10.96.1.1"), service("c", "clusterIP: 10.96.0.9"))
	check(t, given, "b 10.96.1.1 SingleStack [IPv4]\nc 10.96.0.9 SingleStack [IPv4]\n", "")
	// Only the range's going away moves a Service.
	elsewhere := loadServices(t, &again, "10.0.0.0/24", service("c", ""))
	check(t, elsewhere, "c 10.0.0.17 SingleStack [IPv4]\n", "")
}

// TestAllocationIsStable edits a random set of Services and requires that those
// which stay keep what they had, and that the order of files does not matter.
func TestAllocationIsStable(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	kinds := []string{"", "type: NodePort", "type: LoadBalancer, externalTrafficPolicy: Local", "clusterIP: None", "ipFamilyPolicy: PreferDualStack"}
	services := map[string]string{}
	var before Result
	for range 40 {
		for range 3 {
			name := fmt.Sprintf("s%d", rng.IntN(40))
			if _, there := services[name]; there {
				delete(services, name)
			} else {
				services[name] = service(name, kinds[rng.IntN(len(kinds))])
			}
		}
		var manifests []string
		for _, m := range services { // in random order
			manifests = append(manifests, m)
		}
		after := loadServices(t, &before, "", manifests...)
		slices.Reverse(manifests)
		if diff := cmp.Diff(given(after), given(loadServices(t, &before, "", manifests...))); diff != "" {
			t.Fatalf("order of manifests matters:\n%s", diff)
		}
		requireKept(t, before, after)
		before = after
	}
}

func requireKept(t *testing.T, before, after Result) {
	t.Helper()
	had := map[string]string{}
	for line := range strings.Lines(given(before)) {
		name, rest, _ := strings.Cut(line, " ")
		had[name] = rest
	}
	for line := range strings.Lines(given(after)) {
		name, rest, _ := strings.Cut(line, " ")
		// A Service that was deleted and made anew in one step may differ in type.
		if was, there := had[name]; there && was != rest && len(strings.Fields(was)) == len(strings.Fields(rest)) {
			t.Errorf("Service %s had %s, has %s", name, was, rest)
		}
	}
}
