package balance_test

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/toyproxy/toyproxy/balance"
	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/dataplane"
)

// build is the table of a node for some Services that share their slices.
func build(n balance.Node, slices []*discoveryv1.EndpointSlice, services ...*corev1.Service) (dataplane.Table, []cluster.Problem) {
	var parts []balance.Part
	for _, svc := range services {
		parts = append(parts, balance.MakePart(n, svc, slices))
	}
	return balance.Join(n, parts)
}

// Which doors a Service opens, in which family.
func TestDoors(t *testing.T) {
	const m = " forward+m 10.244.0.1:80"
	cip, np := "10.96.0.10:80/tcp forward,forward+m 10.244.0.1:80", "0.0.0.0:30080/tcp"+m
	xip, lb1, lb2 := "198.51.100.10:80/tcp"+m, "198.51.100.20:80/tcp"+m, "198.51.100.21:80/tcp"+m
	for _, tc := range []struct {
		name     string
		edit     func(*corev1.Service)
		want     []string
		problems []string
	}{
		{"all", func(*corev1.Service) {}, []string{np, cip, xip, lb1, lb2}, nil},
		{"B10: type NodePort", func(s *corev1.Service) {
			s.Spec.Type, s.Status = corev1.ServiceTypeNodePort, corev1.ServiceStatus{}
		}, []string{np, cip, xip}, nil},
		{"type ClusterIP with numbers left over", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP }, []string{cip, xip}, []string{
			"warning: Service default/web: status.loadBalancer.ingress[0].ip: ignored, because the Service is of type ClusterIP: make it LoadBalancer, or remove the address",
			"warning: Service default/web: status.loadBalancer.ingress[1].ip: ignored, because the Service is of type ClusterIP: make it LoadBalancer, or remove the address"}},
		{"B20: no node ports allocated", func(s *corev1.Service) {
			s.Spec.Ports[0].NodePort, s.Spec.AllocateLoadBalancerNodePorts = 0, new(bool)
		}, []string{cip, xip, lb1, lb2}, nil},
		{"B17: ipMode Proxy", func(s *corev1.Service) {
			s.Status.LoadBalancer.Ingress[0].IPMode = new(corev1.LoadBalancerIPModeProxy)
			s.Status.LoadBalancer.Ingress[1].IPMode = new(corev1.LoadBalancerIPModeVIP)
		}, []string{np, cip, xip, lb2}, nil},
		{"B16: a host name", func(s *corev1.Service) {
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{Hostname: "lb.example.com"}}
		}, []string{np, cip, xip}, nil},
		{"A4: ExternalName", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName }, nil, nil},
		{"A2: headless", func(s *corev1.Service) { clusterIP(s, "None") }, nil, []string{
			"warning: Service default/web: spec.externalIPs: ignored, because the Service is headless and so has no frontends: leave clusterIP out to have them, or remove the addresses"}},
		{"A1: another proxy's", func(s *corev1.Service) { s.Labels = map[string]string{balance.ProxyNameLabel: ""} }, nil, nil},
		{"one address twice", func(s *corev1.Service) {
			s.Spec.ExternalIPs = []string{"198.51.100.10", "198.51.100.10", "198.51.100.20"}
		}, []string{np, cip, xip, lb1, lb2}, nil},
		{"A5: an address of the other family", func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"2001:db8::1"} }, []string{np, cip, lb1, lb2}, []string{
			"warning: Service default/web: spec.externalIPs[0]: 2001:db8::1 is ignored, because the Service has no IPv6 address: list IPv6 in spec.ipFamilies, or remove the address"}},
		{"addresses that are none", func(s *corev1.Service) {
			s.Spec.ExternalIPs, s.Status.LoadBalancer.Ingress[1].IP = []string{"0.0.0.0", "198.51.100.10"}, "127.0.0.1"
		}, []string{np, cip, xip, lb1}, []string{
			`Service default/web: spec.externalIPs[0]: "0.0.0.0" is no address that a client elsewhere can dial; the Service has no frontend there: write an address in its usual form, or remove it`,
			`Service default/web: status.loadBalancer.ingress[1].ip: "127.0.0.1" is no address that a client elsewhere can dial; the Service has no frontend there: write an address in its usual form, or remove it`}},
		{"a number that is no port", func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 95616 }, []string{cip, xip, lb1, lb2}, []string{
			"Service default/web: spec.ports[0].nodePort: 95616 is no port number, there is no frontend for it: write a number between 1 and 65535"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			table, problems := build(openNode(), pods("a"), openService(tc.edit))
			equal(t, "table", show(table), tc.want)
			equal(t, "problems", texts(problems), tc.problems)
		})
	}
}

