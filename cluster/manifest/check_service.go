package manifest

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checkService validates a defaulted Service, except for what depends on other
// Services and on the address ranges; that is the allocator's.
func checkService(s *corev1.Service) field.ErrorList {
	spec, path := &s.Spec, field.NewPath("spec")
	return lists(
		// Since Kubernetes 1.36 a Service name may begin with a digit.
		checkMeta(&s.ObjectMeta, true, apivalidation.NameIsDNSLabel),
		checkTopologyAnnotations(s.Annotations),
		checkType(spec, path),
		checkServicePorts(spec, path.Child("ports")),
		metavalidation.ValidateLabels(spec.Selector, path.Child("selector")),
		checkAffinity(spec, path),
		checkClusterIPs(spec, path),
		checkExternalIPs(spec.ExternalIPs, path.Child("externalIPs")),
		checkLoadBalancer(s, path),
		checkTrafficPolicies(spec, path),
		checkBalancers(s.Status.LoadBalancer.Ingress, field.NewPath("status", "loadBalancer", "ingress")),
	)
}

func checkTopologyAnnotations(a map[string]string) field.ErrorList {
	mode, hasMode := a[corev1.AnnotationTopologyMode]
	hints, hasHints := a[corev1.DeprecatedAnnotationTopologyAwareHints]
	if !hasMode || !hasHints || mode == hints {
		return nil
	}
	path := field.NewPath("metadata", "annotations").Key(corev1.AnnotationTopologyMode)
	return field.ErrorList{field.Invalid(path, mode, "must match annotations["+corev1.DeprecatedAnnotationTopologyAwareHints+"] when both are specified")}
}

func headless(spec *corev1.ServiceSpec) bool {
	return len(spec.ClusterIPs) > 0 && spec.ClusterIPs[0] == corev1.ClusterIPNone
}

func checkType(spec *corev1.ServiceSpec, path *field.Path) (errs field.ErrorList) {
	errs = oneOf(path.Child("type"), spec.Type, corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort,
		corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeExternalName)
	if spec.Type == corev1.ServiceTypeExternalName {
		return append(errs, checkExternalName(spec, path)...)
	}
	if headless(spec) && spec.Type != corev1.ServiceTypeClusterIP {
		errs = append(errs, field.Invalid(path.Child("clusterIPs").Index(0), corev1.ClusterIPNone,
			fmt.Sprintf("may not be set to 'None' for %s services", spec.Type)))
	}
	if len(spec.Ports) == 0 && !headless(spec) {
		errs = append(errs, field.Required(path.Child("ports"), "only headless Services may do without"))
	}
	return errs
}

func checkExternalName(spec *corev1.ServiceSpec, path *field.Path) (errs field.ErrorList) {
	const why = "may not be set for ExternalName services"
	if len(spec.ClusterIPs) > 0 {
		errs = append(errs, field.Forbidden(path.Child("clusterIPs"), why))
	}
	if len(spec.IPFamilies) > 0 {
		errs = append(errs, field.Forbidden(path.Child("ipFamilies"), why))
	}
	if spec.IPFamilyPolicy != nil {
		errs = append(errs, field.Forbidden(path.Child("ipFamilyPolicy"), why))
	}
	name := strings.TrimSuffix(spec.ExternalName, ".")
	if name == "" {
		return append(errs, field.Required(path.Child("externalName"), "the DNS name that this Service stands for"))
	}
	return append(errs, invalid(path.Child("externalName"), name, validation.IsDNS1123Subdomain(name))...)
}

// portKey is what two ports of one Service may not share.
type portKey struct {
	protocol corev1.Protocol
	number   int32
}

func checkServicePorts(spec *corev1.ServiceSpec, path *field.Path) (errs field.ErrorList) {
	names, ports, nodePorts := map[string]bool{}, map[portKey]bool{}, map[portKey]bool{}
	for i := range spec.Ports {
		p, at := &spec.Ports[i], path.Index(i)
		switch {
		case p.Name != "":
			errs = append(errs, invalid(at.Child("name"), p.Name, validation.IsDNS1123Label(p.Name))...)
			errs = append(errs, seenBefore(names, p.Name, at.Child("name"), p.Name)...)
		case len(spec.Ports) > 1:
			errs = append(errs, field.Required(at.Child("name"), "a Service of several ports must name each"))
		}
		errs = append(errs, checkPortNumber(at.Child("port"), p.Port)...)
		errs = append(errs, checkProtocol(at.Child("protocol"), p.Protocol)...)
		errs = append(errs, checkTargetPort(at.Child("targetPort"), p)...)
		errs = append(errs, checkAppProtocol(at.Child("appProtocol"), p.AppProtocol)...)
		errs = append(errs, seenBefore(ports, portKey{p.Protocol, p.Port}, at, fmt.Sprintf("%s port %d", p.Protocol, p.Port))...)
		if p.NodePort == 0 {
			continue
		}
		if spec.Type == corev1.ServiceTypeClusterIP {
			errs = append(errs, field.Forbidden(at.Child("nodePort"), "may not be used when `type` is 'ClusterIP'"))
		}
		errs = append(errs, seenBefore(nodePorts, portKey{p.Protocol, p.NodePort}, at.Child("nodePort"), p.NodePort)...)
	}
	return errs
}

