package controller

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"reflect"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/toyproxy/toyproxy/cluster"
)

// UID returns the UID of an object: its own, or, for one that came from a manifest
// without, one that follows from kind, namespace and name.
func UID(kind cluster.Kind, obj metav1.Object) types.UID {
	if uid := obj.GetUID(); uid != "" {
		return uid
	}
	return derivedUID(string(kind), obj.GetNamespace(), obj.GetName())
}

// derivedUID is the same for the same words, in the form of a UUID (version 8).
func derivedUID(words ...string) types.UID {
	h := sha256.New()
	for _, w := range words {
		fmt.Fprintf(h, "%d:%s", len(w), w)
	}
	b := h.Sum(nil)[:16]
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80
	return types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]))
}

// ownerOf is the reference by which the object, a workload, owns what it controls.
func ownerOf(kind cluster.Kind, obj metav1.Object) metav1.OwnerReference {
	yes := true
	return metav1.OwnerReference{
		APIVersion: appsv1.SchemeGroupVersion.String(), Kind: string(kind), Name: obj.GetName(), UID: UID(kind, obj),
		Controller: &yes, BlockOwnerDeletion: &yes,
	}
}

// templateHash is the value of the label that tells the Pods of one template from
// those of another. It follows from what the template says, in whatever order: a
// field that a later version of the API adds changes nothing where it is not set.
func templateHash(t *corev1.PodTemplateSpec, collisions *int32) string {
	data, err := json.Marshal(t)
	if err != nil {
		data = fmt.Append(nil, err) // objects that were JSON once can be again
	}
	return hashOf(canonical(data), collisions)
}

// hashOf returns a short name for data, another one for every number of collisions.
func hashOf(data []byte, collisions *int32) string {
	h := fnv.New32a()
	h.Write(data)
	if collisions != nil {
		fmt.Fprintf(h, "/%d", *collisions)
	}
	return rand.SafeEncodeString(fmt.Sprint(h.Sum32()))
}

// canonical sorts the keys of a JSON object and drops what says nothing: null, and
// objects without a field. Versions of the API differ in whether they write those.
func canonical(data []byte) []byte {
	var v map[string]any
	if json.Unmarshal(data, &v) != nil {
		return data
	}
	out, err := json.Marshal(telling(v))
	if err != nil {
		return data
	}
	return out
}

// telling returns what a JSON value says, nil when that is nothing.
func telling(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, field := range v {
			if v[key] = telling(field); v[key] == nil {
				delete(v, key)
			}
		}
		if len(v) == 0 {
			return nil
		}
	case []any:
		for i := range v {
			v[i] = telling(v[i])
		}
	}
	return v
}

// sameTemplate compares two templates without the label of their hash.
func sameTemplate(a, b *corev1.PodTemplateSpec) bool {
	if !maps.Equal(withoutHash(a.Labels), withoutHash(b.Labels)) {
		return false
	}
	x, y := *a, *b
	x.Labels, y.Labels = nil, nil
	return same(&x, &y)
}

// same compares what two values mean. Most are the same to the letter, which is
// found out several times faster.
func same(a, b any) bool { return reflect.DeepEqual(a, b) || equality.Semantic.DeepEqual(a, b) }

func withoutHash(labels map[string]string) map[string]string {
	if _, has := labels[appsv1.DefaultDeploymentUniqueLabelKey]; !has {
		return labels
	}
	out := maps.Clone(labels)
	delete(out, appsv1.DefaultDeploymentUniqueLabelKey)
	return out
}

// with returns a copy of a map with one more entry.
func with(m map[string]string, key, value string) map[string]string {
	out := maps.Clone(m)
	if out == nil {
		out = map[string]string{}
	}
	out[key] = value
	return out
}