func TestDoorsOfBothFamilies(t *testing.T) {
	svc := clusterIP(openService(ranges("2001:db8::/32")), "10.96.0.10", "fd00:10:96::a")
	svc.Spec.ExternalIPs = append(svc.Spec.ExternalIPs, "2001:db8::10")
	svc.Status.LoadBalancer.Ingress[1].IP = "2001:db8::20"
	slices := append(pods("a"), newSlice("six", ports("http:80/TCP"), "fd00:10:244::1"))
	table, problems := build(openNode(), slices, svc)
	four, six := " forward+m 10.244.0.1:80", " forward+m [fd00:10:244::1]:80"
	equal(t, "table", show(table), []string{
		"0.0.0.0:30080/tcp" + four, "10.96.0.10:80/tcp forward,forward+m 10.244.0.1:80", "198.51.100.10:80/tcp" + four, "198.51.100.20:80/tcp" + four,
		"[::]:30080/tcp" + six, "[2001:db8::10]:80/tcp" + six, "[2001:db8::20]:80/tcp" + six, "[fd00:10:96::a]:80/tcp forward,forward+m [fd00:10:244::1]:80",
	})
	equal(t, "problems", texts(problems), []string{"warning: Service default/web: spec.loadBalancerSourceRanges: " +
		"no range is IPv4, so every IPv4 source may use the load balancer's addresses: add an IPv4 range"})
	fe, _ := table.Frontend(dataplane.Key{Addr: netip.MustParseAddr("2001:db8::20"), Protocol: dataplane.TCP, Port: 80})
	equal(t, "allowed", fe.Allowed, []netip.Prefix{netip.MustParsePrefix("2001:db8::/32")})
}

// What ranges become: masked, sorted, none inside another, and never wider
// because of a fault.
func TestSourceRanges(t *testing.T) {
	for _, tc := range []struct {
		name     string
		ranges   []string
		allowed  []string
		shut     bool
		problems int
	}{
		{"none", nil, nil, false, 0},
		{"in disorder, inside each other", []string{"203.0.113.7/25", "198.51.0.0/16", "203.0.113.0/24", "203.0.113.0/25"}, []string{"198.51.0.0/16", "203.0.113.0/24"}, false, 0},
		{"the node inside", []string{"192.168.0.0/16"}, []string{"192.168.0.0/16", "198.51.100.20/32", "198.51.100.21/32"}, false, 0},
		{"everything", []string{"10.0.0.0/8", "1.2.3.4/0"}, nil, false, 0},
		{"a fault beside a range", []string{"10.0.0.0/8", `0.0.0.0/0" -j ACCEPT`}, []string{"10.0.0.0/8"}, false, 1},
		{"nothing but a fault", []string{"10.0.0/8"}, nil, true, 1},
		{"a fault beside the other family", []string{"2001:db8::/32", "::ffff:10.0.0.0/104"}, nil, true, 1},
		{"the other family only", []string{"2001:db8::/32"}, nil, false, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			table, problems := build(openNode(), pods("a"), openService(ranges(tc.ranges...)))
			fe, ok := table.Frontend(dataplane.Key{Addr: place("LB1"), Protocol: dataplane.TCP, Port: 80})
			if ok == tc.shut {
				t.Errorf("load balancer address served: %t", ok)
			}
			var got []string
			for _, p := range fe.Allowed {
				got = append(got, p.String())
			}
			equal(t, "allowed", got, tc.allowed)
			if len(problems) != tc.problems {
				t.Errorf("problems: %v", texts(problems))
			}
			if other, ok := table.Frontend(dataplane.Key{Addr: place("XIP"), Protocol: dataplane.TCP, Port: 80}); !ok || other.Allowed != nil {
				t.Error("an external IP is restricted")
			}
		})
	}
	t.Run("the annotation of old", func(t *testing.T) {
		_, problems := build(openNode(), pods("a"), openService(func(s *corev1.Service) {
			s.Annotations = map[string]string{corev1.AnnotationLoadBalancerSourceRangesKey: "10.0.0.0/8"}
		}))
		equal(t, "problems", texts(problems), []string{"warning: Service default/web: metadata.annotations[service.beta.kubernetes.io/load-balancer-source-ranges]: " +
			"ignored, every source may use the load balancer's addresses on this node: write the ranges in spec.loadBalancerSourceRanges"})
	})
}
