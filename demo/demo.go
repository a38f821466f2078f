// Package demo holds the built-in manifests and the lessons that `toyproxy demo`
// plays on the real kernel.
//
// A scenario runs in namespaces of its own (Sandbox), uses nothing but the
// commands a learner can type, prints each with what it answered, and fails
// when what it shows does not hold. It knows no internals of the product: it
// stands outside, in front of the command line.
package demo

import (
	"context"
	"embed"
	"fmt"
	"io"
)

// Manifests are the built-in ones, below "manifests".
//
//go:embed manifests
var Manifests embed.FS

// Scenario is one lesson.
type Scenario struct {
	// Name is what `toyproxy demo NAME` takes.
	Name string
	// Short says on one line what is shown.
	Short string
	run   func(context.Context, *stage) error
}

// Scenarios lists the lessons in the order in which they are best seen.
func Scenarios() []Scenario {
	return []Scenario{
		{"pod", "containers that share a network namespace, and the process that holds it (L1)", playPod},
		{"sidecar", "a volume shared by those containers that ask for it (L2)", playSidecar},
		{"restart", "a container that crashes is restarted, a Pod that is lost is replaced (L3)", playRestart},
		{"reconcile", "count, create, delete: seven iterations, two controllers, 100 losses (L4 to L8)", playReconcile},
		{"service", "a ClusterIP outlives its Pods: selectors, endpoints, kernel rules (t0 to t4)", playService},
		{"rolling-update", "2,000 connections a second through a rollout, and none fails (L9)", playRolling},
		{"canary", "19 Pods of v1 and one of v2 behind one address (L16)", playCanary},
		{"dns", "names that follow the Services: created, deleted, in two namespaces, with a history (L20 to L22)", playDNS},
		{"search", "short names, and every name that is tried for them (L23)", playSearch},
		{"ingress", "three applications behind one address, by host and path (L19)", playIngress},
		{"canary-http", "a share of the requests by weight, and by header", playCanaryHTTP},
	}
}

// Find returns the scenario of that name.
func Find(name string) (Scenario, error) {
	for _, s := range Scenarios() {
		if s.Name == name {
			return s, nil
		}
	}
	return Scenario{}, fmt.Errorf("there is no scenario %q: 'toyproxy demo' lists them", name)
}

// Options say how a scenario is played.
type Options struct {
	// Backend is the value of --backend.
	Backend string
	// Self is the path of the toyproxy binary that the commands call.
	Self string
	// Dir is an existing directory for the scenario's manifests.
	Dir string
	Out io.Writer
}

// Play runs the scenario in the namespaces of the calling process, which are
// to be a sandbox, and returns how many things were asserted. The error names
// the first that did not hold.
func (s Scenario) Play(ctx context.Context, o Options) (asserted int, err error) {
	st := &stage{Options: o}
	err = s.run(ctx, st)
	return st.asserted, err
}
