package manifest

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// The checks of the Gateway API's kinds are those of the schemas and rules in its
// CRDs (version 1.6.3, standard channel).

// The limits of the CRDs.
const (
	mostListeners    = 64
	mostAddresses    = 16
	mostKinds        = 8
	mostCertificates = 64
	mostGrants       = 16
	longestValue     = 4096
	maxPort          = 65535
)

func checkGatewayClass(c *gatewayv1.GatewayClass) field.ErrorList {
	path := field.NewPath("spec")
	errs := checkMeta(&c.ObjectMeta, false, apivalidation.NameIsDNSSubdomain)
	errs = append(errs, controllerPattern.check(path.Child("controllerName"), string(c.Spec.ControllerName))...)
	if d := c.Spec.Description; d != nil && utf8.RuneCountInString(*d) > 64 {
		errs = append(errs, field.TooLong(path.Child("description"), *d, 64))
	}
	if r := c.Spec.ParametersRef; r != nil {
		at := path.Child("parametersRef")
		errs = append(errs, checkObjectRef(gatewayv1.LocalObjectReference{Group: r.Group, Kind: r.Kind, Name: gatewayv1.ObjectName(r.Name)}, at)...)
		errs = append(errs, checkSet(namespacePattern, at.Child("namespace"), r.Namespace)...)
	}
	return errs
}

func checkObjectRef(r gatewayv1.LocalObjectReference, path *field.Path) field.ErrorList {
	return lists(
		checkGroup(path.Child("group"), r.Group),
		kindPattern.check(path.Child("kind"), string(r.Kind)),
		objectNamePattern.check(path.Child("name"), string(r.Name)),
	)
}

func checkReferenceGrant(g *gatewayv1.ReferenceGrant) field.ErrorList {
	from, to := field.NewPath("spec", "from"), field.NewPath("spec", "to")
	errs := lists(
		checkMeta(&g.ObjectMeta, true, apivalidation.NameIsDNSSubdomain),
		bounded(from, len(g.Spec.From), 1, mostGrants),
		bounded(to, len(g.Spec.To), 1, mostGrants),
	)
	for i, f := range g.Spec.From {
		errs = append(errs, checkGroup(from.Index(i).Child("group"), f.Group)...)
		errs = append(errs, kindPattern.check(from.Index(i).Child("kind"), string(f.Kind))...)
		errs = append(errs, namespacePattern.check(from.Index(i).Child("namespace"), string(f.Namespace))...)
	}
	for i, t := range g.Spec.To {
		errs = append(errs, checkGroup(to.Index(i).Child("group"), t.Group)...)
		errs = append(errs, kindPattern.check(to.Index(i).Child("kind"), string(t.Kind))...)
		errs = append(errs, checkSet(objectNamePattern, to.Index(i).Child("name"), t.Name)...)
	}
	return errs
}

func checkGateway(g *gatewayv1.Gateway) field.ErrorList {
	path := field.NewPath("spec")
	errs := lists(
		checkMeta(&g.ObjectMeta, true, apivalidation.NameIsDNSSubdomain),
		objectNamePattern.check(path.Child("gatewayClassName"), string(g.Spec.GatewayClassName)),
		checkListeners(g.Spec.Listeners, path.Child("listeners")),
		checkGatewayAddresses(g.Spec.Addresses, path.Child("addresses")),
	)
	if i := g.Spec.Infrastructure; i != nil {
		errs = append(errs, checkInfrastructure(i, path.Child("infrastructure"))...)
	}
	if a := g.Spec.AllowedListeners; a != nil {
		at := path.Child("allowedListeners", "namespaces")
		errs = append(errs, oneOf(at.Child("from"), *a.Namespaces.From, gatewayv1.NamespacesFromAll, gatewayv1.NamespacesFromNone,
			gatewayv1.NamespacesFromSame, gatewayv1.NamespacesFromSelector)...)
		errs = append(errs, checkSelector(a.Namespaces.Selector, at.Child("selector"))...)
	}
	if t := g.Spec.TLS; t != nil {
		errs = append(errs, checkGatewayTLS(t, path.Child("tls"))...)
	}
	return errs
}

// checkSelector is stricter than the CRD, which lets operators pass that there
// are not: who selects by one selects nothing.
func checkSelector(s *metav1.LabelSelector, path *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	return metavalidation.ValidateLabelSelector(s, metavalidation.LabelSelectorValidationOptions{}, path)
}

// listenerKey is what two listeners of a Gateway may not share.
type listenerKey struct {
	port     gatewayv1.PortNumber
	protocol gatewayv1.ProtocolType
	hostname gatewayv1.Hostname
}

