package balance

import (
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/toyproxy/toyproxy/endpoints"
)

// weights are the shares of the endpoints of one slice.
type weights struct {
	slice *discoveryv1.EndpointSlice
	// texts are by address; nil when the slice says nothing.
	texts map[string]string
	found *findings
}

func weightsOf(slice *discoveryv1.EndpointSlice, found *findings) weights {
	texts, err := endpoints.Weights(slice)
	if err != nil {
		found.badWeights(slice)
	}
	return weights{slice, texts, found}
}

// of returns the weight of an endpoint of the slice: 1 unless it says otherwise.
func (w weights) of(i int) uint16 {
	if w.texts == nil {
		return 1
	}
	text, ok := w.texts[w.slice.Endpoints[i].Addresses[0]]
	if !ok {
		return 1
	}
	weight, ok := endpoints.ParseWeight(text)
	if !ok {
		w.found.badWeight(w.slice, i, text)
		return 1
	}
	return weight
}
