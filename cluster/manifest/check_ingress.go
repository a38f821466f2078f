package manifest

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// classAnnotation named the class of an Ingress before spec.ingressClassName did.
const classAnnotation = "kubernetes.io/ingress.class"

func checkIngress(i *networkingv1.Ingress) field.ErrorList {
	spec, path := &i.Spec, field.NewPath("spec")
	errs := checkMeta(&i.ObjectMeta, true, apivalidation.NameIsDNSSubdomain)
	if len(spec.Rules) == 0 && spec.DefaultBackend == nil {
		errs = append(errs, field.Required(path, "either `defaultBackend` or `rules` must be specified"))
	}
	if spec.DefaultBackend != nil {
		errs = append(errs, checkIngressBackend(spec.DefaultBackend, path.Child("defaultBackend"))...)
	}
	for j := range spec.Rules {
		errs = append(errs, checkIngressRule(&spec.Rules[j], path.Child("rules").Index(j))...)
	}
	for j := range spec.TLS {
		errs = append(errs, checkIngressTLS(&spec.TLS[j], path.Child("tls").Index(j))...)
	}
	if spec.IngressClassName == nil {
		return errs
	}
	errs = append(errs, invalid(path.Child("ingressClassName"), *spec.IngressClassName, apivalidation.NameIsDNSSubdomain(*spec.IngressClassName, false))...)
	if old, ok := i.Annotations[classAnnotation]; ok && old != *spec.IngressClassName {
		at := field.NewPath("metadata", "annotations").Key(classAnnotation)
		errs = append(errs, field.Invalid(at, old, "must match `ingressClassName` when both are specified; remove the annotation"))
	}
	return errs
}

func checkIngressRule(r *networkingv1.IngressRule, path *field.Path) (errs field.ErrorList) {
	if r.Host != "" {
		if _, err := netip.ParseAddr(r.Host); err == nil || leadingZero(r.Host) {
			errs = append(errs, field.Invalid(path.Child("host"), r.Host, "must be a DNS name, not an IP address"))
		}
		errs = append(errs, checkIngressHost(path.Child("host"), r.Host)...)
	}
	if r.HTTP == nil {
		return errs
	}
	path = path.Child("http", "paths")
	if len(r.HTTP.Paths) == 0 {
		errs = append(errs, field.Required(path, ""))
	}
	for i := range r.HTTP.Paths {
		errs = append(errs, checkIngressPath(&r.HTTP.Paths[i], path.Index(i))...)
	}
	return errs
}

// checkIngressHost wants a DNS name, whose first label may be a star.
func checkIngressHost(path *field.Path, host string) field.ErrorList {
	if strings.Contains(host, "*") {
		return invalid(path, host, validation.IsWildcardDNS1123Subdomain(host))
	}
	return invalid(path, host, validation.IsDNS1123Subdomain(host))
}

func checkIngressPath(p *networkingv1.HTTPIngressPath, path *field.Path) (errs field.ErrorList) {
	at := path.Child("path")
	if p.PathType == nil {
		return field.ErrorList{field.Required(path.Child("pathType"), "say Prefix, Exact or ImplementationSpecific")}
	}
	errs = oneOf(path.Child("pathType"), *p.PathType, networkingv1.PathTypeExact, networkingv1.PathTypeImplementationSpecific, networkingv1.PathTypePrefix)
	switch *p.PathType {
	case networkingv1.PathTypeExact, networkingv1.PathTypePrefix:
		if !strings.HasPrefix(p.Path, "/") {
			errs = append(errs, field.Invalid(at, p.Path, "must be an absolute path"))
		}
		errs = append(errs, checkPathParts(at, p.Path)...)
	case networkingv1.PathTypeImplementationSpecific:
		if p.Path != "" && !strings.HasPrefix(p.Path, "/") {
			errs = append(errs, field.Invalid(at, p.Path, "must be an absolute path"))
		}
	}
	return append(errs, checkIngressBackend(&p.Backend, path.Child("backend"))...)
}

// checkPathParts refuses paths that clients and servers read as different ones.
func checkPathParts(path *field.Path, value string) (errs field.ErrorList) {
	for _, part := range []string{"//", "/./", "/../", "%2f", "%2F"} {
		if strings.Contains(value, part) {
			errs = append(errs, field.Invalid(path, value, fmt.Sprintf("must not contain '%s'", part)))
		}
	}
	for _, end := range []string{"/..", "/."} {
		if strings.HasSuffix(value, end) {
			errs = append(errs, field.Invalid(path, value, fmt.Sprintf("cannot end with '%s'", end)))
		}
	}
	return errs
}