func checkListeners(listeners []gatewayv1.Listener, path *field.Path) field.ErrorList {
	errs := bounded(path, len(listeners), 1, mostListeners)
	names, taken := map[gatewayv1.SectionName]bool{}, map[listenerKey]bool{}
	for i := range listeners {
		l, at := &listeners[i], path.Index(i)
		key := listenerKey{port: l.Port, protocol: l.Protocol}
		if l.Hostname != nil {
			key.hostname = *l.Hostname
		}
		errs = append(errs, checkListener(l, at)...)
		errs = append(errs, seenBefore(names, l.Name, at.Child("name"), l.Name)...)
		if taken[key] {
			errs = append(errs, field.Invalid(at, l.Name, "combination of port, protocol and hostname must be unique for each listener"))
		}
		taken[key] = true
	}
	return errs
}

func checkListener(l *gatewayv1.Listener, path *field.Path) field.ErrorList {
	errs := lists(
		sectionPattern.check(path.Child("name"), string(l.Name)),
		checkSet(hostnamePattern, path.Child("hostname"), l.Hostname),
		within(path.Child("port"), &l.Port, 1, maxPort),
		protocolPattern.check(path.Child("protocol"), string(l.Protocol)),
		checkListenerTLS(l, path.Child("tls")),
		checkAllowedRoutes(l.AllowedRoutes, path.Child("allowedRoutes")),
	)
	if l.Hostname != nil && (l.Protocol == gatewayv1.TCPProtocolType || l.Protocol == gatewayv1.UDPProtocolType) {
		errs = append(errs, field.Forbidden(path.Child("hostname"), "must not be specified for protocols ['TCP', 'UDP']"))
	}
	return errs
}

func checkListenerTLS(l *gatewayv1.Listener, path *field.Path) field.ErrorList {
	t := l.TLS
	switch l.Protocol {
	case gatewayv1.HTTPProtocolType, gatewayv1.TCPProtocolType, gatewayv1.UDPProtocolType:
		if t != nil {
			return field.ErrorList{field.Forbidden(path, "must not be specified for protocols ['HTTP', 'TCP', 'UDP']; protocol HTTPS has it")}
		}
	case gatewayv1.TLSProtocolType:
		if t == nil {
			return field.ErrorList{field.Required(path.Child("mode"), "tls mode must be set for protocol TLS")}
		}
	case gatewayv1.HTTPSProtocolType:
		if t != nil && *t.Mode != gatewayv1.TLSModeTerminate {
			return field.ErrorList{field.Invalid(path.Child("mode"), *t.Mode, "tls mode must be Terminate for protocol HTTPS")}
		}
	}
	if t == nil {
		return nil
	}
	errs := lists(
		oneOf(path.Child("mode"), *t.Mode, gatewayv1.TLSModeTerminate, gatewayv1.TLSModePassthrough),
		bounded(path.Child("certificateRefs"), len(t.CertificateRefs), 0, mostCertificates),
		bounded(path.Child("options"), len(t.Options), 0, mostMeta),
	)
	if *t.Mode == gatewayv1.TLSModeTerminate && len(t.CertificateRefs) == 0 && len(t.Options) == 0 {
		errs = append(errs, field.Required(path.Child("certificateRefs"), "certificateRefs or options must be specified when mode is Terminate"))
	}
	for i := range t.CertificateRefs {
		errs = append(errs, checkSecretRef(&t.CertificateRefs[i], path.Child("certificateRefs").Index(i))...)
	}
	return append(errs, checkMetaValues(t.Options, path.Child("options"))...)
}

func checkSecretRef(r *gatewayv1.SecretObjectReference, path *field.Path) field.ErrorList {
	return append(checkObjectRef(gatewayv1.LocalObjectReference{Group: *r.Group, Kind: *r.Kind, Name: r.Name}, path),
		checkSet(namespacePattern, path.Child("namespace"), r.Namespace)...)
}

func checkAllowedRoutes(a *gatewayv1.AllowedRoutes, path *field.Path) field.ErrorList {
	kinds, spaces := path.Child("kinds"), path.Child("namespaces")
	errs := lists(
		oneOf(spaces.Child("from"), *a.Namespaces.From, gatewayv1.NamespacesFromAll, gatewayv1.NamespacesFromSame, gatewayv1.NamespacesFromSelector),
		checkSelector(a.Namespaces.Selector, spaces.Child("selector")),
		bounded(kinds, len(a.Kinds), 0, mostKinds),
	)
	for i, k := range a.Kinds {
		errs = append(errs, checkGroup(kinds.Index(i).Child("group"), *k.Group)...)
		errs = append(errs, kindPattern.check(kinds.Index(i).Child("kind"), string(k.Kind))...)
	}
	return errs
}

