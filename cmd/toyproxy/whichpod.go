package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/cluster/state"
	"github.com/toyproxy/toyproxy/pods"
)

// onePod returns the Pod that an argument names: NAME, pod/NAME, or KIND/NAME of what
// selects Pods, of which it takes the first that is ready.
func (p *placeFlags) onePod(cmd *cobra.Command, arg string) (*corev1.Pod, error) {
	if !strings.Contains(arg, "/") {
		return pods.LoadPod(p.stateDir(), types.NamespacedName{Namespace: p.namespace, Name: arg})
	}
	targets, err := p.targets(selectingKinds(), []string{arg})
	if err != nil {
		return nil, err
	}
	t := targets[0]
	if t.resource == "pod" {
		return p.onePod(cmd, t.Name)
	}
	obj, err := readLive(p.stateDir(), t)
	if err != nil {
		return nil, absent(t, err)
	}
	want, err := selectorOf(obj)
	if err != nil {
		return nil, err
	}
	found, err := p.selectPods(want)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s has no Pods on this node: `toyproxy describe %s %s` tells why", t, t.plural, t.Name)
	}
	slices.SortStableFunc(found, func(a, b *corev1.Pod) int { return cmp.Compare(readyRank(a), readyRank(b)) })
	if len(found) > 1 {
		fmt.Fprintf(cmd.ErrOrStderr(), "Found %d pods, using pod/%s\n", len(found), found[0].Name)
	}
	return found[0], nil
}

// selectingKinds are the kinds of objects that mean Pods.
func selectingKinds() kinds {
	without := append(state.DoorKinds(), cluster.ConfigMap, cluster.Secret)
	return slices.DeleteFunc(liveKinds(), func(k target) bool { return slices.Contains(without, k.Kind) })
}

// selectorOf is the selector of an object that has one.
func selectorOf(obj metav1.Object) (labels.Selector, error) {
	switch o := obj.(type) {
	case *corev1.Service:
		if len(o.Spec.Selector) == 0 {
			return labels.Nothing(), nil
		}
		return labels.SelectorFromSet(o.Spec.Selector), nil
	case *appsv1.Deployment:
		return metav1.LabelSelectorAsSelector(o.Spec.Selector)
	case *appsv1.ReplicaSet:
		return metav1.LabelSelectorAsSelector(o.Spec.Selector)
	case *appsv1.StatefulSet:
		return metav1.LabelSelectorAsSelector(o.Spec.Selector)
	case *appsv1.DaemonSet:
		return metav1.LabelSelectorAsSelector(o.Spec.Selector)
	}
	return labels.Nothing(), nil
}

// selectPods returns the Pods of the node and the namespace that a selector picks.
func (p *placeFlags) selectPods(want labels.Selector) ([]*corev1.Pod, error) {
	all, err := state.OpenPods(p.stateDir()).List()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(pod *corev1.Pod) bool {
		return pod.Namespace != p.namespace || !want.Matches(labels.Set(pod.Labels))
	}), nil
}

// readyRank is lower for Pods that are ready.
func readyRank(p *corev1.Pod) int {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return 0
		}
	}
	return 1
}
