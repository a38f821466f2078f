package manifest

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func familyOf(a netip.Addr) corev1.IPFamily {
	if a.Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

func isIPv4(a netip.Addr) bool { return a.Is4() }

// familyRules is which IP families Services can have: those of the service
// CIDRs, the first of which is the primary one.
type familyRules []corev1.IPFamily

func (f familyRules) has(family corev1.IPFamily) bool {
	for _, have := range f {
		if have == family {
			return true
		}
	}
	return false
}

func otherFamily(f corev1.IPFamily) corev1.IPFamily {
	if f == corev1.IPv4Protocol {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// settle fills in ipFamilyPolicy and ipFamilies of a valid Service, and refuses
// what these ranges cannot give.
func (f familyRules) settle(spec *corev1.ServiceSpec) field.ErrorList {
	if spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	// Headless without a selector: whoever writes its slices may use any family.
	free := headless(spec) && len(spec.Selector) == 0
	policy := corev1.IPFamilyPolicySingleStack
	if free {
		policy = corev1.IPFamilyPolicyRequireDualStack
	}
	orPointer(&spec.IPFamilyPolicy, policy)
	if errs := f.settleExplicit(spec); len(errs) > 0 {
		return errs
	}
	if !free {
		if errs := f.refuse(spec); len(errs) > 0 {
			return errs
		}
	}
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []corev1.IPFamily{f[0]}
	}
	dual := *spec.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack
	if dual && len(spec.IPFamilies) == 1 && (free || len(f) == 2) {
		spec.IPFamilies = append(spec.IPFamilies, otherFamily(spec.IPFamilies[0]))
	}
	return nil
}

// settleExplicit checks the policy against what the manifest lists, and takes
// the families of its addresses.
func (f familyRules) settleExplicit(spec *corev1.ServiceSpec) (errs field.ErrorList) {
	path := field.NewPath("spec")
	if *spec.IPFamilyPolicy == corev1.IPFamilyPolicySingleStack {
		const why = "must be 'RequireDualStack' or 'PreferDualStack' when multiple %s are specified"
		if len(spec.ClusterIPs) == 2 {
			errs = append(errs, field.Invalid(path.Child("ipFamilyPolicy"), *spec.IPFamilyPolicy, fmt.Sprintf(why, "cluster IPs")))
		}
		if len(spec.IPFamilies) == 2 {
			errs = append(errs, field.Invalid(path.Child("ipFamilyPolicy"), *spec.IPFamilyPolicy, fmt.Sprintf(why, "IP families")))
		}
	}
	if headless(spec) {
		return errs
	}
	for i := len(spec.IPFamilies); i < len(spec.ClusterIPs); i++ {
		family := familyOf(netip.MustParseAddr(spec.ClusterIPs[i])) // checked before
		if !f.has(family) {
			errs = append(errs, field.Invalid(path.Child("clusterIPs").Index(i), spec.ClusterIPs[i], fmt.Sprintf("no service CIDR is %s; add one (--service-cidr)", family)))
			continue
		}
		spec.IPFamilies = append(spec.IPFamilies, family)
	}
	return errs
}

func (f familyRules) refuse(spec *corev1.ServiceSpec) (errs field.ErrorList) {
	path := field.NewPath("spec")
	if *spec.IPFamilyPolicy == corev1.IPFamilyPolicyRequireDualStack && len(f) < 2 {
		errs = append(errs, field.Invalid(path.Child("ipFamilyPolicy"), *spec.IPFamilyPolicy, fmt.Sprintf("the only service CIDR is %s; add one of the other family (--service-cidr), or write PreferDualStack", f[0])))
	}
	for i, family := range spec.IPFamilies {
		if !f.has(family) {
			errs = append(errs, field.Invalid(path.Child("ipFamilies").Index(i), family, "no service CIDR of this family; add one (--service-cidr)"))
		}
	}
	return errs
}
