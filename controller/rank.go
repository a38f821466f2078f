package controller

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// deletionCost is the annotation by which people say which Pods to keep.
const deletionCost = "controller.kubernetes.io/pod-deletion-cost"

// firstToGo orders living Pods by who is ended first when there are too many:
// those that serve least, then the cheapest, then the newest. The input stays.
func firstToGo(pods []*corev1.Pod) []*corev1.Pod {
	out := slices.Clone(pods)
	slices.SortStableFunc(out, compareToGo)
	return out
}

// compareToGo is negative when a goes before b. Kubernetes compares ages by their
// order of magnitude; here the newest is the newest.
func compareToGo(a, b *corev1.Pod) int {
	return cmp.Or(
		cmp.Compare(rankAssigned(a), rankAssigned(b)),
		cmp.Compare(rankPhase(a), rankPhase(b)),
		cmp.Compare(rankReady(a), rankReady(b)),
		cmp.Compare(costOf(a), costOf(b)),
		compareReadySince(a, b),
		cmp.Compare(restarts(b), restarts(a)),
		born(b).Compare(born(a)),
		cmp.Compare(b.Name, a.Name),
	)
}

func rankAssigned(p *corev1.Pod) int {
	if p.Spec.NodeName == "" {
		return 0
	}
	return 1
}

func rankPhase(p *corev1.Pod) int {
	switch p.Status.Phase {
	case corev1.PodRunning:
		return 2
	case corev1.PodUnknown:
		return 1
	}
	return 0
}

func rankReady(p *corev1.Pod) int {
	if ready(p) {
		return 1
	}
	return 0
}

// costOf is the deletion cost; what is no number costs nothing.
func costOf(p *corev1.Pod) int32 {
	n, err := strconv.ParseInt(p.Annotations[deletionCost], 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}

// compareReadySince: of two ready Pods the one goes first that became ready last.
// Statuses hold seconds: within the same, the time of making decides.
func compareReadySince(a, b *corev1.Pod) int {
	if !ready(a) || !ready(b) {
		return 0
	}
	return readySince(b).Truncate(time.Second).Compare(readySince(a).Truncate(time.Second))
}

func restarts(p *corev1.Pod) int32 {
	var most int32
	for _, c := range p.Status.ContainerStatuses {
		most = max(most, c.RestartCount)
	}
	return most
}
