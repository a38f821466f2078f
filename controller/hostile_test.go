package controller

import (
	"math"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// creates counts the Pods that a pass makes.
func creates(res Result) int {
	n := 0
	for _, a := range res.Actions {
		if _, ok := a.Object.(*corev1.Pod); ok && a.Op == Create {
			n++
		}
	}
	return n
}

// TestAbsurdReplicas: a count with too many digits makes a pass neither long nor
// large, and the Pods come all the same.
func TestAbsurdReplicas(t *testing.T) {
	for name, c := range map[string]struct {
		in       Input
		most     int
		problems int
	}{
		"Deployment":               {Input{Deployments: []*appsv1.Deployment{deploy("web", math.MaxInt32)}}, burst, 0},
		"StatefulSet":              {Input{StatefulSets: []*appsv1.StatefulSet{stateful("db", mostPlaces, parallel)}}, burst, 0},
		"StatefulSet beyond bound": {Input{StatefulSets: []*appsv1.StatefulSet{stateful("db", math.MaxInt32)}}, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for _, d := range c.in.Deployments {
				w.put(d)
			}
			for _, s := range c.in.StatefulSets {
				w.put(s)
			}
			w.step() // the sets and revisions
			res := w.pass()
			if got := creates(res); got > c.most || len(res.Problems) != c.problems {
				t.Errorf("%d Pods and problems %v in one pass, want at most %d and %d problems", got, res.Problems, c.most, c.problems)
			}
			if got := len(w.living()); c.most > 0 && got == 0 {
				t.Error("no Pod at all")
			}
		})
	}
}
