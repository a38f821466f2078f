package walk

import (
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/toyproxy/toyproxy/balance"
)

func serviceName(i int) string { return fmt.Sprintf("s%d", i) }

// portKinds are the ports that Services have, some of them each.
func portKinds() []corev1.ServicePort {
	return []corev1.ServicePort{
		{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080), Protocol: corev1.ProtocolTCP},
		{Name: "named", Port: 81, TargetPort: intstr.FromString("web"), Protocol: corev1.ProtocolTCP},
		{Name: "dns", Port: 53, TargetPort: intstr.FromInt32(5353), Protocol: corev1.ProtocolUDP},
		{Name: "sctp", Port: 90, TargetPort: intstr.FromInt32(9000), Protocol: corev1.ProtocolSCTP},
	}
}

// changeService makes a Service come, go, or change in one or all respects.
func (w *world) changeService() string {
	name := serviceName(w.IntN(mostServices))
	old := w.services[name]
	if old != nil && w.chance(12) {
		delete(w.services, name)
		return "Service " + name + " is gone"
	}
	edits := []func(*corev1.Service){w.kind, w.addresses, w.ports, w.outer, w.ranges, w.policies, w.affinity, w.selects, w.wishes, w.age}
	if old != nil && w.chance(75) {
		next := old.DeepCopy()
		one(w, edits...)(next)
		w.services[name] = next
		return "Service " + name + " changes: " + describeService(next)
	}
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	for _, edit := range edits {
		edit(s)
	}
	w.services[name] = s
	return "Service " + name + " comes: " + describeService(s)
}

func describeService(s *corev1.Service) string {
	ports := ""
	for _, p := range s.Spec.Ports {
		ports += fmt.Sprintf(" %s:%d", p.Name, p.NodePort)
	}
	return fmt.Sprint(s.Spec.Type, " ", s.Spec.ClusterIPs, ports, " ", s.Spec.ExternalIPs, s.Status.LoadBalancer.Ingress, s.Spec.LoadBalancerSourceRanges,
		" ", s.Spec.ExternalTrafficPolicy, " ", s.Spec.SessionAffinity, s.Spec.Selector, s.Annotations, s.Labels, s.CreationTimestamp.Year())
}

func (w *world) kind(s *corev1.Service) {
	cluster, node, balancer := corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer
	s.Spec.Type = one(w, cluster, cluster, cluster, node, node, balancer, balancer, balancer, balancer)
	s.Labels = nil
	switch {
	case w.chance(3):
		s.Spec.Type = corev1.ServiceTypeExternalName
	case w.chance(3):
		s.Labels = map[string]string{balance.ProxyNameLabel: "other"}
	}
}

// addresses gives a Service an address of its own, now and then another one's.
func (w *world) addresses(s *corev1.Service) {
	number := 10 + s.Name[1] - '0'
	if w.chance(10) {
		number = byte(10 + w.IntN(mostServices))
	}
	v4 := netip.AddrFrom4([4]byte{10, 96, 0, number})
	families := one(w, []corev1.IPFamily{corev1.IPv4Protocol}, []corev1.IPFamily{corev1.IPv6Protocol},
		[]corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}, []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol})
	s.Spec.IPFamilies, s.Spec.ClusterIPs = families, nil
	for _, f := range families {
		s.Spec.ClusterIPs = append(s.Spec.ClusterIPs, ofFamily(v4, f).String())
	}
	s.Spec.ClusterIP = s.Spec.ClusterIPs[0]
	if w.chance(4) {
		s.Spec.ClusterIP, s.Spec.ClusterIPs = corev1.ClusterIPNone, []string{corev1.ClusterIPNone}
	}
}

func ofFamily(v4 netip.Addr, f corev1.IPFamily) netip.Addr {
	if f == corev1.IPv4Protocol {
		return v4
	}
	return twin(v4)
}

