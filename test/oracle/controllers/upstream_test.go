package controllers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/daemon"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	"k8s.io/kubernetes/pkg/controller/statefulset"
)

const (
	namespace = "default"
	nodeName  = "n1"
)

// TestMain keeps the controllers' log to itself, and switches off a check of theirs
// that needs the versions of a real API server's store.
func TestMain(m *testing.M) {
	for _, kind := range []string{"ReplicaSet", "StatefulSet", "DaemonSet"} {
		if err := utilfeature.DefaultMutableFeatureGate.Set("StaleControllerConsistency" + kind + "=false"); err != nil {
			panic(err)
		}
	}
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	m.Run()
}

// kubernetes is a cluster of one node: upstream's controllers, an API server of
// memory, and a kubelet that only says so.
type kubernetes struct {
	t      *testing.T
	client *fake.Clientset
	serial atomic.Int64
}

// startKubernetes starts the controllers; they end with the test.
func startKubernetes(t *testing.T) *kubernetes {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	k := &kubernetes{t: t, client: fake.NewSimpleClientset(node)} //nolint:staticcheck // the newer one demands an OpenAPI schema
	k.client.PrependReactor("create", "*", k.born)
	k.client.PrependReactor("update", "*", k.updated)
	inf := informers.NewSharedInformerFactory(k.client, 0)
	apps, core := inf.Apps().V1(), inf.Core().V1()
	d, err := deployment.NewDeploymentController(ctx, apps.Deployments(), apps.ReplicaSets(), core.Pods(), k.client)
	if err != nil {
		t.Fatal(err)
	}
	rs := replicaset.NewReplicaSetController(ctx, apps.ReplicaSets(), core.Pods(), k.client, replicaset.BurstReplicas)
	s := statefulset.NewStatefulSetController(ctx, core.Pods(), apps.StatefulSets(), core.PersistentVolumeClaims(), apps.ControllerRevisions(), k.client)
	ds, err := daemon.NewDaemonSetsController(ctx, apps.DaemonSets(), apps.ControllerRevisions(), core.Pods(), core.Nodes(), k.client,
		flowcontrol.NewBackOff(time.Millisecond, time.Second))
	if err != nil {
		t.Fatal(err)
	}
	kubelet := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { k.run(ctx, obj.(*corev1.Pod)) },
		UpdateFunc: func(_, obj any) { k.run(ctx, obj.(*corev1.Pod)) },
	}
	if _, err := core.Pods().Informer().AddEventHandler(kubelet); err != nil {
		t.Fatal(err)
	}
	inf.Start(ctx.Done())
	inf.WaitForCacheSync(ctx.Done())
	for _, run := range []func(){
		func() { d.Run(ctx, 2) }, func() { rs.Run(ctx, 2) }, func() { s.Run(ctx, 2) }, func() { ds.Run(ctx, 2) },
	} {
		go run()
	}
	return k
}

// run makes a Pod ready, unless it never will be.
func (k *kubernetes) run(ctx context.Context, pod *corev1.Pod) {
	if pod.Status.Phase == corev1.PodRunning || pod.DeletionTimestamp != nil {
		return
	}
	pod = pod.DeepCopy()
	makeReady(pod, time.Now())
	// One that is deleted meanwhile needs no status.
	_, _ = k.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
}

// makeReady is what the kubelets of both sides do.
func makeReady(pod *corev1.Pod, now time.Time) {
	pod.Status.Phase = corev1.PodRunning
	is := corev1.ConditionTrue
	if broken(pod) {
		is = corev1.ConditionFalse
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: is, LastTransitionTime: metav1.NewTime(now)}}
}

// born gives a new object what an API server gives it.
func (k *kubernetes) born(action clienttesting.Action) (bool, runtime.Object, error) {
	obj := action.(clienttesting.CreateAction).GetObject()
	m, err := meta.Accessor(obj)
	if err != nil {
		return false, nil, nil
	}
	if m.GetName() == "" {
		m.SetName(m.GetGenerateName() + rand.String(5))
	}
	m.SetUID(types.UID(fmt.Sprintf("uid-%d", k.serial.Add(1))))
	m.SetCreationTimestamp(metav1.Now())
	m.SetGeneration(1)
	m.SetResourceVersion(strconv.FormatInt(k.serial.Add(1), 10))
	if pod, ok := obj.(*corev1.Pod); ok {
		pod.Status.Phase, pod.Spec.NodeName = corev1.PodPending, nodeName
	}
	return false, nil, nil
}

