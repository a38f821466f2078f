package apply

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/cluster/manifest"
)

// Workload is an object that commands change as well as manifests.
type Workload[T any] interface {
	*appsv1.Deployment | *appsv1.ReplicaSet | *appsv1.StatefulSet | *appsv1.DaemonSet
	metav1.Object
	DeepCopy() T
}

// Stamp is what an object gets once in its life.
type Stamp struct {
	Now time.Time
	// UID returns another UID each time.
	UID func() types.UID
}

// RefusedError says why a manifest cannot be brought onto the live object, which
// stays as it is.
type RefusedError struct {
	Object cluster.Ref
	Faults field.ErrorList
}

// Error names the object and all faults.
func (e *RefusedError) Error() string {
	texts := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		texts[i] = f.Error()
	}
	return fmt.Sprintf("the %s %q is invalid: %s", e.Object.Kind, e.Object.Name, strings.Join(texts, "; "))
}

// Problems are the faults as problems, without their place in a file.
func (e *RefusedError) Problems() []cluster.Problem {
	out := make([]cluster.Problem, len(e.Faults))
	for i, f := range e.Faults {
		out[i] = cluster.Problem{Object: e.Object, Field: f.Field, Message: f.ErrorBody()}
	}
	return out
}

// Apply returns the live object as it is to be, and whether that is another than it
// is. Live is not looked at unless it exists. The manifest is an object as package
// manifest loads it. A *RefusedError says that it would change what cannot be
// changed. Neither object is modified.
func Apply[T Workload[T]](live T, exists bool, m T, s Stamp) (next T, changed bool, err error) {
	if !exists {
		return create(m, s), true, nil
	}
	if live.GetAnnotations()[manifest.LastApplied] == m.GetAnnotations()[manifest.LastApplied] {
		return live, false, nil
	}
	next, err = merged(live, m)
	if err != nil {
		return live, false, err
	}
	manifest.Default(next)
	if faults := append(Immutable(live, next), manifest.Check(next)...); len(faults) > 0 {
		return live, false, &RefusedError{refOf(live), faults}
	}
	CountGeneration(live, next)
	return next, true, nil
}

// create makes a live object: what only an observer can know is not taken from a
// manifest.
func create[T Workload[T]](m T, s Stamp) T {
	next := m.DeepCopy()
	next.SetUID(s.UID())
	next.SetGeneration(1)
	next.SetCreationTimestamp(metav1.NewTime(s.Now.Truncate(time.Second)))
	next.SetDeletionTimestamp(nil)
	next.SetResourceVersion("")
	next.SetManagedFields(nil)
	clearStatus(next)
	return next
}

// merged brings what the manifest says otherwise than the last one onto the live
// object, without defaults.
func merged[T Workload[T]](live, m T) (T, error) {
	var none T
	before, err := written(live)
	if err != nil { // damaged: then the manifest is new
		before = map[string]any{}
	}
	current, errLive := asMap(live)
	after, errAfter := written(m)
	if err := errors.Join(errLive, errAfter); err != nil {
		return none, fmt.Errorf("manifest of %s: %w", refOf(m), err)
	}
	spec := mapAt(current, "spec")
	if untouched(live, before) {
		whole, err := asMap(m)
		if err != nil {
			return none, err
		}
		spec = mapAt(whole, "spec")
	} else {
		merge(spec, mapAt(before, "spec"), mapAt(after, "spec"))
	}
	current["spec"] = spec
	meta := mapAt(current, "metadata")
	for _, part := range []string{"labels", "annotations"} {
		have := mapAt(meta, part)
		merge(have, mapAt(mapAt(before, "metadata"), part), mapAt(mapAt(after, "metadata"), part))
		meta[part] = have
	}
	text, err := json.Marshal(current)
	if err != nil {
		return none, err
	}
	next := empty(live)
	if err := json.Unmarshal(text, next); err != nil {
		return none, fmt.Errorf("manifest of %s onto the live object: %w", refOf(m), err)
	}
	manifest.SetLastApplied(next, m.GetAnnotations()[manifest.LastApplied])
	return next, nil
}

// untouched tells whether the live object is as its last manifest made it: then the
// next one replaces it, with whatever defaults depend on each other.
func untouched[T Workload[T]](live T, before map[string]any) bool {
	text, err := json.Marshal(before)
	if err != nil {
		return false
	}
	old := empty(live)
	if json.Unmarshal(text, old) != nil {
		return false
	}
	manifest.Default(old)
	return equality.Semantic.DeepEqual(specOf(live), specOf(old))
}

// merge changes have by what after says otherwise than before. Lists are changed as
// a whole.
func merge(have, before, after map[string]any) {
	// Of another type, an object has other fields: a Recreate strategy has no
	// rollingUpdate.
	if kind, ok := after["type"]; ok && kind != have["type"] {
		clear(have)
		before = nil
	}
	for key := range before {
		if _, still := after[key]; !still {
			delete(have, key)
		}
	}
	for key, value := range after {
		inner, isMap := value.(map[string]any)
		switch {
		case equality.Semantic.DeepEqual(before[key], value):
		case isMap:
			part := mapAt(have, key)
			merge(part, mapAt(before, key), inner)
			have[key] = part
		default:
			have[key] = value
		}
	}
}

// mapAt returns the mapping at a key; an empty one when there is none.
func mapAt(m map[string]any, key string) map[string]any {
	if inner, ok := m[key].(map[string]any); ok {
		return inner
	}
	return map[string]any{}
}

// written is the manifest that was applied last, as it was written, without what it
// leaves open (null). Empty when there was none.
func written(obj metav1.Object) (map[string]any, error) {
	text := obj.GetAnnotations()[manifest.LastApplied]
	if text == "" {
		return map[string]any{}, nil
	}
	var m map[string]any
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return nil, err
	}
	dropNull(m)
	return m, nil
}

func dropNull(v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if value == nil {
				delete(v, key)
			}
			dropNull(value)
		}
	case []any:
		for _, value := range v {
			dropNull(value)
		}
	}
}

func asMap(obj any) (map[string]any, error) {
	text, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	var m map[string]any
	return m, json.Unmarshal(text, &m)
}

// CountGeneration counts up the generation of a workload whose spec a command has
// changed, as an API server does.
func CountGeneration(old, next metav1.Object) {
	if !equality.Semantic.DeepEqual(specOf(old), specOf(next)) {
		next.SetGeneration(old.GetGeneration() + 1)
	}
}