// ports draws ports and node ports: few numbers, so that Services collide.
func (w *world) ports(s *corev1.Service) {
	s.Spec.Ports = nil
	for i, p := range portKinds() {
		if w.chance([]int{70, 40, 40, 15}[i]) || i == 0 && w.chance(80) {
			p.NodePort = one[int32](w, 30000, 30001, 30002, 30003, 30004, 80, 0)
			s.Spec.Ports = append(s.Spec.Ports, p)
		}
	}
}

// outerAddrs are the addresses that external IPs and load balancers have. Those
// of the node are among them, where they go before node ports, and one that is a
// ClusterIP as well.
func outerAddrs() []netip.Addr {
	inner := netip.AddrFrom4([4]byte{10, 96, 0, 10})
	out := append(nodeAddrs(), inner, twin(inner))
	for n := range byte(5) {
		v4 := netip.AddrFrom4([4]byte{203, 0, 113, 1 + n})
		out = append(out, v4, twin(v4))
	}
	return out
}

func (w *world) outer(s *corev1.Service) {
	s.Spec.ExternalIPs, s.Status.LoadBalancer.Ingress = nil, nil
	for _, a := range outerAddrs() {
		if w.chance(10) {
			s.Spec.ExternalIPs = append(s.Spec.ExternalIPs, a.String())
		}
		if w.chance(15) {
			s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: a.String(),
				IPMode: one(w, nil, nil, nil, new(corev1.LoadBalancerIPModeVIP), new(corev1.LoadBalancerIPModeProxy))})
		}
	}
}

func (w *world) ranges(s *corev1.Service) {
	s.Spec.LoadBalancerSourceRanges = nil
	if w.chance(60) {
		return
	}
	for range 1 + w.IntN(3) {
		s.Spec.LoadBalancerSourceRanges = append(s.Spec.LoadBalancerSourceRanges, one(w, "192.0.2.0/24", "192.0.2.10/32", "198.18.0.0/24", "198.18.0.0/15",
			"10.244.0.0/16", "fd00:192:2::/64", "fd00:198:18::/64", "fd00:10:244::/56", "0.0.0.0/0", "10.0.0.0/33"))
	}
}

func (w *world) policies(s *corev1.Service) {
	s.Spec.ExternalTrafficPolicy = one(w, corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal)
	s.Spec.InternalTrafficPolicy = one(w, nil, nil, nil, new(corev1.ServiceInternalTrafficPolicyLocal))
	s.Spec.TrafficDistribution = one(w, nil, nil, nil, new(corev1.ServiceTrafficDistributionPreferSameZone), new(corev1.ServiceTrafficDistributionPreferSameNode))
	s.Spec.PublishNotReadyAddresses = w.chance(10)
}

func (w *world) affinity(s *corev1.Service) {
	s.Spec.SessionAffinity, s.Spec.SessionAffinityConfig = corev1.ServiceAffinityNone, nil
	if w.chance(25) {
		s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: one[*int32](w, nil, new(int32(60)), new(int32(600)))}}
	}
}

func (w *world) selects(s *corev1.Service) {
	s.Spec.Selector = one(w, nil, map[string]string{"app": "a"}, map[string]string{"app": "a"}, map[string]string{"app": "b"},
		map[string]string{"app": "c"}, map[string]string{"version": "v1"}, map[string]string{"app": "b", "version": "v2"})
}

func (w *world) wishes(s *corev1.Service) {
	s.Annotations = nil
	if w.chance(10) {
		s.Annotations = map[string]string{balance.SchedulerAnnotation: one(w, "lc", "wrr", "sh", "unknown")}
	}
}

// age draws who keeps what several claim.
func (w *world) age(s *corev1.Service) {
	s.CreationTimestamp = metav1.Time{}
	if year := w.IntN(3); year > 0 {
		s.CreationTimestamp = metav1.Date(2020+year, 1, 1, 0, 0, 0, 0, time.UTC)
	}
}