func checkIngressTLS(t *networkingv1.IngressTLS, path *field.Path) (errs field.ErrorList) {
	for i, host := range t.Hosts {
		errs = append(errs, checkIngressHost(path.Child("hosts").Index(i), host)...)
	}
	if t.SecretName != "" {
		errs = append(errs, invalid(path.Child("secretName"), t.SecretName, apivalidation.NameIsDNSSubdomain(t.SecretName, false))...)
	}
	return errs
}

func checkIngressBackend(b *networkingv1.IngressBackend, path *field.Path) field.ErrorList {
	switch {
	case b.Resource != nil && b.Service != nil:
		return field.ErrorList{field.Invalid(path, "", "cannot set both resource and service backends")}
	case b.Resource != nil:
		return checkTypedRef(b.Resource, path.Child("resource"))
	case b.Service != nil:
		return checkServiceBackend(b.Service, path)
	}
	return field.ErrorList{field.Required(path, "resource or service backend is required")}
}

func checkServiceBackend(b *networkingv1.IngressServiceBackend, path *field.Path) field.ErrorList {
	service := path.Child("service")
	errs := required(b.Name, service.Child("name"))
	if b.Name != "" {
		errs = invalid(service.Child("name"), b.Name, apivalidation.NameIsDNSLabel(b.Name, false))
	}
	switch port := b.Port; {
	case port.Name != "" && port.Number != 0:
		return append(errs, field.Invalid(service.Child("port"), "", "cannot set both port name & port number"))
	case port.Name != "":
		return append(errs, invalid(service.Child("port", "name"), port.Name, validation.IsValidPortName(port.Name))...)
	case port.Number != 0:
		return append(errs, checkPortNumber(service.Child("port", "number"), port.Number)...)
	}
	return append(errs, field.Required(service.Child("port"), "port name or number is required"))
}

// checkTypedRef validates a reference to an object of any kind.
func checkTypedRef(r *corev1.TypedLocalObjectReference, path *field.Path) (errs field.ErrorList) {
	if r.APIGroup != nil {
		errs = invalid(path.Child("apiGroup"), *r.APIGroup, validation.IsDNS1123Subdomain(*r.APIGroup))
	}
	errs = append(errs, checkSegment(path.Child("kind"), r.Kind)...)
	return append(errs, checkSegment(path.Child("name"), r.Name)...)
}

// checkSegment wants what can stand between two slashes of a URL.
func checkSegment(path *field.Path, value string) field.ErrorList {
	if value == "" {
		return required(value, path)
	}
	return invalid(path, value, content.IsPathSegmentName(value))
}

func checkIngressClass(c *networkingv1.IngressClass) field.ErrorList {
	const longest = 250
	path := field.NewPath("spec", "controller")
	errs := checkMeta(&c.ObjectMeta, false, apivalidation.NameIsDNSSubdomain)
	if len(c.Spec.Controller) > longest {
		errs = append(errs, field.TooLong(path, c.Spec.Controller, longest))
	}
	errs = append(errs, validation.IsDomainPrefixedPath(path, c.Spec.Controller)...)
	if p := c.Spec.Parameters; p != nil {
		errs = append(errs, checkClassParameters(p, field.NewPath("spec", "parameters"))...)
	}
	return errs
}

func checkClassParameters(p *networkingv1.IngressClassParametersReference, path *field.Path) field.ErrorList {
	errs := checkTypedRef(&corev1.TypedLocalObjectReference{APIGroup: p.APIGroup, Kind: p.Kind, Name: p.Name}, path)
	const inCluster, inNamespace = networkingv1.IngressClassParametersReferenceScopeCluster, networkingv1.IngressClassParametersReferenceScopeNamespace
	errs = append(errs, oneOf(path.Child("scope"), *p.Scope, inCluster, inNamespace)...)
	at := path.Child("namespace")
	switch {
	case *p.Scope == inNamespace && p.Namespace == nil:
		errs = append(errs, field.Required(at, "`parameters.scope` is set to 'Namespace'"))
	case *p.Scope == inNamespace:
		errs = append(errs, invalid(at, *p.Namespace, apivalidation.ValidateNamespaceName(*p.Namespace, false))...)
	case *p.Scope == inCluster && p.Namespace != nil:
		errs = append(errs, field.Forbidden(at, "`parameters.scope` is set to 'Cluster'"))
	}
	return errs
}
