package manifest

import (
	"fmt"

	discoveryv1 "k8s.io/api/discovery/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The limits of the API for one EndpointSlice.
const (
	maxSliceEndpoints    = 1000
	maxSlicePorts        = 20000
	maxEndpointAddresses = 100
	maxTopologyLabels    = 16
	maxHints             = 8
)

func checkEndpointSlice(s *discoveryv1.EndpointSlice) field.ErrorList {
	errs := lists(
		checkMeta(&s.ObjectMeta, true, apivalidation.NameIsDNSSubdomain),
		oneOf(field.NewPath("addressType"), s.AddressType, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6, discoveryv1.AddressTypeFQDN),
		checkSlicePorts(s.Ports, field.NewPath("ports")),
	)
	path := field.NewPath("endpoints")
	if len(s.Endpoints) > maxSliceEndpoints {
		return append(errs, field.TooMany(path, len(s.Endpoints), maxSliceEndpoints))
	}
	for i := range s.Endpoints {
		errs = append(errs, checkEndpoint(&s.Endpoints[i], s.AddressType, path.Index(i))...)
	}
	return errs
}

func checkSlicePorts(ports []discoveryv1.EndpointPort, path *field.Path) (errs field.ErrorList) {
	if len(ports) > maxSlicePorts {
		return field.ErrorList{field.TooMany(path, len(ports), maxSlicePorts)}
	}
	names := map[string]bool{}
	for i, p := range ports {
		at := path.Index(i)
		if *p.Name != "" {
			errs = append(errs, invalid(at.Child("name"), *p.Name, validation.IsDNS1123Label(*p.Name))...)
		}
		errs = append(errs, seenBefore(names, *p.Name, at.Child("name"), *p.Name)...)
		errs = append(errs, checkProtocol(at.Child("protocol"), *p.Protocol)...)
		errs = append(errs, checkAppProtocol(at.Child("appProtocol"), p.AppProtocol)...)
		if p.Port != nil {
			// The API lets any number pass; no packet has port 0 or 99999.
			errs = append(errs, checkPortNumber(at.Child("port"), *p.Port)...)
		}
	}
	return errs
}

func checkEndpoint(e *discoveryv1.Endpoint, kind discoveryv1.AddressType, path *field.Path) field.ErrorList {
	errs := checkEndpointAddresses(e.Addresses, kind, path.Child("addresses"))
	if e.NodeName != nil {
		errs = append(errs, invalid(path.Child("nodeName"), *e.NodeName, validation.IsDNS1123Subdomain(*e.NodeName))...)
	}
	if e.Hostname != nil {
		errs = append(errs, invalid(path.Child("hostname"), *e.Hostname, validation.IsDNS1123Label(*e.Hostname))...)
	}
	topology := path.Child("deprecatedTopology")
	if len(e.DeprecatedTopology) > maxTopologyLabels {
		errs = append(errs, field.TooMany(topology, len(e.DeprecatedTopology), maxTopologyLabels))
	}
	errs = append(errs, metavalidation.ValidateLabels(e.DeprecatedTopology, topology)...)
	if e.Hints != nil {
		errs = append(errs, checkHints(e.Hints, path.Child("hints"))...)
	}
	return errs
}

func checkEndpointAddresses(addrs []string, kind discoveryv1.AddressType, path *field.Path) (errs field.ErrorList) {
	switch {
	case len(addrs) == 0:
		return field.ErrorList{field.Required(path, "must contain at least 1 address")}
	case len(addrs) > maxEndpointAddresses:
		errs = append(errs, field.TooMany(path, len(addrs), maxEndpointAddresses))
	}
	for i, text := range addrs {
		at := path.Index(i)
		if kind == discoveryv1.AddressTypeFQDN {
			errs = append(errs, validation.IsFullyQualifiedDomainName(at, text)...)
			continue
		}
		bad := checkEndpointAddr(at, text)
		if addr, err := parseAddr(at, text); err == nil && len(bad) == 0 && string(familyOf(addr)) != string(kind) {
			bad = append(bad, field.Invalid(at, text, fmt.Sprintf("must be an %s address, as addressType says", kind)))
		}
		errs = append(errs, bad...)
	}
	return errs
}

func checkHints(h *discoveryv1.EndpointHints, path *field.Path) (errs field.ErrorList) {
	zones, nodes := map[string]bool{}, map[string]bool{}
	at := path.Child("forZones")
	if len(h.ForZones) > maxHints {
		errs = append(errs, field.TooMany(at, len(h.ForZones), maxHints))
	}
	for i, z := range h.ForZones {
		errs = append(errs, seenBefore(zones, z.Name, at.Index(i).Child("name"), z.Name)...)
		errs = append(errs, invalid(at.Index(i).Child("name"), z.Name, validation.IsValidLabelValue(z.Name))...)
	}
	at = path.Child("forNodes")
	if len(h.ForNodes) > maxHints {
		errs = append(errs, field.TooMany(at, len(h.ForNodes), maxHints))
	}
	for i, n := range h.ForNodes {
		errs = append(errs, seenBefore(nodes, n.Name, at.Index(i).Child("name"), n.Name)...)
		errs = append(errs, invalid(at.Index(i).Child("name"), n.Name, validation.IsDNS1123Subdomain(n.Name))...)
	}
	return errs
}
