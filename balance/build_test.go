package balance_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/toyproxy/toyproxy/balance"
	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/dataplane"
)

// Two Services claim one ClusterIP: one wins, always the same, and the other
// keeps what nobody else claims.
func TestClaimsCollide(t *testing.T) {
	at := func(s *corev1.Service, year int) *corev1.Service {
		s.CreationTimestamp = metav1.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
		return s
	}
	slice := []*discoveryv1.EndpointSlice{newSlice("s", ports("http:80/TCP", "alt:81/TCP"), "10.244.0.1")}
	for _, tc := range []struct {
		name            string
		a, b            *corev1.Service
		winner, problem string
	}{
		{"by name", newService("a", "http:80/TCP"), newService("b", "http:80/TCP", "alt:81/TCP"), "default/a:http",
			"Service default/b: spec.clusterIP: 10.96.0.10:80/tcp already belongs to Service default/a, which is older or first by name: choose another address or port, or leave it out to be given one"},
		{"by age", at(newService("a", "http:80/TCP", "alt:81/TCP"), 2026), at(newService("b", "http:80/TCP"), 2025), "default/b:http",
			"Service default/a: spec.clusterIP: 10.96.0.10:80/tcp already belongs to Service default/b, which is older or first by name: choose another address or port, or leave it out to be given one"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, services := range [][]*corev1.Service{{tc.a, tc.b}, {tc.b, tc.a}} {
				table, problems := tableOf(slice, services...)
				equal(t, "table", show(table), []string{
					"10.96.0.10:80/tcp forward,forward+m 10.244.0.1:80", "10.96.0.10:81/tcp forward,forward+m 10.244.0.1:81",
				})
				if got := table.Frontends[0].Service; got != tc.winner {
					t.Errorf("port 80 belongs to %s, want %s", got, tc.winner)
				}
				equal(t, "problems", texts(problems), []string{tc.problem})
				if len(table.Sets) != 2 {
					t.Errorf("%d sets, want those of the two frontends", len(table.Sets))
				}
			}
		})
	}
	t.Run("two addresses of a family, two ports of a name", func(t *testing.T) {
		table, problems := tableOf(slice, clusterIP(newService("a", "http:80/TCP", "http:81/TCP"), "10.96.0.10", "10.96.0.11"))
		equal(t, "table", show(table), []string{"10.96.0.10:80/tcp forward,forward+m 10.244.0.1:80"})
		if len(problems) != 3 {
			t.Errorf("problems: %v", texts(problems))
		}
	})
	t.Run("within one Service", func(t *testing.T) {
		table, problems := tableOf(slice, newService("a", "http:80/TCP", "alt:80/TCP"))
		equal(t, "table", show(table), []string{"10.96.0.10:80/tcp forward,forward+m 10.244.0.1:80"})
		equal(t, "problems", texts(problems), []string{
			"Service default/a: spec.ports: 10.96.0.10:80/tcp occurs twice in this Service, the first is used: give each port its own number and protocol"})
	})
}

// One bad part stops nothing else.
func TestProblems(t *testing.T) {
	bad := newSlice("s", ports("http:80/TCP"), "10.244.0.1", "010.244.0.2", "::ffff:10.244.0.3", "fd00::1", "255.255.255.255", "239.1.1.1", "0.0.0.0")
	bad.AddressType = discoveryv1.AddressTypeIPv4
	dualBad := clusterIP(newService("dual", "http:80/TCP"), "10.96.0.11", "fd00::zz")
	odd := newService("odd", "http:80/TCP", "x:81/QUIC")
	odd.Spec.ClusterIPs = nil
	table, problems := tableOf([]*discoveryv1.EndpointSlice{bad}, dualBad, odd, newService("port", "web:82/TCP"))
	equal(t, "table", show(table), []string{
		"10.96.0.10:80/tcp forward,forward+m 10.244.0.1:80",
		"10.96.0.10:82/tcp refuse",
		"10.96.0.11:80/tcp forward,forward+m 10.244.0.1:80",
	})
	got := texts(problems)
	slices.Sort(got)
	slice := func(i, text string) string {
		return "EndpointSlice default/s: endpoints[" + i + "].addresses[0]: \"" + text +
			"\" is no IPv4 address, the endpoint is left out: write an address of the slice's addressType"
	}
	nobody := func(i, text string) string {
		return "EndpointSlice default/s: endpoints[" + i + "].addresses[0]: " + text +
			" is the address of no single host, the endpoint is left out: write the address of a Pod or of another server"
	}
	equal(t, "problems", slices.Compact(got), []string{
		slice("1", "010.244.0.2"), slice("2", "::ffff:10.244.0.3"), slice("3", "fd00::1"),
		nobody("4", "255.255.255.255"), nobody("5", "239.1.1.1"), nobody("6", "0.0.0.0"),
		`Service default/dual: spec.clusterIPs[1]: "fd00::zz" is no IP address; the Service has no frontend there: write the address in its usual form, or leave it out to be given one`,
		`Service default/odd: spec.ports[1].protocol: protocol "QUIC" is not known, the port has no frontend: write TCP, UDP or SCTP`,
		`warning: Service default/port: spec.ports[0]: no IPv4 endpoint has a tcp port named "web", so connections to port 82 are refused: ` +
			`make targetPort the name of a container port of the Pods, or give the EndpointSlice a port of this name and protocol`,
	})
}

