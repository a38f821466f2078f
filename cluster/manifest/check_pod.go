package manifest

import (
	"fmt"
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checkPod validates the parts of a Pod that its network and its processes
// need. Scheduling, resources and what else is not acted on is not validated
// beyond its shape either.
func checkPod(p *corev1.Pod) field.ErrorList {
	return lists(
		checkMeta(&p.ObjectMeta, true, apivalidation.NameIsDNSSubdomain),
		checkPodSpec(&p.Spec, field.NewPath("spec")),
		checkPodStatus(&p.Status, field.NewPath("status")),
	)
}

// checkPodSpec is for Pods and for the templates of Pods alike.
func checkPodSpec(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	return lists(
		checkContainers(spec, path),
		oneOf(path.Child("restartPolicy"), spec.RestartPolicy, corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever),
		oneOf(path.Child("dnsPolicy"), spec.DNSPolicy, corev1.DNSClusterFirst, corev1.DNSClusterFirstWithHostNet, corev1.DNSDefault, corev1.DNSNone),
		metavalidation.ValidateLabels(spec.NodeSelector, path.Child("nodeSelector")),
		checkPodNames(spec, path),
		checkGates(spec, path.Child("readinessGates")),
		checkPodTimes(spec, path),
		checkVolumes(spec, path),
		checkWorld(spec, path),
	)
}

func checkPodNames(spec *corev1.PodSpec, path *field.Path) (errs field.ErrorList) {
	names := []struct {
		field, value string
		check        func(string) []string
	}{
		{"serviceAccountName", spec.ServiceAccountName, validation.IsDNS1123Subdomain},
		{"nodeName", spec.NodeName, validation.IsDNS1123Subdomain},
		{"hostname", spec.Hostname, validation.IsDNS1123Label},
		{"subdomain", spec.Subdomain, validation.IsDNS1123Label},
		{"priorityClassName", spec.PriorityClassName, validation.IsDNS1123Subdomain},
	}
	for _, n := range names {
		if n.value != "" {
			errs = append(errs, invalid(path.Child(n.field), n.value, n.check(n.value))...)
		}
	}
	return errs
}

func checkGates(spec *corev1.PodSpec, path *field.Path) (errs field.ErrorList) {
	for i, g := range spec.ReadinessGates {
		errs = append(errs, invalid(path.Index(i).Child("conditionType"), g.ConditionType, validation.IsQualifiedName(string(g.ConditionType)))...)
	}
	return errs
}

func checkPodTimes(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	errs := apivalidation.ValidateNonnegativeField(*spec.TerminationGracePeriodSeconds, path.Child("terminationGracePeriodSeconds"))
	if d := spec.ActiveDeadlineSeconds; d != nil && (*d < 1 || *d > math.MaxInt32) {
		errs = append(errs, field.Invalid(path.Child("activeDeadlineSeconds"), *d, validation.InclusiveRangeError(1, math.MaxInt32)))
	}
	return errs
}

func checkContainers(spec *corev1.PodSpec, path *field.Path) (errs field.ErrorList) {
	at := path.Child("containers")
	if len(spec.Containers) == 0 {
		errs = append(errs, field.Required(at, "a Pod has at least one container"))
	}
	if len(spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(path.Child("ephemeralContainers"), "cannot be set on create"))
	}
	names, hostPorts := map[string]bool{}, map[string]bool{}
	for i := range spec.Containers {
		errs = append(errs, checkContainer(&spec.Containers[i], names, at.Index(i))...)
		errs = append(errs, checkLife(&spec.Containers[i], spec, false, at.Index(i))...)
		errs = append(errs, checkHostPorts(spec.Containers[i].Ports, hostPorts, at.Index(i).Child("ports"))...)
		if spec.HostNetwork {
			errs = append(errs, checkHostNetwork(spec.Containers[i].Ports, at.Index(i).Child("ports"))...)
		}
	}
	at = path.Child("initContainers")
	for i := range spec.InitContainers {
		errs = append(errs, checkContainer(&spec.InitContainers[i], names, at.Index(i))...)
		errs = append(errs, checkLife(&spec.InitContainers[i], spec, true, at.Index(i))...)
		// Init containers run one by one, so they share no host port.
		errs = append(errs, checkHostPorts(spec.InitContainers[i].Ports, map[string]bool{}, at.Index(i).Child("ports"))...)
	}
	return errs
}

