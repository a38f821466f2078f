package balance_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/toyproxy/toyproxy/endpoints"
)

// Which endpoints of a port get new flows.
func TestUsableEndpoints(t *testing.T) {
	for _, tc := range []struct {
		name      string
		endpoints []string
		want      string
	}{
		{"conditions not set", []string{"10.244.0.1"}, "forward,forward+m 10.244.0.1:80"},
		{"ready", []string{"10.244.0.1 rs", "10.244.0.2 -"}, "forward,forward+m 10.244.0.1:80"},
		{"none", nil, "refuse"},
		{"none ready", []string{"10.244.0.1 -", "10.244.0.2 s"}, "refuse"},
		{"ready before leaving", []string{"10.244.0.1 st", "10.244.0.2 rs"}, "forward,forward+m 10.244.0.2:80"},
		{"leaving, for want of better", []string{"10.244.0.1 st", "10.244.0.2 s", "10.244.0.3 st"}, "forward,forward+m 10.244.0.1:80 10.244.0.3:80"},
		{"leaving and not serving", []string{"10.244.0.1 t"}, "refuse"},
		{"published while terminating", []string{"10.244.0.1 rt", "10.244.0.2 rs"}, "forward,forward+m 10.244.0.1:80 10.244.0.2:80"},
		{"sorted by address", []string{"10.244.0.10", "10.244.0.9"}, "forward,forward+m 10.244.0.9:80 10.244.0.10:80"},
		{"twice the same", []string{"10.244.0.1", "10.244.0.1"}, "forward,forward+m 10.244.0.1:80"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			table, problems := tableOf([]*discoveryv1.EndpointSlice{newSlice("s", ports("http:80/TCP"), tc.endpoints...)}, newService("web", "http:80/TCP"))
			equal(t, "table", show(table), []string{"10.96.0.10:80/tcp " + tc.want})
			equal(t, "problems", texts(problems), nil)
		})
	}
}

// Of one endpoint in two slices, the copy that does not terminate is believed,
// in whatever order they come.
func TestCopiesOfAnEndpoint(t *testing.T) {
	for _, tc := range []struct{ name, one, other, want string }{
		{"terminating and ready", "10.244.0.1 st", "10.244.0.1 rs", "forward,forward+m 10.244.0.1:80"},
		{"terminating and not ready", "10.244.0.1 st", "10.244.0.1 s", "refuse"},
		{"published while terminating, and not ready", "10.244.0.1 rst", "10.244.0.1 -", "refuse"},
		{"ready and not ready", "10.244.0.1 -", "10.244.0.1 rs", "forward,forward+m 10.244.0.1:80"},
		{"terminating twice", "10.244.0.1 t", "10.244.0.1 st", "forward,forward+m 10.244.0.1:80"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, b := newSlice("a", ports("http:80/TCP"), tc.one), newSlice("b", ports("http:80/TCP"), tc.other)
			for _, slices := range [][]*discoveryv1.EndpointSlice{{a, b}, {b, a}} {
				table, _ := tableOf(slices, newService("web", "http:80/TCP"))
				equal(t, "table", show(table), []string{"10.96.0.10:80/tcp " + tc.want})
			}
		})
	}
}

// Service port and slice port are joined by name and protocol; the number is
// the slice's. The cases are faults that other proxies had in the field.
func TestPortJoin(t *testing.T) {
	unnamed, noNumber, zero, noProtocol := ports("http:8080/TCP"), ports("http:8080/TCP"), ports("http:0/TCP"), ports("http:8080/TCP")
	unnamed[0].Name, noNumber[0].Port, noProtocol[0].Protocol = nil, nil, nil
	many := func(slices ...*discoveryv1.EndpointSlice) []*discoveryv1.EndpointSlice { return slices }
	for _, tc := range []struct {
		name   string
		svc    []string
		slices []*discoveryv1.EndpointSlice
		want   []string
	}{
		{"10: TCP and UDP on one number", []string{"u:53/UDP", "t:53/TCP"},
			many(newSlice("s", ports("u:5353/UDP", "t:5354/TCP"), "10.244.0.12")),
			[]string{"10.96.0.10:53/tcp forward,forward+m 10.244.0.12:5354", "10.96.0.10:53/udp forward,forward+m 10.244.0.12:5353"}},
		{"10: the UDP port removed", []string{"t:53/TCP"},
			many(newSlice("s", ports("u:5353/UDP", "t:5354/TCP"), "10.244.0.12")),
			[]string{"10.96.0.10:53/tcp forward,forward+m 10.244.0.12:5354"}},
		{"50: each port has its own Pods, a slice has none", []string{"a:80/TCP", "b:81/TCP"},
			many(newSlice("a", ports("a:80/TCP"), "10.244.0.2"), newSlice("b", ports("b:81/TCP"), "10.244.0.3"), newSlice("c", nil, "10.244.0.4")),
			[]string{"10.96.0.10:80/tcp forward,forward+m 10.244.0.2:80", "10.96.0.10:81/tcp forward,forward+m 10.244.0.3:81"}},
		{"51: the slice's number without targetPort", []string{":80/TCP"},
			many(newSlice("s", ports(":9376/TCP"), "10.244.0.2")),
			[]string{"10.96.0.10:80/tcp forward,forward+m 10.244.0.2:9376"}},
		{"53: two ports to one target port", []string{"a:80/TCP", "b:81/TCP"},
			many(newSlice("s", ports("a:8080/TCP", "b:8080/TCP"), "10.244.0.2")),
			[]string{"10.96.0.10:80/tcp forward,forward+m 10.244.0.2:8080", "10.96.0.10:81/tcp forward,forward+m 10.244.0.2:8080"}},
		{"53: one of them removed", []string{"b:81/TCP"},
			many(newSlice("s", ports("a:8080/TCP", "b:8080/TCP"), "10.244.0.2")),
			[]string{"10.96.0.10:81/tcp forward,forward+m 10.244.0.2:8080"}},
		{"a named target port differs from Pod to Pod", []string{"http:80/TCP"},
			many(newSlice("a", ports("http:8080/TCP"), "10.244.0.2"), newSlice("b", ports("http:8081/TCP"), "10.244.0.3")),
			[]string{"10.96.0.10:80/tcp forward,forward+m 10.244.0.2:8080 10.244.0.3:8081"}},
		{"SCTP", []string{"s:80/SCTP"}, many(newSlice("s", ports("s:80/SCTP"), "10.244.0.2")),
			[]string{"10.96.0.10:80/sctp forward,forward+m 10.244.0.2:80"}},
		{"no protocol means TCP", []string{"http:80/TCP"}, many(newSlice("s", noProtocol, "10.244.0.2")),
			[]string{"10.96.0.10:80/tcp forward,forward+m 10.244.0.2:8080"}},
		{"slice port without a name", []string{":80/TCP"}, many(newSlice("s", unnamed, "10.244.0.2")), []string{"10.96.0.10:80/tcp refuse"}},
		{"slice port without a number", []string{"http:80/TCP"}, many(newSlice("s", noNumber, "10.244.0.2")), []string{"10.96.0.10:80/tcp refuse"}},
		{"slice port 0", []string{"http:80/TCP"}, many(newSlice("s", zero, "10.244.0.2")), []string{"10.96.0.10:80/tcp refuse"}},
		{"the same name on another protocol", []string{"dns:53/TCP"}, many(newSlice("s", ports("dns:53/UDP"), "10.244.0.2")), []string{"10.96.0.10:53/tcp refuse"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			table, _ := tableOf(tc.slices, newService("web", tc.svc...))
			equal(t, "table", show(table), tc.want)
		})
	}
}

