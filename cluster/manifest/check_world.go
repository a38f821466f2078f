package manifest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checkWorld validates what a Pod's containers see beside volumes: names, DNS,
// users and rights.
func checkWorld(spec *corev1.PodSpec, path *field.Path) (errs field.ErrorList) {
	errs = lists(
		checkAliases(spec.HostAliases, path.Child("hostAliases")),
		checkDNS(spec, path.Child("dnsConfig")),
		checkPodSecurity(spec.SecurityContext, path.Child("securityContext")),
		checkSysctls(spec, path.Child("securityContext", "sysctls")),
	)
	if s := spec.ShareProcessNamespace; spec.HostPID && s != nil && *s {
		errs = append(errs, field.Invalid(path.Child("shareProcessNamespace"), *s, "ShareProcessNamespace and HostPID cannot both be enabled"))
	}
	for i := range spec.InitContainers {
		errs = append(errs, checkContainerWorld(&spec.InitContainers[i], path.Child("initContainers").Index(i))...)
	}
	for i := range spec.Containers {
		errs = append(errs, checkContainerWorld(&spec.Containers[i], path.Child("containers").Index(i))...)
	}
	return errs
}

func checkContainerWorld(c *corev1.Container, path *field.Path) (errs field.ErrorList) {
	for i, e := range c.Env {
		if e.ValueFrom != nil {
			errs = append(errs, checkEnvSource(e.ValueFrom, path.Child("env").Index(i).Child("valueFrom"))...)
		}
	}
	for i, e := range c.EnvFrom {
		errs = append(errs, checkEnvFrom(&e, path.Child("envFrom").Index(i))...)
	}
	return append(errs, checkSecurity(c.SecurityContext, path.Child("securityContext"))...)
}

