package rollout

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	revisionKey = "deployment.kubernetes.io/revision"
	causeKey    = "kubernetes.io/change-cause"
	// restartedKey is kubectl's: whoever reads templates knows it.
	restartedKey = "kubectl.kubernetes.io/restartedAt"
)

// Revision is one template that a workload has had.
type Revision struct {
	Number int64
	// Cause is what its author wrote about it; may be empty.
	Cause    string
	Template *corev1.PodTemplateSpec
}

// Kept is what a workload's history is read from.
type Kept struct {
	Sets      []*appsv1.ReplicaSet
	Revisions []*appsv1.ControllerRevision
}

// History returns the revisions of a workload, oldest first.
func History(obj metav1.Object, kept Kept) ([]Revision, error) {
	var out []Revision
	switch obj := obj.(type) {
	case *appsv1.Deployment:
		for _, rs := range kept.Sets {
			number, err := strconv.ParseInt(rs.Annotations[revisionKey], 10, 64)
			if err != nil || !metav1.IsControlledBy(rs, obj) {
				continue
			}
			t := rs.Spec.Template.DeepCopy()
			delete(t.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
			out = append(out, Revision{number, rs.Annotations[causeKey], t})
		}
	case *appsv1.StatefulSet, *appsv1.DaemonSet:
		for _, rev := range kept.Revisions {
			if !metav1.IsControlledBy(rev, obj) {
				continue
			}
			t, err := templateIn(rev)
			if err != nil {
				return nil, err
			}
			out = append(out, Revision{rev.Revision, rev.Annotations[causeKey], t})
		}
	default:
		return nil, fmt.Errorf("%s %q has no history", nameOf(obj), obj.GetName())
	}
	slices.SortFunc(out, func(a, b Revision) int { return int(a.Number - b.Number) })
	return out, nil
}

// templateIn reads the template that a ControllerRevision keeps as a patch.
func templateIn(rev *appsv1.ControllerRevision) (*corev1.PodTemplateSpec, error) {
	var patch struct {
		Spec struct {
			Template *corev1.PodTemplateSpec `json:"template"`
		} `json:"spec"`
	}
	err := json.Unmarshal(rev.Data.Raw, &patch)
	if err == nil && patch.Spec.Template == nil {
		err = errors.New("it holds no template")
	}
	if err != nil {
		return nil, fmt.Errorf("revision %s/%s: %w", rev.Namespace, rev.Name, err)
	}
	return patch.Spec.Template, nil
}

// Running is the number of the revision that a workload is at, or is becoming; 0 when
// nobody knows yet.
func Running(obj metav1.Object, history []Revision) int64 {
	if d, ok := obj.(*appsv1.Deployment); ok {
		if n, err := strconv.ParseInt(d.Annotations[revisionKey], 10, 64); err == nil {
			return n
		}
	}
	t := Template(obj)
	for _, r := range slices.Backward(history) {
		if t != nil && equality.Semantic.DeepEqual(r.Template, t) {
			return r.Number
		}
	}
	return 0
}

// Find returns the revision of a number.
func Find(history []Revision, number int64) (Revision, error) {
	for _, r := range history {
		if r.Number == number {
			return r, nil
		}
	}
	return Revision{}, fmt.Errorf("unable to find specified revision %d in history", number)
}

// Undo gives a workload the template of an earlier revision: of the one before the
// latest when to is 0. It tells what it did, as kubectl does behind the name.
func Undo(obj metav1.Object, history []Revision, to int64) (did string, err error) {
	if d, ok := obj.(*appsv1.Deployment); ok && d.Spec.Paused {
		return "", fmt.Errorf("you cannot rollback a paused deployment; resume it first with 'toyproxy rollout resume deployment/%s' and try again", d.Name)
	}
	var back Revision
	switch {
	case to > 0:
		back, err = Find(history, to)
	case len(history) < 2:
		err = fmt.Errorf("no rollout history found for %s %q", nameOf(obj), obj.GetName())
	default:
		back = history[len(history)-2]
	}
	if err != nil {
		return "", err
	}
	t := Template(obj)
	if equality.Semantic.DeepEqual(t, back.Template) {
		return fmt.Sprintf("skipped rollback (current template already matches revision %d)", back.Number), nil
	}
	*t = *back.Template.DeepCopy()
	setCause(obj, back.Cause)
	return "rolled back", nil
}

// setCause makes the workload tell the cause of the revision that it has again.
func setCause(obj metav1.Object, cause string) {
	annotations := maps.Clone(obj.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	delete(annotations, causeKey)
	if cause != "" {
		annotations[causeKey] = cause
	}
	obj.SetAnnotations(annotations)
}