// Two Services may select the same Pods: each has its own sets.
func TestServicesShareEndpoints(t *testing.T) {
	table, problems := tableOf([]*discoveryv1.EndpointSlice{newSlice("s", ports("http:80/TCP"), "10.244.0.1")},
		newService("a", "http:80/TCP"), clusterIP(newService("b", "http:80/TCP"), "10.96.0.11"))
	equal(t, "table", show(table), []string{"10.96.0.10:80/tcp forward,forward+m 10.244.0.1:80", "10.96.0.11:80/tcp forward,forward+m 10.244.0.1:80"})
	equal(t, "problems", texts(problems), nil)
}

// Whatever comes in, in whatever order, the table is canonical: sorted, without
// duplicates, each set named by some route, non-empty, of one family.
func TestTableIsCanonical(t *testing.T) {
	address := rapid.SampledFrom([]string{"10.244.0.1", "10.244.0.2", "fd00::1", "fd00::2", "bad"})
	flags := rapid.SampledFrom([]string{"", "@n1", "@n2", " st", "@n1 st", "@n2 -", " t"})
	vip := rapid.SampledFrom([]string{"10.96.0.1", "10.96.0.2", "fd00:10:96::1", "None", "bad"})
	port := rapid.SampledFrom([]string{"a:80/TCP", "b:81/TCP", "a:80/UDP", "a:82/TCP", ":80/TCP", "c:80/SCTP"})
	rapid.Check(t, func(t *rapid.T) {
		var services []*corev1.Service
		given := map[types.NamespacedName][]*discoveryv1.EndpointSlice{}
		for _, name := range rapid.SliceOfNDistinct(rapid.StringMatching("[a-d]"), 0, 4, rapid.ID).Draw(t, "services") {
			svc := clusterIP(newService(name, rapid.SliceOfNDistinct(port, 1, 3, rapid.ID).Draw(t, "ports")...), rapid.SliceOfNDistinct(vip, 1, 2, rapid.ID).Draw(t, "vips")...)
			svc.Spec.InternalTrafficPolicy = rapid.SampledFrom([]*corev1.ServiceInternalTrafficPolicy{nil, new(corev1.ServiceInternalTrafficPolicyLocal)}).Draw(t, "policy")
			services = append(services, svc)
			for i := range rapid.IntRange(0, 3).Draw(t, "slices") {
				var eps []string
				for range rapid.IntRange(0, 4).Draw(t, "endpoints") {
					eps = append(eps, address.Draw(t, "address")+flags.Draw(t, "flags"))
				}
				key := types.NamespacedName{Namespace: "default", Name: name}
				given[key] = append(given[key], newSlice(name+string(rune('0'+i)), ports(rapid.SliceOfN(port, 0, 3).Draw(t, "slice ports")...), eps...))
			}
		}
		of := func(name types.NamespacedName) []*discoveryv1.EndpointSlice { return given[name] }
		table, problems := balance.Build(node(), services, of)
		checkCanonical(t, table)
		slices.Reverse(services)
		for _, s := range given {
			slices.Reverse(s)
		}
		again, _ := balance.Build(node(), services, of)
		if !slices.Equal(show(table), show(again)) {
			t.Fatalf("the table depends on order:\n%v\n%v", show(table), show(again))
		}
		for _, p := range problems {
			if p.Object == (cluster.Ref{}) || p.Field == "" || p.Message == "" {
				t.Fatalf("a problem that does not say where or what: %+v", p)
			}
		}
	})
}

func checkCanonical(t *rapid.T, table dataplane.Table) {
	used := map[string]bool{}
	for i, fe := range table.Frontends {
		if i > 0 && table.Frontends[i-1].Key.Compare(fe.Key) >= 0 {
			t.Fatalf("frontends %s and %s out of order", table.Frontends[i-1].Key, fe.Key)
		}
		for _, r := range fe.Routes {
			if (r.Set != "") != (r.Verdict == dataplane.Forward) {
				t.Fatalf("%s: %s with set %q", fe.Key, r.Verdict, r.Set)
			}
			if r.Set != "" {
				used[r.Set] = true
			}
		}
	}
	for i, s := range table.Sets {
		if i > 0 && table.Sets[i-1].Name >= s.Name || !used[s.Name] || len(s.Endpoints) == 0 {
			t.Fatalf("set %q is out of order, unused or empty", s.Name)
		}
		delete(used, s.Name)
		for j, e := range s.Endpoints {
			if j > 0 && s.Endpoints[j-1].Addr.Compare(e.Addr) >= 0 || e.Weight < 1 || dataplane.FamilyOf(e.Addr.Addr()) != dataplane.FamilyOf(s.Endpoints[0].Addr.Addr()) {
				t.Fatalf("set %q: endpoint %v", s.Name, e)
			}
		}
	}
	if len(used) > 0 {
		t.Fatalf("sets named by routes and missing: %v", used)
	}
}
