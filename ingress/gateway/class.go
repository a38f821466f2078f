package gateway

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/pkg/features"
)

// Features returns the names of what is served of the Gateway API, sorted: what
// stands in status.supportedFeatures of a GatewayClass.
func Features() []string {
	var out []string
	for _, name := range []features.FeatureName{
		features.SupportGateway,
		features.SupportGatewayPort8080,
		features.SupportGatewayHTTPListenerIsolation,
		features.SupportGatewayHTTPSListenerDetectMisdirectedRequests,
		features.SupportGatewayAddressEmpty,
		features.SupportHTTPRoute,
		features.SupportHTTPRouteBackendProtocolH2C,
		features.SupportHTTPRouteBackendProtocolWebSocket,
		features.SupportHTTPRouteBackendRequestHeaderModification,
		features.SupportHTTPRouteBackendTimeout,
		features.SupportHTTPRouteDestinationPortMatching,
		features.SupportHTTPRouteHostRewrite,
		features.SupportHTTPRouteMethodMatching,
		features.SupportHTTPRouteNamedRouteRule,
		features.SupportHTTPRouteParentRefPort,
		features.SupportHTTPRoutePathRedirect,
		features.SupportHTTPRoutePathRewrite,
		features.SupportHTTPRoutePortRedirect,
		features.SupportHTTPRouteQueryParamMatching,
		features.SupportHTTPRouteRequestMirror,
		features.SupportHTTPRouteRequestMultipleMirrors,
		features.SupportHTTPRouteRequestPercentageMirror,
		features.SupportHTTPRouteRequestTimeout,
		features.SupportHTTPRouteResponseHeaderModification,
		features.SupportHTTPRouteSchemeRedirect,
		features.SupportHTTPRoute303RedirectStatusCode,
		features.SupportHTTPRoute307RedirectStatusCode,
		features.SupportHTTPRoute308RedirectStatusCode,
		features.SupportReferenceGrant,
	} {
		out = append(out, string(name))
	}
	slices.Sort(out)
	return out
}

// classStatus says that a class of ours is accepted, unless it has parameters: there
// are none that we know.
func classStatus(class *gatewayv1.GatewayClass, now metav1.Time) gatewayv1.GatewayClassStatus {
	v := yes(gatewayv1.GatewayClassConditionStatusAccepted, gatewayv1.GatewayClassReasonAccepted, "the class is served")
	if class.Spec.ParametersRef != nil {
		v = no(gatewayv1.GatewayClassConditionStatusAccepted, gatewayv1.GatewayClassReasonInvalidParameters,
			"spec.parametersRef: this controller knows no parameters; remove the field")
	}
	status := gatewayv1.GatewayClassStatus{Conditions: conditions(class.Status.Conditions, class.Generation, now, []verdict{v})}
	for _, name := range Features() {
		status.SupportedFeatures = append(status.SupportedFeatures, gatewayv1.SupportedFeature{Name: gatewayv1.FeatureName(name)})
	}
	return status
}
