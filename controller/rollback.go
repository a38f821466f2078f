package controller

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/toyproxy/toyproxy/cluster"
)

// changeCause is the annotation by which people say why a revision came to be.
const changeCause = "kubernetes.io/change-cause"

// Why there is nothing to go back to.
var (
	// ErrNoRevision: the history has no such revision.
	ErrNoRevision = errors.New("no such revision")
	// ErrSameTemplate: the revision is what runs already.
	ErrSameTemplate = errors.New("the template is that of the revision already")
	// ErrPaused: a paused Deployment goes nowhere, so not back either.
	ErrPaused = errors.New("the Deployment is paused; resume it first")
)

// Revision is one entry of a workload's history.
type Revision struct {
	// Number counts from 1. The newest is what runs or is being rolled out.
	Number int64
	// Name is that of the ReplicaSet or ControllerRevision that keeps it.
	Name string
	// ChangeCause is what people said of it; it may be empty.
	ChangeCause string
	// Template is what its Pods are made of.
	Template *corev1.PodTemplateSpec
	// annotations of the ReplicaSet that come back with it.
	annotations map[string]string
}

// DeploymentHistory returns the revisions of a Deployment, oldest first, from among
// all ReplicaSets.
func DeploymentHistory(d *appsv1.Deployment, sets []*appsv1.ReplicaSet) []Revision {
	var out []Revision
	uid := UID(cluster.Deployment, d)
	for _, rs := range sets {
		owner := metav1.GetControllerOfNoCopy(rs)
		if owner == nil || owner.UID != uid || revisionOf(rs) == 0 {
			continue
		}
		template := rs.Spec.Template.DeepCopy()
		template.Labels = withoutHash(template.Labels)
		out = append(out, Revision{
			Number: revisionOf(rs), Name: rs.Name, ChangeCause: rs.Annotations[changeCause], Template: template, annotations: rs.Annotations,
		})
	}
	return sorted(out)
}

// History returns the revisions of a StatefulSet or a DaemonSet, oldest first, from
// among all ControllerRevisions. One that cannot be read has no template.
func History(kind cluster.Kind, obj metav1.Object, revisions []*appsv1.ControllerRevision) []Revision {
	var out []Revision
	uid := UID(kind, obj)
	for _, rev := range revisions {
		if owner := metav1.GetControllerOfNoCopy(rev); owner != nil && owner.UID == uid {
			template, _ := templateOf(rev)
			out = append(out, Revision{Number: rev.Revision, Name: rev.Name, ChangeCause: rev.Annotations[changeCause], Template: template})
		}
	}
	return sorted(out)
}

func sorted(revs []Revision) []Revision {
	slices.SortFunc(revs, func(a, b Revision) int { return int(a.Number - b.Number) })
	return revs
}

// pick returns the revision of that number; 0 means the one before the newest.
func pick(history []Revision, number int64) (Revision, error) {
	if number == 0 && len(history) > 1 {
		return history[len(history)-2], nil
	}
	for _, rev := range history {
		if rev.Number == number && rev.Template != nil {
			return rev, nil
		}
	}
	if number == 0 {
		return Revision{}, fmt.Errorf("%w before the one that runs", ErrNoRevision)
	}
	return Revision{}, fmt.Errorf("%w: %d (there are %s)", ErrNoRevision, number, numbers(history))
}

func numbers(history []Revision) string {
	if len(history) == 0 {
		return "none"
	}
	var b bytes.Buffer
	for i, rev := range history {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprint(&b, rev.Number)
	}
	return b.String()
}

// Rollback returns the Deployment with the template of an earlier revision, found
// among all ReplicaSets; 0 is the last one before this. The next pass makes that
// revision the newest. Errors satisfy errors.Is with ErrNoRevision, ErrSameTemplate
// or ErrPaused.
func Rollback(d *appsv1.Deployment, sets []*appsv1.ReplicaSet, revision int64) (*appsv1.Deployment, error) {
	if d.Spec.Paused {
		return nil, ErrPaused
	}
	rev, err := pick(DeploymentHistory(d, sets), revision)
	if err != nil {
		return nil, err
	}
	if sameTemplate(rev.Template, &d.Spec.Template) {
		return nil, fmt.Errorf("revision %d: %w", rev.Number, ErrSameTemplate)
	}
	d = d.DeepCopy()
	d.Spec.Template = *rev.Template.DeepCopy()
	d.Annotations = restored(d.Annotations, rev.annotations)
	return d, nil
}

// restored gives a Deployment the annotations of the revision, but for those that
// are not inherited.
func restored(own, revision map[string]string) map[string]string {
	out := inherited(nil, revision)
	for key, value := range own {
		if notInherited[key] {
			out[key] = value
		}
	}
	return out
}

// RollbackStatefulSet is Rollback for a StatefulSet, from among all ControllerRevisions.
func RollbackStatefulSet(s *appsv1.StatefulSet, revisions []*appsv1.ControllerRevision, revision int64) (*appsv1.StatefulSet, error) {
	t, err := earlier(cluster.StatefulSet, s, &s.Spec.Template, pickFrom{revisions, revision})
	if err != nil {
		return nil, err
	}
	s = s.DeepCopy()
	s.Spec.Template = *t
	return s, nil
}

// RollbackDaemonSet is Rollback for a DaemonSet, from among all ControllerRevisions.
func RollbackDaemonSet(d *appsv1.DaemonSet, revisions []*appsv1.ControllerRevision, revision int64) (*appsv1.DaemonSet, error) {
	t, err := earlier(cluster.DaemonSet, d, &d.Spec.Template, pickFrom{revisions, revision})
	if err != nil {
		return nil, err
	}
	d = d.DeepCopy()
	d.Spec.Template = *t
	return d, nil
}

// pickFrom is which revision of which.
type pickFrom struct {
	revisions []*appsv1.ControllerRevision
	number    int64
}

// earlier is the template to go back to.
func earlier(kind cluster.Kind, obj metav1.Object, now *corev1.PodTemplateSpec, from pickFrom) (*corev1.PodTemplateSpec, error) {
	rev, err := pick(History(kind, obj, from.revisions), from.number)
	if err != nil {
		return nil, err
	}
	if rev.Template == nil {
		return nil, fmt.Errorf("%w: %d cannot be read", ErrNoRevision, rev.Number)
	}
	if bytes.Equal(canonical(revisionData(rev.Template)), canonical(revisionData(now))) {
		return nil, fmt.Errorf("revision %d: %w", rev.Number, ErrSameTemplate)
	}
	return rev.Template.DeepCopy(), nil
}

// Restart returns the template such that every Pod is made anew: it says when
// that was asked for.
func Restart(t corev1.PodTemplateSpec, at string) corev1.PodTemplateSpec {
	t.Annotations = maps.Clone(t.Annotations)
	t.Annotations = with(t.Annotations, "kubectl.kubernetes.io/restartedAt", at)
	return t
}