func checkGatewayAddresses(addresses []gatewayv1.GatewaySpecAddress, path *field.Path) field.ErrorList {
	errs := bounded(path, len(addresses), 0, mostAddresses)
	seen := map[string]bool{}
	for i, a := range addresses {
		at := path.Index(i).Child("value")
		errs = append(errs, addressPattern.check(path.Index(i).Child("type"), string(*a.Type))...)
		if a.Value == "" {
			continue
		}
		if utf8.RuneCountInString(a.Value) > hostnamePattern.longest {
			errs = append(errs, field.TooLong(at, a.Value, hostnamePattern.longest))
		}
		if *a.Type == gatewayv1.HostnameAddressType {
			errs = append(errs, hostnamePattern.check(at, a.Value)...)
		}
		if *a.Type == gatewayv1.HostnameAddressType || *a.Type == gatewayv1.IPAddressType {
			errs = append(errs, seenBefore(seen, string(*a.Type)+"/"+a.Value, at, a.Value)...)
		}
	}
	return errs
}

// mostMeta bounds annotations and options, mostLabels labels.
const (
	mostMeta   = 16
	mostLabels = 8
)

func checkInfrastructure(i *gatewayv1.GatewayInfrastructure, path *field.Path) field.ErrorList {
	labels, annotations := path.Child("labels"), path.Child("annotations")
	errs := lists(
		bounded(labels, len(i.Labels), 0, mostLabels),
		bounded(annotations, len(i.Annotations), 0, mostMeta),
		checkMetaKeys(i.Labels, labels),
		checkMetaKeys(i.Annotations, annotations),
		checkMetaValues(i.Annotations, annotations),
	)
	for _, key := range slices.Sorted(maps.Keys(i.Labels)) {
		if value := string(i.Labels[key]); value != "" {
			errs = append(errs, labelPattern.check(labels.Key(string(key)), value)...)
		}
	}
	if r := i.ParametersRef; r != nil {
		ref := gatewayv1.LocalObjectReference{Group: r.Group, Kind: r.Kind, Name: gatewayv1.ObjectName(r.Name)}
		errs = append(errs, checkObjectRef(ref, path.Child("parametersRef"))...)
	}
	return errs
}

func checkMetaKeys[K ~string, V any](m map[K]V, path *field.Path) (errs field.ErrorList) {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		prefix, _, _ := strings.Cut(string(key), "/")
		if !metaKeyPattern.pattern.MatchString(string(key)) || len(prefix) >= 253 {
			errs = append(errs, field.Invalid(path.Key(string(key)), key, "must be an optional DNS subdomain and a slash, and a name of up to 63 characters"))
		}
	}
	return errs
}

func checkMetaValues[K, V ~string](m map[K]V, path *field.Path) (errs field.ErrorList) {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if utf8.RuneCountInString(string(m[key])) > longestValue {
			errs = append(errs, field.TooLong(path.Key(string(key)), "", longestValue))
		}
	}
	return errs
}

func checkGatewayTLS(t *gatewayv1.GatewayTLSConfig, path *field.Path) (errs field.ErrorList) {
	if t.Backend != nil && t.Backend.ClientCertificateRef != nil {
		errs = checkSecretRef(t.Backend.ClientCertificateRef, path.Child("backend", "clientCertificateRef"))
	}
	if t.Frontend == nil {
		return errs
	}
	path = path.Child("frontend")
	errs = append(errs, checkClientValidation(t.Frontend.Default.Validation, path.Child("default", "validation"))...)
	errs = append(errs, bounded(path.Child("perPort"), len(t.Frontend.PerPort), 0, mostListeners)...)
	seen := map[gatewayv1.PortNumber]bool{}
	for i, p := range t.Frontend.PerPort {
		at := path.Child("perPort").Index(i)
		errs = append(errs, within(at.Child("port"), &p.Port, 1, maxPort)...)
		errs = append(errs, seenBefore(seen, p.Port, at.Child("port"), p.Port)...)
		errs = append(errs, checkClientValidation(p.TLS.Validation, at.Child("tls", "validation"))...)
	}
	return errs
}

func checkClientValidation(v *gatewayv1.FrontendTLSValidation, path *field.Path) field.ErrorList {
	if v == nil {
		return nil
	}
	refs := path.Child("caCertificateRefs")
	errs := lists(
		oneOf(path.Child("mode"), v.Mode, gatewayv1.AllowValidOnly, gatewayv1.AllowInsecureFallback),
		bounded(refs, len(v.CACertificateRefs), 1, mostGrants),
	)
	for i, r := range v.CACertificateRefs {
		errs = append(errs, checkObjectRef(gatewayv1.LocalObjectReference{Group: r.Group, Kind: r.Kind, Name: r.Name}, refs.Index(i))...)
		errs = append(errs, checkSet(namespacePattern, refs.Index(i).Child("namespace"), r.Namespace)...)
	}
	return errs
}
