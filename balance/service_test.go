package balance_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/toyproxy/toyproxy/balance"
	"github.com/toyproxy/toyproxy/dataplane"

	"net/netip"
)

// Everything a frontend and its set say, once.
func TestWholeFrontend(t *testing.T) {
	slice := newSlice("s", ports("http:8080/TCP"), "10.244.0.2@n1", "10.244.0.1@n2", "10.244.0.3")
	slice.Endpoints[0].TargetRef = &corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "web-0"}
	got, problems := tableOf([]*discoveryv1.EndpointSlice{slice}, newService("web", "http:80/TCP"))
	equal(t, "problems", texts(problems), nil)
	const set = "default/web:http/tcp/IPv4/cluster"
	addr := netip.MustParseAddrPort
	want := dataplane.Table{
		Node: dataplane.Node{PodRanges: node().PodRanges},
		Frontends: []dataplane.Frontend{{
			Key:  dataplane.Key{Addr: netip.MustParseAddr("10.96.0.10"), Protocol: dataplane.TCP, Port: 80},
			Kind: dataplane.ClusterIP, Service: "default/web:http",
			Routes: [dataplane.Sources]dataplane.Route{
				dataplane.FromPod:     {Verdict: dataplane.Forward, Set: set},
				dataplane.FromNode:    {Verdict: dataplane.Forward, Set: set, Masquerade: true},
				dataplane.FromOutside: {Verdict: dataplane.Forward, Set: set, Masquerade: true},
			},
		}},
		Sets: []dataplane.EndpointSet{{
			Name: set, Service: "default/web:http", Protocol: dataplane.TCP,
			Endpoints: []dataplane.Endpoint{
				{Addr: addr("10.244.0.1:8080"), Weight: 1},
				{Addr: addr("10.244.0.2:8080"), Weight: 1, Local: true, Name: "default/web-0"},
				{Addr: addr("10.244.0.3:8080"), Weight: 1, Local: true},
			},
		}},
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
		cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

// Which Services have frontends at all.
func TestWhichServicesAreServed(t *testing.T) {
	slice := []*discoveryv1.EndpointSlice{newSlice("s", ports("http:8080/TCP"), "10.244.0.1")}
	served := []string{"10.96.0.10:80/tcp forward,forward+m 10.244.0.1:8080"}
	for _, tc := range []struct {
		name string
		edit func(*corev1.Service)
		want []string
	}{
		{"ClusterIP", func(*corev1.Service) {}, served},
		{"NodePort, by its ClusterIP", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort }, served},
		{"LoadBalancer, by its ClusterIP", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeLoadBalancer }, served},
		{"clusterIPs not filled", func(s *corev1.Service) { s.Spec.ClusterIPs = nil }, served},
		{"headless", func(s *corev1.Service) { clusterIP(s, "None") }, nil},
		{"no address yet", func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs = "", nil }, nil},
		{"ExternalName with a stale ClusterIP", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName }, nil},
		{"another proxy's", func(s *corev1.Service) { s.Labels = map[string]string{balance.ProxyNameLabel: "other"} }, nil},
		{"another proxy's, empty name", func(s *corev1.Service) { s.Labels = map[string]string{balance.ProxyNameLabel: ""} }, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			svc := newService("web", "http:80/TCP")
			tc.edit(svc)
			table, problems := tableOf(slice, svc)
			equal(t, "table", show(table), tc.want)
			equal(t, "problems", texts(problems), nil)
			if len(tc.want) == 0 && len(table.Sets) > 0 {
				t.Error("sets that no frontend uses")
			}
		})
	}
}

func TestAffinity(t *testing.T) {
	seconds := func(n int32) *corev1.SessionAffinityConfig {
		return &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &n}}
	}
	for _, tc := range []struct {
		name     string
		affinity corev1.ServiceAffinity
		config   *corev1.SessionAffinityConfig
		want     time.Duration
	}{
		{"none", corev1.ServiceAffinityNone, nil, 0},
		{"not set", "", nil, 0},
		{"by client, default", corev1.ServiceAffinityClientIP, nil, 3 * time.Hour},
		{"by client, empty config", corev1.ServiceAffinityClientIP, &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{}}, 3 * time.Hour},
		{"by client, ten seconds", corev1.ServiceAffinityClientIP, seconds(10), 10 * time.Second},
		{"none with a config left over", corev1.ServiceAffinityNone, seconds(10), 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			svc := newService("web", "http:80/TCP")
			svc.Spec.SessionAffinity, svc.Spec.SessionAffinityConfig = tc.affinity, tc.config
			table, _ := tableOf([]*discoveryv1.EndpointSlice{newSlice("s", ports("http:80/TCP"), "10.244.0.1")}, svc)
			if got := table.Sets[0].Affinity; got != tc.want {
				t.Errorf("affinity %v, want %v", got, tc.want)
			}
		})
	}
}

func TestInternalTrafficPolicyLocal(t *testing.T) {
	for _, tc := range []struct {
		name      string
		endpoints []string
		want      string
	}{
		{"here and elsewhere", []string{"10.244.0.1@n1", "10.244.0.2@n2"}, "forward,forward+m 10.244.0.1:80"},
		{"elsewhere only", []string{"10.244.0.2@n2"}, "drop"},
		{"node not known", []string{"10.244.0.2"}, "drop"},
		{"case matters", []string{"10.244.0.2@N1"}, "drop"},
		{"none anywhere", []string{"10.244.0.2@n2 -"}, "refuse"},
		{"leaving here, ready elsewhere", []string{"10.244.0.1@n1 st", "10.244.0.2@n2 rs"}, "forward,forward+m 10.244.0.1:80"},
		{"not ready here, leaving elsewhere", []string{"10.244.0.1@n1 -", "10.244.0.2@n2 st"}, "drop"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			svc := newService("web", "http:80/TCP")
			svc.Spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal)
			table, _ := tableOf([]*discoveryv1.EndpointSlice{newSlice("s", ports("http:80/TCP"), tc.endpoints...)}, svc)
			equal(t, "table", show(table), []string{"10.96.0.10:80/tcp " + tc.want})
		})
	}
}

// A node that does not know its name takes every endpoint for one of its own.
func TestNodeWithoutName(t *testing.T) {
	_, sets, _ := balance.Frontends(balance.Node{}, newService("web", "http:80/TCP"),
		[]*discoveryv1.EndpointSlice{newSlice("s", ports("http:80/TCP"), "10.244.0.1@n2")})
	if !sets[0].Endpoints[0].Local {
		t.Error("the endpoint is not local")
	}
}

func TestDualStack(t *testing.T) {
	svc := clusterIP(newService("web", "http:80/TCP"), "fd00:10:96::a", "10.96.0.10")
	table, problems := tableOf([]*discoveryv1.EndpointSlice{
		newSlice("four", ports("http:8080/TCP"), "10.244.0.1"), newSlice("six", ports("http:8080/TCP"), "fd00:10:244::1"),
	}, svc)
	equal(t, "table", show(table), []string{
		"10.96.0.10:80/tcp forward,forward+m 10.244.0.1:8080",
		"[fd00:10:96::a]:80/tcp forward,forward+m [fd00:10:244::1]:8080",
	})
	equal(t, "problems", texts(problems), nil)
	table, _ = tableOf([]*discoveryv1.EndpointSlice{newSlice("six", ports("http:8080/TCP"), "fd00:10:244::1")}, svc)
	equal(t, "IPv6 only has endpoints", show(table), []string{
		"10.96.0.10:80/tcp refuse",
		"[fd00:10:96::a]:80/tcp forward,forward+m [fd00:10:244::1]:8080",
	})
}
