package manifest

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// TestScalarsAsKubectl requires each value to mean what it means to kubectl.
func TestScalarsAsKubectl(t *testing.T) {
	for _, text := range []string{
		"80", "-80", "+80", "0x50", "0o17", "017", "0b101", "1_000", "1e3", "1.50", ".5", "5.", "1_0.5", "99999999999999999999", "18446744073709551615",
		"true", "True", "TRUE", "yes", "Yes", "no", "on", "off", "OFF", "y", "N", "oN", "null", "~", "Null", "nil", "",
		"web", "'80'", `"80"`, `"a\nb"`, `"\u00e9\t"`, "é", "[a, 1]", "{a: 1, 2: b, yes: c, 1.5: d}", "2026-01-31", "12:30", "1.2.3.4", "0.0.0.0/0", "::1",
		"|\n  two\n  lines\n", ">-\n  fol\n  ded\n", "!!str 80", "!!int '80'", "!!binary aGVsbG8=", "010.96.0.1", "1:20", "<", "=", "- a\n- - b\n",
	} {
		// As the value of a key, the way values stand in manifests.
		source := "v: " + text
		if text[:min(1, len(text))] == "-" && len(text) > 4 {
			source = "v:\n" + text
		}
		want, err := yaml.YAMLToJSON([]byte(source))
		if err != nil {
			t.Errorf("%q: kubectl refuses it: %v", text, err)
			continue
		}
		var docs []document
		faults := file{"t.yaml", []byte(source)}.parse(func(_ chunk, d []document) { docs = append(docs, d...) })
		if len(docs) != 1 || len(faults) > 0 || len(docs[0].faults) > 0 {
			t.Errorf("%q: faults %v, %v", text, faults, docs)
			continue
		}
		if diff := cmp.Diff(anyOf(t, want), anyOf(t, docs[0].root.appendJSON(nil))); diff != "" {
			t.Errorf("%q: -kubectl +ours\n%s", text, diff)
		}
	}
}

func anyOf(t *testing.T, data []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return v
}