func checkContainer(c *corev1.Container, names map[string]bool, path *field.Path) (errs field.ErrorList) {
	if c.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	} else {
		errs = append(errs, invalid(path.Child("name"), c.Name, validation.IsDNS1123Label(c.Name))...)
		errs = append(errs, seenBefore(names, c.Name, path.Child("name"), c.Name)...)
	}
	switch {
	case c.Image == "":
		errs = append(errs, field.Required(path.Child("image"), "nothing is pulled here, but an API server wants it"))
	case strings.TrimSpace(c.Image) != c.Image:
		errs = append(errs, field.Invalid(path.Child("image"), c.Image, "must not have leading or trailing whitespace"))
	}
	errs = append(errs, oneOf(path.Child("imagePullPolicy"), c.ImagePullPolicy, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)...)
	errs = append(errs, oneOf(path.Child("terminationMessagePolicy"), c.TerminationMessagePolicy,
		corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError)...)
	errs = append(errs, checkContainerPorts(c.Ports, path.Child("ports"))...)
	return append(errs, checkEnv(c.Env, path.Child("env"))...)
}

func checkContainerPorts(ports []corev1.ContainerPort, path *field.Path) (errs field.ErrorList) {
	names := map[string]bool{}
	for i, p := range ports {
		at := path.Index(i)
		if p.Name != "" {
			errs = append(errs, invalid(at.Child("name"), p.Name, validation.IsValidPortName(p.Name))...)
			errs = append(errs, seenBefore(names, p.Name, at.Child("name"), p.Name)...)
		}
		errs = append(errs, checkPortNumber(at.Child("containerPort"), p.ContainerPort)...)
		if p.HostPort != 0 && p.HostPort != p.ContainerPort {
			errs = append(errs, checkPortNumber(at.Child("hostPort"), p.HostPort)...)
		}
		errs = append(errs, checkProtocol(at.Child("protocol"), p.Protocol)...)
	}
	return errs
}

func checkHostPorts(ports []corev1.ContainerPort, seen map[string]bool, path *field.Path) (errs field.ErrorList) {
	for i, p := range ports {
		if p.HostPort != 0 {
			key := fmt.Sprintf("%s/%s/%d", p.Protocol, p.HostIP, p.HostPort)
			errs = append(errs, seenBefore(seen, key, path.Index(i).Child("hostPort"), key)...)
		}
	}
	return errs
}

func checkHostNetwork(ports []corev1.ContainerPort, path *field.Path) (errs field.ErrorList) {
	for i, p := range ports {
		if p.HostPort != 0 && p.HostPort != p.ContainerPort { // a template may leave it open
			errs = append(errs, field.Invalid(path.Index(i).Child("hostPort"), p.HostPort, "must match `containerPort` when `hostNetwork` is true"))
		}
	}
	return errs
}

func checkEnv(env []corev1.EnvVar, path *field.Path) (errs field.ErrorList) {
	for i, v := range env {
		at := path.Index(i)
		if v.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
		} else {
			errs = append(errs, invalid(at.Child("name"), v.Name, validation.IsRelaxedEnvVarName(v.Name))...)
		}
		if v.ValueFrom != nil && v.Value != "" {
			errs = append(errs, field.Invalid(at.Child("valueFrom"), "", "may not be specified when `value` is not empty"))
		}
	}
	return errs
}

// checkPodStatus validates what an API server would drop from a manifest but
// what makes a Pod somebody else's here: its addresses become endpoints.
func checkPodStatus(s *corev1.PodStatus, path *field.Path) (errs field.ErrorList) {
	texts := make([]string, len(s.PodIPs))
	for i, ip := range s.PodIPs {
		texts[i] = ip.IP
		errs = append(errs, checkPodAddr(path.Child("podIPs").Index(i).Child("ip"), ip.IP)...)
	}
	if len(errs) == 0 {
		errs = checkPair(path.Child("podIPs"), texts, parseAddr, isIPv4)
	}
	for i, c := range s.Conditions {
		at := path.Child("conditions").Index(i)
		if c.Type == "" {
			errs = append(errs, field.Required(at.Child("type"), ""))
		}
		errs = append(errs, oneOf(at.Child("status"), metav1.ConditionStatus(c.Status), metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown)...)
	}
	return errs
}
