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
}

func TestSupportDocument(t *testing.T) {
	golden(t, filepath.Join("..", "..", "docs", "support.md"), SupportDocument())
}
