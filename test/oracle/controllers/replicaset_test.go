package controllers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubecontroller "k8s.io/kubernetes/pkg/controller"

	"github.com/toyproxy/toyproxy/controller"
)

func replicaSetOf(replicas int32) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{ObjectMeta: web, Spec: appsv1.ReplicaSetSpec{Replicas: &replicas, Selector: &selector, Template: template("v1")}}
}

// TestAdoptionAgrees: orphans that match are taken in, the surplus ended; others stay.
func TestAdoptionAgrees(t *testing.T) {
	for _, replicas := range []int32{1, 2, 4} {
		t.Run(fmt.Sprint(replicas), func(t *testing.T) {
			p := newPair(t)
			ctx := context.Background()
			for i, app := range []string{"web", "web", "other"} {
				pod := &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("lone-", i), Labels: map[string]string{"app": app}},
					Spec:       template("v0").Spec, Status: corev1.PodStatus{Phase: corev1.PodPending},
				}
				pod.Spec.NodeName = nodeName
				p.ours.put(pod.DeepCopy())
				if _, err := p.kube.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			p.agree("Pods alone")
			rs := replicaSetOf(replicas)
			rs.UID = "uid-web"
			p.ours.put(rs.DeepCopy())
			if _, err := p.kube.client.AppsV1().ReplicaSets(namespace).Create(ctx, rs, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			p.agree("created")
		})
	}
}

// TestScaleDownOrderAgrees: which of many different Pods go first. Upstream compares
// ages by their order of magnitude when it is told the time; here it is not.
func TestScaleDownOrderAgrees(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for round := range 200 {
		var pods []*corev1.Pod
		for i := range 12 {
			pods = append(pods, randomPod(rng, i, now))
		}
		theirs := kubecontroller.ActivePodsWithRanks{Pods: slices.Clone(pods), Rank: make([]int, len(pods))}
		sort.Stable(theirs)
		keep := rng.Int32N(12)
		res := controller.Reconcile(controller.Input{
			ReplicaSets: []*appsv1.ReplicaSet{replicaSetOf(keep)}, Pods: pods, Node: nodeName, Now: now.Add(time.Hour),
		})
		var want, got []string
		for _, pod := range theirs.Pods[:len(pods)-int(keep)] {
			want = append(want, pod.Name)
		}
		for _, a := range res.Actions {
			if a.Op == controller.Delete {
				got = append(got, a.Object.GetName())
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("round %d (-Kubernetes +ours):\n%s", round, diff)
		}
	}
}

// randomPod is of any phase, readiness, cost and age.
func randomPod(rng *rand.Rand, i int, now time.Time) *corev1.Pod {
	yes := true
	ago := func(n int) metav1.Time { return metav1.NewTime(now.Add(-time.Duration(rng.IntN(n)) * time.Minute)) }
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprintf("web-%02d", i), UID: types.UID(fmt.Sprint(i)), Labels: map[string]string{"app": "web"},
			// All creation times differ: of equals nobody says which goes.
			CreationTimestamp: metav1.NewTime(now.Add(-time.Duration(rng.IntN(5)*100+i) * time.Minute)),
			OwnerReferences:   []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "uid-web", Controller: &yes}},
		},
		Status: corev1.PodStatus{Phase: []corev1.PodPhase{corev1.PodPending, corev1.PodRunning, corev1.PodRunning, corev1.PodUnknown}[rng.IntN(4)]},
	}
	if rng.IntN(4) > 0 {
		pod.Spec.NodeName = nodeName
	}
	if rng.IntN(3) > 0 {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: ago(3)}}
	}
	if rng.IntN(4) == 0 {
		pod.Annotations = map[string]string{corev1.PodDeletionCost: fmt.Sprint(rng.IntN(3) - 1)}
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: rng.Int32N(2)}}
	return pod
}