func checkTargetPort(path *field.Path, p *corev1.ServicePort) field.ErrorList {
	if p.TargetPort.Type == intstr.String {
		return invalid(path, p.TargetPort.StrVal, validation.IsValidPortName(p.TargetPort.StrVal))
	}
	if p.TargetPort.IntVal == p.Port {
		return nil // defaulted, or said once already of port
	}
	return checkPortNumber(path, p.TargetPort.IntVal)
}

func checkAppProtocol(path *field.Path, name *string) field.ErrorList {
	if name == nil {
		return nil
	}
	return invalid(path, *name, validation.IsQualifiedName(*name))
}

func checkAffinity(spec *corev1.ServiceSpec, path *field.Path) field.ErrorList {
	errs := oneOf(path.Child("sessionAffinity"), spec.SessionAffinity, corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone)
	if spec.SessionAffinity != corev1.ServiceAffinityClientIP {
		return errs
	}
	const longest = 86400 // a day
	at := path.Child("sessionAffinityConfig", "clientIP", "timeoutSeconds")
	if t := *spec.SessionAffinityConfig.ClientIP.TimeoutSeconds; t < 1 || t > longest {
		errs = append(errs, field.Invalid(at, t, fmt.Sprintf("must be greater than 0 and no more than %d", longest)))
	}
	return errs
}

// checkClusterIPs validates clusterIP, clusterIPs, ipFamilies and
// ipFamilyPolicy against each other; not against the ranges.
func checkClusterIPs(spec *corev1.ServiceSpec, path *field.Path) (errs field.ErrorList) {
	if spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	at := path.Child("clusterIPs")
	switch {
	case spec.ClusterIP == "" && len(spec.ClusterIPs) > 0:
		errs = append(errs, field.Invalid(at, spec.ClusterIPs, "must be empty when `clusterIP` is not specified"))
	case spec.ClusterIP != "" && spec.ClusterIPs[0] != spec.ClusterIP:
		errs = append(errs, field.Invalid(at, spec.ClusterIPs, "first value must match `clusterIP`"))
	}
	errs = append(errs, checkFamilies(spec, path)...)
	if headless(spec) {
		if len(spec.ClusterIPs) > 1 {
			errs = append(errs, field.Invalid(at, spec.ClusterIPs, "'None' must be the first and only value"))
		}
		return errs
	}
	if errs = append(errs, checkAddressFamilies(spec, at)...); len(errs) > 0 {
		return errs
	}
	return checkPair(at, spec.ClusterIPs, parseAddr, isIPv4)
}

// checkAddressFamilies requires addresses of the families that are listed.
func checkAddressFamilies(spec *corev1.ServiceSpec, path *field.Path) (errs field.ErrorList) {
	for i, text := range spec.ClusterIPs {
		addr, err := parseAddr(path.Index(i), text)
		if err != nil {
			errs = append(errs, err)
		} else if i < len(spec.IPFamilies) && familyOf(addr) != spec.IPFamilies[i] {
			errs = append(errs, field.Invalid(path.Index(i), text, fmt.Sprintf("expected an %s value as indicated by `ipFamilies[%d]`", spec.IPFamilies[i], i)))
		}
	}
	return errs
}

func checkFamilies(spec *corev1.ServiceSpec, path *field.Path) (errs field.ErrorList) {
	seen := map[corev1.IPFamily]bool{}
	for i, f := range spec.IPFamilies {
		at := path.Child("ipFamilies").Index(i)
		errs = append(errs, oneOf(at, f, corev1.IPv4Protocol, corev1.IPv6Protocol)...)
		errs = append(errs, seenBefore(seen, f, at, f)...)
	}
	if p := spec.IPFamilyPolicy; p != nil {
		errs = append(errs, oneOf(path.Child("ipFamilyPolicy"), *p, corev1.IPFamilyPolicySingleStack,
			corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack)...)
	}
	return errs
}