// updated refuses changes of an older version, keeps spec and status apart, and
// counts generations, as an API server does.
func (k *kubernetes) updated(action clienttesting.Action) (bool, runtime.Object, error) {
	update := action.(clienttesting.UpdateAction)
	next := update.GetObject()
	m, err := meta.Accessor(next)
	if err != nil {
		return false, nil, nil
	}
	old, err := k.client.Tracker().Get(update.GetResource(), m.GetNamespace(), m.GetName())
	if err != nil {
		return false, nil, nil
	}
	if was, err := meta.Accessor(old); err == nil && was.GetResourceVersion() != m.GetResourceVersion() {
		return true, nil, apierrors.NewConflict(update.GetResource().GroupResource(), m.GetName(), errors.New("the object has changed since"))
	}
	if update.GetSubresource() == "status" {
		keepRest(old.DeepCopyObject(), next)
	} else {
		keepStatus(old.DeepCopyObject(), next)
		if !equality.Semantic.DeepEqual(specOf(old), specOf(next)) {
			m.SetGeneration(m.GetGeneration() + 1)
		}
	}
	m.SetResourceVersion(strconv.FormatInt(k.serial.Add(1), 10))
	return false, nil, nil
}

// keepStatus gives next the status of old; keepRest all but the status.
func keepStatus(old, next runtime.Object) {
	switch next := next.(type) {
	case *appsv1.Deployment:
		next.Status = old.(*appsv1.Deployment).Status
	case *appsv1.ReplicaSet:
		next.Status = old.(*appsv1.ReplicaSet).Status
	case *appsv1.StatefulSet:
		next.Status = old.(*appsv1.StatefulSet).Status
	case *appsv1.DaemonSet:
		next.Status = old.(*appsv1.DaemonSet).Status
	case *corev1.Pod:
		next.Status = old.(*corev1.Pod).Status
	}
}

func keepRest(old, next runtime.Object) {
	switch next := next.(type) {
	case *appsv1.Deployment:
		from := old.(*appsv1.Deployment)
		from.Annotations = next.Annotations // the revision travels with the status
		next.Spec, next.ObjectMeta = from.Spec, from.ObjectMeta
	case *appsv1.ReplicaSet:
		from := old.(*appsv1.ReplicaSet)
		next.Spec, next.ObjectMeta = from.Spec, from.ObjectMeta
	case *appsv1.StatefulSet:
		from := old.(*appsv1.StatefulSet)
		next.Spec, next.ObjectMeta = from.Spec, from.ObjectMeta
	case *appsv1.DaemonSet:
		from := old.(*appsv1.DaemonSet)
		next.Spec, next.ObjectMeta = from.Spec, from.ObjectMeta
	case *corev1.Pod:
		from := old.(*corev1.Pod)
		next.Spec, next.ObjectMeta = from.Spec, from.ObjectMeta
	}
}

func specOf(obj runtime.Object) any {
	switch obj := obj.(type) {
	case *appsv1.Deployment:
		return obj.Spec
	case *appsv1.ReplicaSet:
		return obj.Spec
	case *appsv1.StatefulSet:
		return obj.Spec
	case *appsv1.DaemonSet:
		return obj.Spec
	}
	return nil
}

// edit repeats a change until nobody comes between.
func (k *kubernetes) edit(change func(context.Context) error) {
	k.t.Helper()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error { return change(context.Background()) })
	if err != nil {
		k.t.Fatal(err)
	}
}

// state lists everything there is.
func (k *kubernetes) state(ctx context.Context) state {
	k.t.Helper()
	var s state
	list := func(err error) {
		if err != nil {
			k.t.Fatal(err)
		}
	}
	deployments, err := k.client.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{})
	list(err)
	sets, err := k.client.AppsV1().ReplicaSets(namespace).List(ctx, metav1.ListOptions{})
	list(err)
	stateful, err := k.client.AppsV1().StatefulSets(namespace).List(ctx, metav1.ListOptions{})
	list(err)
	daemons, err := k.client.AppsV1().DaemonSets(namespace).List(ctx, metav1.ListOptions{})
	list(err)
	revisions, err := k.client.AppsV1().ControllerRevisions(namespace).List(ctx, metav1.ListOptions{})
	list(err)
	pods, err := k.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	list(err)
	s.deployments, s.sets, s.stateful = pointers(deployments.Items), pointers(sets.Items), pointers(stateful.Items)
	s.daemons, s.revisions, s.pods = pointers(daemons.Items), pointers(revisions.Items), pointers(pods.Items)
	return s
}

func pointers[T any](items []T) []*T {
	var out []*T
	for i := range items {
		out = append(out, &items[i])
	}
	return out
}

// settles waits until upstream has come to the lines that are wanted and stays there.
// It returns what it saw last.
func (k *kubernetes) settles(want []string) []string {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var got []string
	for same := 0; same < 5; {
		select {
		case <-ctx.Done():
			return got
		case <-tick.C:
		}
		got = k.state(context.Background()).view()
		if same++; !slices.Equal(got, want) {
			same = 0
		}
	}
	return got
}
