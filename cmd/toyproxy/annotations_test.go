package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/toyproxy/toyproxy/cluster/manifest"
	"github.com/toyproxy/toyproxy/ingress"
)

// TestAnnotationsAgree requires that docs/support.md lists the annotations that an
// ingress acts on, and no others.
func TestAnnotationsAgree(t *testing.T) {
	_, list, found := strings.Cut(manifest.SupportDocument(), "| annotation | note |\n")
	list, _, ended := strings.Cut(list, "\n\n")
	names := regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|").FindAllStringSubmatch(list, -1)
	if !found || !ended || len(names) < 10 {
		t.Fatalf("the list of annotations is not there: %q", list)
	}
	object := `apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web, annotations: {`
	for _, n := range names {
		object += "nginx.ingress.kubernetes.io/" + n[1] + `: "1", `
	}
	object += "nginx.ingress.kubernetes.io/server-snippet: x}}\nspec: {defaultBackend: {service: {name: web, port: {number: 80}}}}\n"
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/web.yaml", []byte(object), 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := manifest.Load(t.Context(), manifest.Options{Paths: []string{dir}})
	if err != nil || len(r.Objects.Ingresses) != 1 {
		t.Fatal(err, r.Problems)
	}
	var unknown []string
	for _, p := range ingress.Compile(ingress.Input{Ingresses: r.Objects.Ingresses}).Problems {
		if strings.Contains(p.Message, "is not supported") {
			unknown = append(unknown, p.Field)
		}
	}
	if len(unknown) != 1 || !strings.Contains(unknown[0], "server-snippet") || len(r.Problems) != 1 {
		t.Errorf("an ingress does not know %q of the list and one more; the manifest's problems are %v", unknown, r.Problems)
	}
}