func checkExternalIPs(addrs []string, path *field.Path) (errs field.ErrorList) {
	for i, text := range addrs {
		errs = append(errs, checkEndpointAddr(path.Index(i), text)...)
	}
	return errs
}

// checkLoadBalancer validates the fields that only type LoadBalancer may set.
func checkLoadBalancer(s *corev1.Service, path *field.Path) (errs field.ErrorList) {
	spec := &s.Spec
	const only = "may only be used when `type` is 'LoadBalancer'"
	balanced := spec.Type == corev1.ServiceTypeLoadBalancer
	at, ranges := sourceRanges(s, path)
	if at != nil && !balanced {
		errs = append(errs, field.Forbidden(at, only))
	}
	for i, text := range ranges {
		item := at
		if len(spec.LoadBalancerSourceRanges) > 0 {
			item = at.Index(i)
		}
		if _, err := parsePrefix(item, strings.TrimSpace(text)); err != nil {
			errs = append(errs, err)
		}
	}
	if spec.AllocateLoadBalancerNodePorts != nil && !balanced {
		errs = append(errs, field.Forbidden(path.Child("allocateLoadBalancerNodePorts"), only))
	}
	switch class := spec.LoadBalancerClass; {
	case class != nil && !balanced:
		errs = append(errs, field.Forbidden(path.Child("loadBalancerClass"), only))
	case class != nil:
		errs = append(errs, invalid(path.Child("loadBalancerClass"), *class, validation.IsQualifiedName(*class))...)
	}
	return errs
}

// sourceRanges returns the allowed client ranges and the field that says them;
// the annotation is the old way and counts when the field is empty.
func sourceRanges(s *corev1.Service, path *field.Path) (*field.Path, []string) {
	if r := s.Spec.LoadBalancerSourceRanges; len(r) > 0 {
		return path.Child("loadBalancerSourceRanges"), r
	}
	text, ok := s.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey]
	if !ok {
		return nil, nil
	}
	at := field.NewPath("metadata", "annotations").Key(corev1.AnnotationLoadBalancerSourceRangesKey)
	if strings.TrimSpace(text) == "" {
		return at, nil
	}
	return at, strings.Split(text, ",")
}

func checkTrafficPolicies(spec *corev1.ServiceSpec, path *field.Path) (errs field.ErrorList) {
	external := path.Child("externalTrafficPolicy")
	switch {
	case externallyAccessible(spec):
		errs = append(errs, oneOf(external, spec.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal)...)
	case spec.ExternalTrafficPolicy != "":
		errs = append(errs, field.Invalid(external, spec.ExternalTrafficPolicy, "may only be set for externally-accessible services"))
	}
	if !needsHealthCheck(spec) && spec.HealthCheckNodePort != 0 {
		errs = append(errs, field.Invalid(path.Child("healthCheckNodePort"), spec.HealthCheckNodePort,
			"may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"))
	}
	if p := spec.InternalTrafficPolicy; p != nil {
		errs = append(errs, oneOf(path.Child("internalTrafficPolicy"), *p, corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal)...)
	}
	if d := spec.TrafficDistribution; d != nil {
		errs = append(errs, oneOf(path.Child("trafficDistribution"), *d, corev1.ServiceTrafficDistributionPreferClose,
			corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode)...)
	}
	return errs
}

// checkBalancers validates the load-balancer addresses, which an API server would
// take from its status endpoint only; in a manifest they are as good as spec.
func checkBalancers(ingress []corev1.LoadBalancerIngress, path *field.Path) (errs field.ErrorList) {
	for i, in := range ingress {
		at := path.Index(i)
		if in.IP != "" {
			if _, err := parseAddr(at.Child("ip"), in.IP); err != nil {
				errs = append(errs, err)
			}
		}
		switch {
		case in.IPMode == nil:
		case in.IP == "":
			errs = append(errs, field.Forbidden(at.Child("ipMode"), "may not be specified when `ip` is not set"))
		default:
			errs = append(errs, oneOf(at.Child("ipMode"), *in.IPMode, corev1.LoadBalancerIPModeProxy, corev1.LoadBalancerIPModeVIP)...)
		}
		if in.Hostname != "" {
			errs = append(errs, invalid(at.Child("hostname"), in.Hostname, validation.IsDNS1123Subdomain(in.Hostname))...)
			if _, err := netip.ParseAddr(in.Hostname); err == nil {
				errs = append(errs, field.Invalid(at.Child("hostname"), in.Hostname, "must be a DNS name, not an IP address; write it as `ip`"))
			}
		}
	}
	return errs
}
