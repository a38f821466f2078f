package controller

import (
	"fmt"
	"testing"

	"github.com/toyproxy/toyproxy/cluster"
)

// BenchmarkReconcile: a pass over 100 Deployments with 1,000 Pods that finds nothing
// to do, and one over a single Deployment of them.
func BenchmarkReconcile(b *testing.B) {
	w := newWorld(b)
	for i := range 100 {
		w.put(deploy(fmt.Sprintf("web-%d", i), 10))
	}
	w.settle()
	in := w.input()
	if len(in.Pods) != 1000 {
		b.Fatalf("%d Pods", len(in.Pods))
	}
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			Reconcile(in)
		}
	})
	b.Run("one", func(b *testing.B) {
		for b.Loop() {
			Reconcile(in.Of(cluster.MakeRef(cluster.Deployment, "default", "web-50")))
		}
	})
}
