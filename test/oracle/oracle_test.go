package oracle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/cluster/manifest"
)

// TestEachMutation applies every mutation alone, so that each exception in the
// table is proved to be one.
func TestEachMutation(t *testing.T) {
	for _, kind := range kinds() {
		agree(t, kind, nil)
		for _, m := range kind.mutations {
			agree(t, kind, []mutation{m})
		}
	}
}

// TestMixedMutations applies random handfuls of them, mostly of those that are
// accepted alone: a second fault would tell nothing new. The seed is fixed.
func TestMixedMutations(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, kind := range kinds() {
		fine := harmless(t, kind)
		var accepted, refused int
		for range kind.rounds() {
			var chosen []mutation
			for range 2 + rng.IntN(4) {
				from := fine
				if rng.IntN(10) == 0 {
					from = kind.mutations
				}
				chosen = append(chosen, from[rng.IntN(len(from))])
			}
			if agree(t, kind, chosen) {
				accepted++
			} else {
				refused++
			}
		}
		if t.Logf("%s: %d accepted, %d refused", kind.name, accepted, refused); min(accepted, refused) < kind.rounds()/8 {
			t.Errorf("%s: %d accepted, %d refused: one of them is hardly tested", kind.name, accepted, refused)
		}
	}
}

// harmless returns the mutations that upstream accepts alone.
func harmless(t *testing.T, kind kind) (fine []mutation) {
	t.Helper()
	for _, m := range kind.mutations {
		object, _, _ := build(t, kind, []mutation{m})
		data, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := upstream(data); err == nil && m.differs == same {
			fine = append(fine, m)
		}
	}
	return fine
}

// agree requires the same answer of both sides for one object, and returns
// whether it was accepted here.
func agree(t *testing.T, kind kind, chosen []mutation) bool {
	t.Helper()
	object, labels, differs := build(t, kind, chosen)
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	theirs, theirErr := upstream(data)
	ours, problems := ourAnswer(t, data)
	about := fmt.Sprintf("%s with %s", kind.name, labels)
	switch {
	case differs == stricter && len(chosen) == 1 && theirErr != nil:
		t.Errorf("%s: upstream refuses it too, the exception is needless: %v", about, theirErr)
	case differs == stricter && ours != nil:
		t.Errorf("%s: accepted here, although the table says that it is refused", about)
	case differs == looser && len(chosen) == 1 && theirErr == nil:
		t.Errorf("%s: upstream accepts it too, the exception is needless", about)
	case differs != same:
	case theirErr != nil && ours != nil:
		t.Errorf("%s: accepted here, upstream says: %v", about, theirErr)
	case theirErr == nil && ours == nil:
		t.Errorf("%s: upstream accepts, we say: %s", about, problems)
	case theirErr == nil:
		if diff := cmp.Diff(shown(t, theirs, object), shown(t, ours, object)); diff != "" {
			t.Errorf("%s: defaults differ (- upstream, + ours):\n%s", about, diff)
		}
	}
	return ours != nil
}

// within reports whether a path is another one or below it.
func within(path, other string) bool {
	rest, ok := strings.CutPrefix(path, other)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// build returns the base object with the mutations, of which a later one
// overrules an earlier one at the same, an enclosing or an enclosed path.
func build(t *testing.T, kind kind, chosen []mutation) (object map[string]any, labels string, differs difference) {
	t.Helper()
	if err := json.Unmarshal([]byte(kind.base), &object); err != nil {
		t.Fatalf("base of %s: %v", kind.name, err)
	}
	for i, m := range chosen {
		overruled := false
		for _, other := range chosen[i+1:] {
			overruled = overruled || within(m.path, other.path) || within(other.path, m.path)
		}
		if overruled {
			continue
		}
		var value any
		if m.value != "" {
			if err := json.Unmarshal([]byte(m.value), &value); err != nil {
				t.Fatalf("value of %s: %v", m.path, err)
			}
		}
		set(object, m.path, value, m.value == "")
		labels += fmt.Sprintf("%s=%s ", m.path, m.value)
		differs = max(differs, m.differs)
	}
	return object, labels, differs
}

// set puts a value at a path such as spec.ports[0].name, or removes it.
// Mappings on the way are made; list items that do not exist are left alone.
func set(object map[string]any, path string, value any, remove bool) {
	steps := strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' })
	var at any = object
	for i, step := range steps {
		last := i == len(steps)-1
		switch here := at.(type) {
		case map[string]any:
			switch {
			case last && remove:
				delete(here, step)
			case last:
				here[step] = value
			case here[step] == nil:
				here[step] = map[string]any{}
			}
			at = here[step]
		case []any:
			n, err := strconv.Atoi(step)
			if err != nil || n >= len(here) {
				return
			}
			if last {
				here[n] = value
			}
			at = here[n]
		default:
			return
		}
	}
}

// ourAnswer returns the object as Load gives it, or nil and the problems.
func ourAnswer(t *testing.T, data []byte) (runtime.Object, string) {
	t.Helper()
	result, err := manifest.Load(t.Context(), manifest.Options{Paths: []string{"-"}, Stdin: bytes.NewReader(data)})
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, p := range result.Problems {
		if !p.Warning {
			said = append(said, p.String())
		}
	}
	store := cluster.NewStore()
	for _, e := range store.Replace(result.Objects) {
		return e.New.(runtime.Object), ""
	}
	return nil, strings.Join(said, "; ")
}

// shown is an object as indented JSON, without what only one side
// allocates: cluster IPs, families and node ports that the input leaves out.
func shown(t *testing.T, obj runtime.Object, input map[string]any) string {
	t.Helper()
	obj = obj.DeepCopyObject()
	if svc, ok := obj.(*corev1.Service); ok {
		clearAllocated(svc, input)
	}
	clearApplied(obj)
	text, err := json.MarshalIndent(obj, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func clearAllocated(svc *corev1.Service, input map[string]any) {
	spec, _ := input["spec"].(map[string]any)
	if given, _ := spec["clusterIP"].(string); given == "" {
		svc.Spec.ClusterIP = ""
	}
	svc.Spec.ClusterIPs, svc.Spec.IPFamilies, svc.Spec.IPFamilyPolicy = nil, nil, nil
	if given, _ := spec["healthCheckNodePort"].(float64); given == 0 {
		svc.Spec.HealthCheckNodePort = 0
	}
	ports, _ := spec["ports"].([]any)
	for i := range svc.Spec.Ports {
		p, _ := ports[i].(map[string]any)
		if given, _ := p["nodePort"].(float64); given == 0 {
			svc.Spec.Ports[i].NodePort = 0
		}
	}
}

// clearApplied takes away the manifest that ours keeps with a workload.
func clearApplied(obj runtime.Object) {
	if meta, ok := obj.(metav1.Object); ok {
		annotations := meta.GetAnnotations()
		delete(annotations, manifest.LastApplied)
		if len(annotations) == 0 {
			meta.SetAnnotations(nil)
		}
	}
}
