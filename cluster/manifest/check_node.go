package manifest

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func checkNode(n *corev1.Node) field.ErrorList {
	isIPv4 := func(p netip.Prefix) bool { return p.Addr().Is4() }
	errs := lists(
		checkMeta(&n.ObjectMeta, false, apivalidation.NameIsDNSSubdomain),
		checkPair(field.NewPath("spec", "podCIDRs"), n.Spec.PodCIDRs, parsePrefix, isIPv4),
	)
	// Node addresses become frontends of node ports, so they are held to more
	// than an API server holds them to.
	path := field.NewPath("status", "addresses")
	for i, a := range n.Status.Addresses {
		if a.Type != corev1.NodeInternalIP && a.Type != corev1.NodeExternalIP {
			continue
		}
		if _, err := parseAddr(path.Index(i).Child("address"), a.Address); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

func checkNamespace(n *corev1.Namespace) field.ErrorList {
	return checkMeta(&n.ObjectMeta, false, apivalidation.NameIsDNSLabel)
}
