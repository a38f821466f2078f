package balance

import (
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/toyproxy/toyproxy/dataplane"
)

// The annotations of a Service that wish a kernel scheduler. The second is the
// one kube-router reads; ours goes before.
const (
	SchedulerAnnotation = "toyproxy.dev/ipvs-scheduler"
	kubeRouterScheduler = "kube-router.io/service.scheduler"
)

// longestScheduler is what the kernel has room for, in bytes.
const longestScheduler = 15

// facts are what all ports of a Service have in common on a node, read once.
type facts struct {
	node      Node
	service   *corev1.Service
	vips      []netip.Addr
	affinity  time.Duration
	scheduler string
	// internalLocal and externalLocal: the policies keep traffic to the
	// ClusterIP, or from outside, on the node.
	internalLocal, externalLocal bool
	// outer are the ways in from outside.
	outer outer
}

func readFacts(node Node, svc *corev1.Service, found *findings) *facts {
	f := &facts{node: node, service: svc, affinity: affinityOf(svc)}
	f.vips = clusterIPs(svc, found)
	f.scheduler = scheduler(svc, found)
	if policy := svc.Spec.InternalTrafficPolicy; policy != nil {
		f.internalLocal = *policy == corev1.ServiceInternalTrafficPolicyLocal
	}
	f.externalLocal = svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	f.outer = readOuter(f, found)
	return f
}

// has reports whether the Service has a ClusterIP of the family. Without one no
// door of the family is open.
func (f *facts) has(family dataplane.Family) bool {
	for _, vip := range f.vips {
		if dataplane.FamilyOf(vip) == family {
			return true
		}
	}
	return false
}

// scheduler returns the kernel scheduler that the Service wishes.
func scheduler(svc *corev1.Service, found *findings) string {
	for _, key := range []string{SchedulerAnnotation, kubeRouterScheduler} {
		name, set := svc.Annotations[key]
		if !set {
			continue
		}
		name = strings.TrimSpace(name)
		if isScheduler(name) {
			return name
		}
		found.badScheduler(svc, key, name)
	}
	return ""
}

func isScheduler(name string) bool {
	for _, c := range []byte(name) {
		if c < 'a' || c > 'z' {
			return false
		}
	}
	return name != "" && len(name) <= longestScheduler
}

// affinityOf returns how long a client stays with its endpoint; 0: not at all.
func affinityOf(svc *corev1.Service) time.Duration {
	if svc.Spec.SessionAffinity != corev1.ServiceAffinityClientIP {
		return 0
	}
	config := svc.Spec.SessionAffinityConfig
	if config == nil || config.ClientIP == nil || config.ClientIP.TimeoutSeconds == nil {
		return defaultAffinity
	}
	return time.Duration(*config.ClientIP.TimeoutSeconds) * time.Second
}