func checkEnvSource(v *corev1.EnvVarSource, path *field.Path) (errs field.ErrorList) {
	found := 0
	fields := sets.New("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs")
	if v.FieldRef != nil {
		found++
		errs = append(errs, checkFieldRef(v.FieldRef, fields, path.Child("fieldRef"))...)
	}
	if v.ResourceFieldRef != nil {
		found++
		errs = append(errs, checkResourceRef(v.ResourceFieldRef, false, path.Child("resourceFieldRef"))...)
	}
	if r := v.ConfigMapKeyRef; r != nil {
		found++
		errs = append(errs, checkKeyRef(r.Name, r.Key, path.Child("configMapKeyRef"))...)
	}
	if r := v.SecretKeyRef; r != nil {
		found++
		errs = append(errs, checkKeyRef(r.Name, r.Key, path.Child("secretKeyRef"))...)
	}
	if v.FileKeyRef != nil {
		found++
	}
	switch {
	case found == 0:
		errs = append(errs, field.Invalid(path, "", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"))
	case found > 1:
		errs = append(errs, field.Invalid(path, "", "may not have more than one field specified at a time"))
	}
	return errs
}

func checkKeyRef(name, key string, path *field.Path) field.ErrorList {
	errs := required(name, path.Child("name"))
	if key == "" {
		return append(errs, field.Required(path.Child("key"), ""))
	}
	return append(errs, invalid(path.Child("key"), key, validation.IsConfigMapKey(key))...)
}

func checkEnvFrom(e *corev1.EnvFromSource, path *field.Path) (errs field.ErrorList) {
	if e.Prefix != "" {
		errs = append(errs, invalid(path.Child("prefix"), e.Prefix, validation.IsRelaxedEnvVarName(e.Prefix))...)
	}
	if e.ConfigMapRef != nil {
		errs = append(errs, required(e.ConfigMapRef.Name, path.Child("configMapRef", "name"))...)
	}
	if e.SecretRef != nil {
		errs = append(errs, required(e.SecretRef.Name, path.Child("secretRef", "name"))...)
	}
	switch {
	case e.ConfigMapRef == nil && e.SecretRef == nil:
		errs = append(errs, field.Invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
	case e.ConfigMapRef != nil && e.SecretRef != nil:
		errs = append(errs, field.Invalid(path, "", "may not have more than one field specified at a time"))
	}
	return errs
}

func checkAliases(aliases []corev1.HostAlias, path *field.Path) (errs field.ErrorList) {
	for i, a := range aliases {
		at := path.Index(i)
		errs = append(errs, validation.IsValidIPForLegacyField(at.Child("ip"), a.IP, true, nil)...)
		for j, name := range a.Hostnames {
			errs = append(errs, invalid(at.Child("hostnames").Index(j), name, validation.IsDNS1123Subdomain(name))...)
		}
	}
	return errs
}

// checkDNS validates dnsConfig. The bounds are the API's: of resolv.conf as the
// resolver libraries read it.
func checkDNS(spec *corev1.PodSpec, path *field.Path) (errs field.ErrorList) {
	const mostServers = 3
	c := spec.DNSConfig
	if spec.DNSPolicy == corev1.DNSNone && (c == nil || len(c.Nameservers) == 0) {
		if c == nil {
			return field.ErrorList{field.Required(path, fmt.Sprintf("must provide `dnsConfig` when `dnsPolicy` is %s", corev1.DNSNone))}
		}
		errs = append(errs, field.Required(path.Child("nameservers"), fmt.Sprintf("must provide at least one DNS nameserver when `dnsPolicy` is %s", corev1.DNSNone)))
	}
	if c == nil {
		return errs
	}
	if len(c.Nameservers) > mostServers {
		errs = append(errs, field.Invalid(path.Child("nameservers"), c.Nameservers, fmt.Sprintf("must not have more than %d nameservers", mostServers)))
	}
	for i, s := range c.Nameservers {
		errs = append(errs, validation.IsValidIPForLegacyField(path.Child("nameservers").Index(i), s, true, nil)...)
	}
	errs = append(errs, checkSearches(c.Searches, path.Child("searches"))...)
	for i, o := range c.Options {
		if o.Name == "" {
			errs = append(errs, field.Required(path.Child("options").Index(i), "must not be empty"))
		}
	}
	return errs
}

func checkSearches(searches []string, path *field.Path) (errs field.ErrorList) {
	const mostSearches, mostLetters = 32, 2048
	if len(searches) > mostSearches {
		errs = append(errs, field.Invalid(path, searches, fmt.Sprintf("must not have more than %d search paths", mostSearches)))
	}
	if len(strings.Join(searches, " ")) > mostLetters {
		errs = append(errs, field.Invalid(path, searches, fmt.Sprintf("must not have more than %d characters (including spaces) in the search list", mostLetters)))
	}
	for i, s := range searches {
		if s != "." {
			s = strings.TrimSuffix(s, ".")
			errs = append(errs, invalid(path.Index(i), s, validation.IsDNS1123SubdomainWithUnderscore(s))...)
		}
	}
	return errs
}

// checkNumber wants the number of a user or a group.
func checkNumber(n *int64, path *field.Path) field.ErrorList {
	if n != nil && (*n < 0 || *n > math.MaxInt32) {
		return field.ErrorList{field.Invalid(path, *n, validation.InclusiveRangeError(0, math.MaxInt32))}
	}
	return nil
}

func checkPodSecurity(s *corev1.PodSecurityContext, path *field.Path) (errs field.ErrorList) {
	errs = lists(checkNumber(s.RunAsUser, path.Child("runAsUser")), checkNumber(s.RunAsGroup, path.Child("runAsGroup")), checkNumber(s.FSGroup, path.Child("fsGroup")))
	for i := range s.SupplementalGroups {
		errs = append(errs, checkNumber(&s.SupplementalGroups[i], path.Child("supplementalGroups").Index(i))...)
	}
	return errs
}

// checkSysctls validates names: words with dots or slashes between them. Those of a
// namespace that the Pod shares with the node are the node's.
func checkSysctls(spec *corev1.PodSpec, path *field.Path) (errs field.ErrorList) {
	names := map[string]bool{}
	for i, c := range spec.SecurityContext.Sysctls {
		at := path.Index(i).Child("name")
		switch {
		case c.Name == "":
			errs = append(errs, field.Required(at, ""))
		case !isSysctl(c.Name):
			errs = append(errs, field.Invalid(at, c.Name, "must have at most 253 characters, and be words of lower case letters, digits, - and _ with dots or slashes between them"))
		default:
			errs = append(errs, seenBefore(names, c.Name, at, c.Name)...)
		}
		name := strings.ReplaceAll(c.Name, "/", ".")
		switch {
		case spec.HostNetwork && strings.HasPrefix(name, "net."):
			errs = append(errs, field.Invalid(at, c.Name, "may not be specified when 'hostNetwork' is true"))
		case spec.HostIPC && isIPC(name):
			errs = append(errs, field.Invalid(at, c.Name, "may not be specified when 'hostIPC' is true"))
		}
	}
	return errs
}

// isIPC tells the parameters of System V IPC and message queues.
func isIPC(name string) bool {
	return name == "kernel.sem" || strings.HasPrefix(name, "kernel.shm") || strings.HasPrefix(name, "kernel.msg") || strings.HasPrefix(name, "fs.mqueue.")
}

func isSysctl(name string) bool {
	const most = 253
	ends := func(r byte) bool { return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' }
	for _, word := range strings.Split(strings.ReplaceAll(name, "/", "."), ".") {
		if word == "" || !ends(word[0]) || !ends(word[len(word)-1]) {
			return false
		}
		if strings.ContainsFunc(word, func(r rune) bool { return r >= utf8.RuneSelf || !ends(byte(r)) && r != '-' && r != '_' }) {
			return false
		}
	}
	return len(name) <= most
}

func checkSecurity(s *corev1.SecurityContext, path *field.Path) (errs field.ErrorList) {
	if s == nil {
		return nil
	}
	errs = lists(checkNumber(s.RunAsUser, path.Child("runAsUser")), checkNumber(s.RunAsGroup, path.Child("runAsGroup")))
	if s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation {
		return errs
	}
	if s.Privileged != nil && *s.Privileged {
		errs = append(errs, field.Invalid(path, s, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"))
	}
	if s.Capabilities != nil && slices.Contains(s.Capabilities.Add, "CAP_SYS_ADMIN") {
		errs = append(errs, field.Invalid(path, s, "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"))
	}
	return errs
}

// checkResourceRef validates a reference to what a container may use. In a volume it
// has to say which.
func checkResourceRef(r *corev1.ResourceFieldSelector, volume bool, path *field.Path) (errs field.ErrorList) {
	if volume {
		errs = required(r.ContainerName, path.Child("containerName"))
	}
	if r.Resource == "" {
		return append(errs, field.Required(path.Child("resource"), ""))
	}
	kind, name, _ := strings.Cut(r.Resource, ".")
	known := []string{"cpu", "memory", "ephemeral-storage"}
	if kind != "limits" && kind != "requests" || !slices.Contains(known, name) && !strings.HasPrefix(name, corev1.ResourceHugePagesPrefix) {
		return append(errs, field.NotSupported(path.Child("resource"), r.Resource, []string{"limits.cpu", "limits.memory", "requests.cpu", "requests.memory"}))
	}
	units := []string{"1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"}
	if name == "cpu" {
		units = []string{"1m", "1"}
	}
	if !r.Divisor.IsZero() && !slices.Contains(units, r.Divisor.String()) {
		errs = append(errs, field.Invalid(path.Child("divisor"), r.Resource, "only divisors "+strings.Join(units, ", ")+" are supported with this resource"))
	}
	return errs
}
