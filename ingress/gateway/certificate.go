package gateway

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/ingress"
)

// readTLS takes the certificates of an HTTPS listener. One good certificate is enough
// for it to be served; any bad one is told.
func (w *world) readTLS(gw *gatewayv1.Gateway, l *listener) {
	tls := l.spec.TLS
	switch {
	case tls != nil && tls.Mode != nil && *tls.Mode != gatewayv1.TLSModeTerminate:
		l.refuse(gatewayv1.ListenerReasonUnsupportedValue, fmt.Sprintf("tls.mode: %s is not served for HTTPS: use Terminate", *tls.Mode))
		return
	case gw.Spec.TLS != nil && gw.Spec.TLS.Frontend != nil:
		// Without the check of the client that the Gateway asks for, nobody is let in.
		l.refuse(gatewayv1.ListenerReasonUnsupportedValue, "the Gateway's spec.tls.frontend: certificates of clients are not checked; remove the field")
		return
	case tls == nil || len(tls.CertificateRefs) == 0:
		l.unresolved(gatewayv1.ListenerReasonInvalidCertificateRef, "tls.certificateRefs: HTTPS needs a Secret of type kubernetes.io/tls")
		return
	}
	for i, ref := range tls.CertificateRefs {
		c, reason, message := w.certificate(gw, ref)
		if c == nil {
			l.unresolved(reason, fmt.Sprintf("tls.certificateRefs[%d]: %s", i, message))
			continue
		}
		l.certificates = append(l.certificates, *c)
	}
}

// certificate follows one reference, or says what is wrong with it.
func (w *world) certificate(gw *gatewayv1.Gateway, ref gatewayv1.SecretObjectReference) (*ingress.Certificate, gatewayv1.ListenerConditionReason, string) {
	if ref.Group != nil && *ref.Group != "" || ref.Kind != nil && *ref.Kind != "Secret" {
		return nil, gatewayv1.ListenerReasonInvalidCertificateRef, "only a Secret can hold a certificate"
	}
	to := cluster.MakeRef(cluster.Secret, gw.Namespace, string(ref.Name))
	if ref.Namespace != nil {
		to.Namespace = string(*ref.Namespace)
	}
	if !w.permitted(reference{cluster.MakeRef(cluster.Gateway, gw.Namespace, gw.Name), to}) {
		return nil, gatewayv1.ListenerReasonRefNotPermitted,
			fmt.Sprintf("%s is in another namespace, where no ReferenceGrant lets Gateways of %s use it", to, gw.Namespace)
	}
	secret := w.secrets[to.NamespacedName]
	if secret == nil {
		return nil, gatewayv1.ListenerReasonInvalidCertificateRef, fmt.Sprintf("there is no %s", to)
	}
	cert, key := secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey]
	if err := ingress.CheckPair(cert, key); err != nil {
		return nil, gatewayv1.ListenerReasonInvalidCertificateRef, fmt.Sprintf("%s: %v", to, err)
	}
	return &ingress.Certificate{Secret: to.NamespacedName, Cert: cert, Key: key}, "", ""
}

// selects says whether a selector of namespaces takes these labels. Without a
// selector it takes none: there is nothing that says which.
func selects(selector *metav1.LabelSelector, of labels) bool {
	if selector == nil {
		return false
	}
	s, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && s.Matches(k8slabels.Set(of))
}
