package controller

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/toyproxy/toyproxy/cluster"
)

// hashKey labels a ControllerRevision with the hash of its template.
const hashKey = "controller.kubernetes.io/hash"

// history is the templates that a StatefulSet or a DaemonSet has had.
type history struct {
	p     *pass
	ref   cluster.Ref
	owner metav1.OwnerReference
	// selector labels of new revisions, annotations those of the owner.
	labels, annotations map[string]string
	// all of them, oldest first.
	all []*appsv1.ControllerRevision
	// update is the one of the template now.
	update     *appsv1.ControllerRevision
	collisions *int32
}

// history finds the revision of the template among those kept, or makes it.
func (p *pass) history(ref cluster.Ref, obj metav1.Object, t *corev1.PodTemplateSpec, collisions *int32) *history {
	owner := ownerOf(ref.Kind, obj)
	h := &history{p: p, ref: ref, owner: owner, labels: t.Labels, annotations: obj.GetAnnotations(), collisions: collisions}
	h.all = slices.Clone(p.revisions[owner.UID])
	slices.SortStableFunc(h.all, func(a, b *appsv1.ControllerRevision) int { return int(a.Revision - b.Revision) })
	h.find(revisionData(t))
	return h
}

// find makes the revision with that data the newest.
func (h *history) find(data []byte) {
	next := int64(1)
	if n := len(h.all); n > 0 {
		next = h.all[n-1].Revision + 1
	}
	said := canonical(data)
	for i, rev := range h.all {
		if !bytes.Equal(canonical(rev.Data.Raw), said) {
			continue
		}
		if rev.Revision+1 < next { // a template that comes back
			rev = rev.DeepCopy()
			rev.Revision = next
			h.all = append(slices.Delete(h.all, i, i+1), rev)
			h.p.act(Update, rev, h.ref, fmt.Sprintf("revision %d", next))
		}
		h.update = rev
		return
	}
	h.update = h.newRevision(data, next)
	h.all = append(h.all, h.update)
	h.p.act(Create, h.update, h.ref, fmt.Sprintf("revision %d", next))
}

func (h *history) newRevision(data []byte, number int64) *appsv1.ControllerRevision {
	hash := hashOf(canonical(data), h.collisions)
	for slices.ContainsFunc(h.all, func(r *appsv1.ControllerRevision) bool { return r.Labels[hashKey] == hash }) {
		n := int32(1)
		if h.collisions != nil {
			n += *h.collisions
		}
		h.collisions = &n
		hash = hashOf(canonical(data), h.collisions)
	}
	return &appsv1.ControllerRevision{
		TypeMeta: metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "ControllerRevision"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: h.ref.Namespace, Name: h.ref.Name + "-" + hash, Labels: with(maps.Clone(h.labels), hashKey, hash),
			Annotations: inherited(nil, h.annotations), OwnerReferences: []metav1.OwnerReference{h.owner}, CreationTimestamp: h.p.now,
			UID: derivedUID("ControllerRevision", h.ref.Namespace, h.ref.Name, hash),
		},
		Data: runtime.RawExtension{Raw: data}, Revision: number,
	}
}

// named returns the revision of that name, or nil.
func (h *history) named(name string) *appsv1.ControllerRevision {
	for _, rev := range h.all {
		if rev.Name == name {
			return rev
		}
	}
	return nil
}

// forget removes the oldest revisions beyond the limit that nobody uses any more.
func (h *history) forget(limit *int32, used map[string]bool) {
	keep := defaultHistory
	if limit != nil {
		keep = int(*limit)
	}
	idle := slices.DeleteFunc(slices.Clone(h.all), func(r *appsv1.ControllerRevision) bool {
		return r == h.update || used[r.Name] || used[r.Labels[hashKey]]
	})
	for _, rev := range idle[:max(0, len(idle)-keep)] {
		h.p.act(Delete, rev, h.ref, fmt.Sprintf("%s keeps %d old revisions", h.ref, keep))
	}
}

// revised is what a ControllerRevision keeps: a patch that replaces the template.
type revised struct {
	Spec struct {
		Template json.RawMessage `json:"template"`
	} `json:"spec"`
}

// revisionData is the patch for a template, in the form that Kubernetes gives it.
func revisionData(t *corev1.PodTemplateSpec) []byte {
	var fields map[string]any
	data, err := json.Marshal(t)
	if err == nil {
		err = json.Unmarshal(data, &fields)
	}
	if err != nil {
		return fmt.Append(nil, err) // objects that were JSON once can be again
	}
	fields["$patch"] = "replace"
	data, _ = json.Marshal(map[string]any{"spec": map[string]any{"template": fields}})
	return data
}

// templateOf reads the template back.
func templateOf(rev *appsv1.ControllerRevision) (*corev1.PodTemplateSpec, error) {
	var r revised
	t := &corev1.PodTemplateSpec{}
	if err := json.Unmarshal(rev.Data.Raw, &r); err != nil {
		return nil, fmt.Errorf("ControllerRevision %s/%s: %w", rev.Namespace, rev.Name, err)
	}
	if err := json.Unmarshal(r.Spec.Template, t); err != nil {
		return nil, fmt.Errorf("ControllerRevision %s/%s: %w", rev.Namespace, rev.Name, err)
	}
	return t, nil
}
