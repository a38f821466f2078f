package manifest

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toyproxy/toyproxy/cluster"
)

var update = flag.Bool("update", false, "rewrite golden files and docs/support.md")

// golden compares text with a file, or writes the file with -update.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s is stale; look at the difference, then run go test ./cluster/manifest -update\n%s", path, diff)
	}
}

// lines prints problems one a line, warnings marked.
func lines(problems []cluster.Problem) string {
	var b strings.Builder
	for _, p := range problems {
		if p.Warning {
			b.WriteString("warning: ")
		}
		b.WriteString(p.String() + "\n")
	}
	return b.String()
}

func load(t *testing.T, opts Options) Result {
	t.Helper()
	r, err := Load(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// loadText loads manifests given in the test as the file "t.yaml".
func loadText(t *testing.T, text string) Result {
	t.Helper()
	r := load(t, Options{Paths: []string{"-"}, Stdin: bytes.NewBufferString(text)})
	return r
}

func TestBrokenDirectory(t *testing.T) {
	r := load(t, Options{Paths: []string{filepath.Join("testdata", "broken")}})
	golden(t, filepath.Join("testdata", "broken.golden"), lines(r.Problems))
	if got := given(r); got != "claims-first 10.96.0.30 SingleStack [IPv4]\ngood 10.96.1.1 SingleStack [IPv4]\n" {
		t.Errorf("the good Services and no others must be used, got:\n%s", got)
	}
}

func TestDocuments(t *testing.T) {
	r := load(t, Options{Paths: []string{filepath.Join("testdata", "documents")}})
	golden(t, filepath.Join("testdata", "documents.golden"), lines(r.Problems))
}

// TestExamples requires that every example is fine alone and all are together.
func TestExamples(t *testing.T) {
	dir := filepath.Join("..", "..", "examples")
	paths, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(paths) < 6 {
		t.Fatalf("examples: %v, %v", paths, err)
	}
	for _, p := range append(paths, dir) {
		if r := load(t, Options{Paths: []string{p}}); len(r.Problems) > 0 || len(r.Objects.Services) == 0 {
			t.Errorf("%s: %d Services, problems:\n%s", p, len(r.Objects.Services), lines(r.Problems))
		}
	}
}
