package manifest

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/toyproxy/toyproxy/cluster"
)

// FuzzLoad requires that no text makes Load panic or fail, and that what it
// gives is valid and complete: loaded again, it stays as it is.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"testdata/*/*", "../../examples/*.yaml", "../../examples/*/*.yaml"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, p := range paths {
			data, err := os.ReadFile(p)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		first := load(t, Options{Paths: []string{"-"}, Stdin: bytes.NewReader(data)})
		again := load(t, Options{Paths: []string{"-"}, Stdin: bytes.NewReader(asJSON(t, first.Objects))})
		for _, p := range again.Problems {
			if !p.Warning && p.Object.Name != "" {
				t.Errorf("loaded again: %s", p)
			}
		}
		forgetApplied(first.Objects)
		forgetApplied(again.Objects)
		if !equality.Semantic.DeepEqual(first.Objects, again.Objects) {
			t.Errorf("objects changed when they were loaded again:\n%s\nbecame\n%s", asJSON(t, first.Objects), asJSON(t, again.Objects))
		}
	})
}

// asJSON returns objects as a file of JSON documents.
func asJSON(t *testing.T, objects cluster.Objects) []byte {
	t.Helper()
	var out []byte
	store := cluster.NewStore()
	for _, e := range store.Replace(objects) {
		data, err := json.Marshal(e.New)
		if err != nil {
			t.Fatal(err)
		}
		out = append(append(append(out, "---\n"...), data...), '\n')
	}
	return out
}

// forgetApplied takes away how manifests were written: with their defaults they are
// written otherwise.
func forgetApplied(objects cluster.Objects) {
	for _, e := range cluster.NewStore().Replace(objects) {
		annotations := e.New.GetAnnotations()
		delete(annotations, LastApplied)
		if len(annotations) == 0 {
			e.New.SetAnnotations(nil)
		}
	}
}
