package endpoints

import (
	"encoding/json"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// WeightAnnotation on a Pod is its share of the traffic of a Service, relative
// to the other endpoints: a number from 1 to MaxWeight. Pods without it have 1.
const WeightAnnotation = "toyproxy.dev/weight"

// WeightsAnnotation on an EndpointSlice holds the weights of its endpoints,
// because the API has no field for them: a JSON object from the first address
// of an endpoint, written as in the slice, to its weight, such as
// {"10.244.0.5":20}. Endpoints that are not in it have weight 1. Slices that
// this package makes have it where a Pod has WeightAnnotation; slices that are
// given may have it too.
const WeightsAnnotation = "toyproxy.dev/weights"

// MaxWeight is the greatest weight. Backends may hold an endpoint as many times
// as its weight says.
const MaxWeight = 100

// longestWeight bounds how much of a text that is no weight is carried along,
// for the message about it.
const longestWeight = 32

// ParseWeight reads a weight.
func ParseWeight(text string) (uint16, bool) {
	n, err := strconv.ParseUint(text, 10, 16)
	return uint16(n), err == nil && n >= 1 && n <= MaxWeight
}

// Weights returns what WeightsAnnotation of a slice says, by address: the texts
// are for ParseWeight, which may refuse them. An annotation that is no JSON
// object is an error.
func Weights(slice *discoveryv1.EndpointSlice) (map[string]string, error) {
	text, ok := slice.Annotations[WeightsAnnotation]
	if !ok {
		return nil, nil
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		return nil, fmt.Errorf("weights of EndpointSlice %s/%s: %w", slice.Namespace, slice.Name, err)
	}
	out := make(map[string]string, len(raw))
	for addr, value := range raw {
		var quoted string
		if json.Unmarshal(value, &quoted) != nil {
			quoted = string(value)
		}
		out[addr] = quoted
	}
	return out, nil
}

// annotations returns the annotations of a slice with these endpoints: their
// weights, if any Pod has one. A text that is no weight is carried as it is, so
// that whoever reads the slice can say so.
func annotations(eps []discoveryv1.Endpoint, weights map[string]string) map[string]string {
	values := map[string]any{}
	for _, ep := range eps {
		text, ok := weights[ep.Addresses[0]]
		if !ok {
			continue
		}
		if weight, ok := ParseWeight(text); ok {
			values[ep.Addresses[0]] = weight
			continue
		}
		values[ep.Addresses[0]] = text[:min(len(text), longestWeight)]
	}
	if len(values) == 0 {
		return nil
	}
	// Keys come out sorted, and strings cannot fail.
	text, err := json.Marshal(values)
	if err != nil {
		return nil
	}
	return map[string]string{WeightsAnnotation: string(text)}
}

// weightsOf returns the weights that Pods ask for, by their first address of
// the family.
func weightsOf(pods []*corev1.Pod, family discoveryv1.AddressType) map[string]string {
	var out map[string]string
	for _, p := range pods {
		text, ok := p.Annotations[WeightAnnotation]
		if !ok {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		if addrs := addresses(p, family); len(addrs) > 0 {
			out[addrs[0]] = text
		}
	}
	return out
}

func sameWeight(a, b *corev1.Pod) bool {
	x, inA := a.Annotations[WeightAnnotation]
	y, inB := b.Annotations[WeightAnnotation]
	return x == y && inA == inB
}
