package endpoints_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/toyproxy/toyproxy/endpoints"
)

func weight(text string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations = labels{endpoints.WeightAnnotation: text, "other": "x"} }
}

// Weights of Pods stand in an annotation of their slices, each in its own.
func TestWeightsInSlices(t *testing.T) {
	var objects []any
	for i := range 101 {
		objects = append(objects, newPod(fmt.Sprintf("p%03d", i), "", web, addrs(fmt.Sprintf("10.0.1.%d", i), fmt.Sprintf("fd00::%x", i+1))))
	}
	weight("20")(objects[1].(*corev1.Pod))
	weight("many")(objects[2].(*corev1.Pod))
	weight("1" + strings.Repeat("0", 100))(objects[3].(*corev1.Pod))
	x := indexOf(append(objects, newService("web", web, dual))...)
	var got []string
	for _, s := range x.Resolve(key("default", "web")) {
		got = append(got, s.Annotations[endpoints.WeightsAnnotation])
	}
	long := `"1` + strings.Repeat("0", 31) + `"`
	equal(t, "annotations", got, []string{
		`{"10.0.1.1":20,"10.0.1.2":"many","10.0.1.3":` + long + `}`, "",
		`{"fd00::2":20,"fd00::3":"many","fd00::4":` + long + `}`, "",
	})
	read, err := endpoints.Weights(x.Resolve(key("default", "web"))[0])
	want := map[string]string{"10.0.1.1": "20", "10.0.1.2": "many", "10.0.1.3": strings.Trim(long, `"`)}
	if diff := cmp.Diff(want, read); diff != "" || err != nil {
		t.Errorf("read (%v):\n%s", err, diff)
	}
}

func TestParseWeight(t *testing.T) {
	for text, want := range map[string]uint16{"1": 1, "100": 100, "0": 0, "101": 0, "-1": 0, "+5": 0, "5 ": 0, "": 0, "1e1": 0, "0x5": 0, "99999999999": 0} {
		if got, ok := endpoints.ParseWeight(text); ok != (want > 0) || ok && got != want {
			t.Errorf("%q is %d, %t", text, got, ok)
		}
	}
}

func TestWeightsThatAreNone(t *testing.T) {
	for _, text := range []string{"", "x", "[]", `"x"`, "5"} {
		s := &discoveryv1.EndpointSlice{}
		s.Annotations = labels{endpoints.WeightsAnnotation: text}
		if got, err := endpoints.Weights(s); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

// A changed weight changes the Services that select the Pod, another
// annotation none.
func TestWeightAffects(t *testing.T) {
	x := indexOf(newService("web", web), newPod("p", "10.0.0.1", web))
	equal(t, "set", names(x.SetPod(newPod("p", "10.0.0.1", web, weight("5")))), []string{"web"})
	equal(t, "the same", names(x.SetPod(newPod("p", "10.0.0.1", web, weight("5")))), nil)
	equal(t, "another annotation", names(x.SetPod(newPod("p", "10.0.0.1", web, weight("5"), func(p *corev1.Pod) { p.Annotations["other"] = "y" }))), nil)
	equal(t, "gone", names(x.SetPod(newPod("p", "10.0.0.1", web))), []string{"web"})
}
