package main

import (
	"context"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/cluster"
)

func podNamespaceName(p *corev1.Pod) string { return p.Name }
func madeHere(p *corev1.Pod) bool           { return false }
func newPods(src *sourceFlags, sc scope, objs cluster.Objects, node agent.Node) (agent.Pods, error) {
	return nil, nil
}
func livePods(sc scope, pods []*corev1.Pod) ([]*corev1.Pod, error) { return pods, nil }
func predictPods(ctx context.Context, src *sourceFlags, sc scope, objs cluster.Objects, node agent.Node) ([]*corev1.Pod, error) {
	return objs.Pods, nil
}
func hiddenCommands() []*cobra.Command { return nil }
