package gateway

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// verdict is one condition to be: its reason says whether it is true.
type verdict struct {
	kind, reason, message string
	holds                 bool
}

// yes is a condition that is true. The API's types and reasons are strings of many
// types, which is what the type parameters are for.
func yes[K, R ~string](kind K, reason R, message string) verdict {
	return verdict{string(kind), string(reason), message, true}
}

// no is a condition that is false.
func no[K, R ~string](kind K, reason R, message string) verdict {
	return verdict{string(kind), string(reason), message, false}
}

// conditions returns the verdicts as conditions of an object of that generation, each in
// the place of the old one of its type. Its time is that of the old one unless it turns.
// Old conditions of types that this package knows and that have no verdict now are gone;
// those of others stay.
func conditions(old []metav1.Condition, generation int64, now metav1.Time, verdicts []verdict) []metav1.Condition {
	out := make([]metav1.Condition, 0, len(verdicts))
	for _, c := range old {
		has := slices.ContainsFunc(verdicts, func(v verdict) bool { return v.kind == c.Type })
		if has || !ours(c.Type) {
			out = append(out, c)
		}
	}
	for _, v := range verdicts {
		next := metav1.Condition{
			Type: v.kind, Status: metav1.ConditionFalse, Reason: v.reason, Message: v.message,
			ObservedGeneration: generation, LastTransitionTime: now,
		}
		if v.holds {
			next.Status = metav1.ConditionTrue
		}
		was := meta.FindStatusCondition(out, v.kind)
		switch {
		case was == nil:
			out = append(out, next)
		case was.Status == next.Status:
			next.LastTransitionTime = was.LastTransitionTime
			fallthrough
		default:
			*was = next
		}
	}
	return out
}

func ours(kind string) bool {
	return slices.Contains([]string{
		string(gatewayv1.GatewayConditionAccepted), string(gatewayv1.GatewayConditionProgrammed),
		string(gatewayv1.ListenerConditionResolvedRefs), string(gatewayv1.ListenerConditionConflicted),
		string(gatewayv1.RouteConditionPartiallyInvalid),
	}, kind)
}