// Fault 75: a changed port or target port leaves nothing of the old one, and
// the set keeps its name.
func TestChangedPorts(t *testing.T) {
	name := ""
	for _, tc := range []struct{ port, target, want string }{
		{"http:8080/TCP", "http:80/TCP", "10.96.0.10:8080/tcp forward,forward+m 10.244.0.2:80"},
		{"http:80/TCP", "http:80/TCP", "10.96.0.10:80/tcp forward,forward+m 10.244.0.2:80"},
		{"http:80/TCP", "http:81/TCP", "10.96.0.10:80/tcp forward,forward+m 10.244.0.2:81"},
		{"http:80/TCP", "http:443/TCP", "10.96.0.10:80/tcp forward,forward+m 10.244.0.2:443"},
	} {
		table, _ := tableOf([]*discoveryv1.EndpointSlice{newSlice("s", ports(tc.target), "10.244.0.2")}, newService("web", tc.port))
		equal(t, tc.port+" to "+tc.target, show(table), []string{tc.want})
		if name != "" && table.Sets[0].Name != name {
			t.Errorf("the set's name became %q from %q", table.Sets[0].Name, name)
		}
		name = table.Sets[0].Name
	}
}

// What a slice may hold that is not for the frontend.
func TestForeignSlicesAndAddresses(t *testing.T) {
	good := newSlice("good", ports("http:80/TCP"), "10.244.0.1")
	headless := newSlice("headless", ports("http:80/TCP"), "10.244.0.2")
	headless.Labels = map[string]string{corev1.IsHeadlessService: ""}
	fqdn := newSlice("fqdn", ports("http:80/TCP"), "example.com")
	fqdn.AddressType = discoveryv1.AddressTypeFQDN
	six := newSlice("six", ports("http:80/TCP"), "fd00::1")
	two := newSlice("two", ports("http:80/TCP"), "10.244.0.3", "10.244.0.4")
	two.Endpoints[0].Addresses, two.Endpoints[1].Addresses = []string{"10.244.0.3", "10.244.0.99"}, nil
	table, problems := tableOf([]*discoveryv1.EndpointSlice{headless, good, fqdn, six, two}, newService("web", "http:80/TCP"))
	equal(t, "table", show(table), []string{"10.96.0.10:80/tcp forward,forward+m 10.244.0.1:80 10.244.0.3:80"})
	equal(t, "problems", texts(problems), nil)
	table, _ = tableOf([]*discoveryv1.EndpointSlice{headless}, newService("web", "http:80/TCP"))
	equal(t, "headless slices only", show(table), []string{"10.96.0.10:80/tcp refuse"})
}

// Copies that differ only in what they wish: the greater weight and the first
// hints are believed, in whatever order they come.
func TestCopiesWithDifferentWishes(t *testing.T) {
	one, other := hintedPods("a@n2 > z1")[0], hintedPods("a@n2 > z2")[0]
	rest := newSlice("rest", ports("http:80/TCP"), expand([]string{"b@n2"})...)
	rest.Endpoints[0].Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "z2"}}}
	for _, slices := range [][]*discoveryv1.EndpointSlice{{one, other, rest}, {other, one, rest}} {
		checkFlows(t, openTable(t, openService(), slices), "P CIP:80 = {a:80} -m")
	}
	light, heavy := pods("a@n2")[0], pods("a@n2")[0]
	light.Annotations = map[string]string{endpoints.WeightsAnnotation: `{"10.244.0.1":3}`}
	heavy.Annotations = map[string]string{endpoints.WeightsAnnotation: `{"10.244.0.1":7}`}
	for _, slices := range [][]*discoveryv1.EndpointSlice{{light, heavy}, {heavy, light}} {
		if got := openTable(t, openService(), slices).Sets[0].Endpoints; len(got) != 1 || got[0].Weight != 7 {
			t.Errorf("endpoints %v", got)
		}
	}
}
