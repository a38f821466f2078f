package manifest

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/toyproxy/toyproxy/cluster"
)

// write makes files below a new directory and returns it.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func serviceNames(r Result) (names []string) {
	for _, s := range r.Objects.Services {
		names = append(names, s.Name)
	}
	return names
}

func TestDirectories(t *testing.T) {
	dir := write(t, map[string]string{
		"b.yaml": service("b", ""), "sub/a.yml": service("a", ""), "sub/deep/c.json": `{"apiVersion":"v1","kind":"Service","metadata":{"name":"c"},"spec":{"ports":[{"port":80}]}}`,
		"readme.md": "# no manifest", "x.yaml.bak": "{", ".hidden.yaml": "{", ".git/x.yaml": "{", "sub/.a.yml.swp": "{",
	})
	// Mounted ConfigMaps are links into a directory that begins with dots.
	if err := os.MkdirAll(filepath.Join(dir, "..data"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "..data", "d.yaml"), []byte(service("d", "")), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("..data/d.yaml", filepath.Join(dir, "d.yaml")); err != nil {
		t.Fatal(err)
	}
	// The same file by three ways is read once.
	r := load(t, Options{Paths: []string{dir, filepath.Join(dir, "b.yaml"), dir + "/sub/../b.yaml"}})
	if diff := cmp.Diff([]string{"a", "b", "c", "d"}, serviceNames(r)); diff != "" || len(r.Problems) > 0 {
		t.Errorf("services (-want +got):\n%s%s", diff, lines(r.Problems))
	}
	// A link to the directory is as good as the directory, named as given.
	link := filepath.Join(t.TempDir(), ".manifests")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	r = load(t, Options{Paths: []string{link}})
	if got := r.Locate(cluster.MakeRef(cluster.Service, "default", "a"), "metadata.name").String(); got != link+"/sub/a.yml:4:18" {
		t.Errorf("position through the link: %s", got)
	}
}

func TestFilesWithoutExtensionWhenNamed(t *testing.T) {
	dir := write(t, map[string]string{"manifest": service("a", ""), ".dot.yaml": service("b", "")})
	r := load(t, Options{Paths: []string{filepath.Join(dir, "manifest"), filepath.Join(dir, ".dot.yaml"), "-"}, Stdin: strings.NewReader(service("c", ""))})
	if diff := cmp.Diff([]string{"a", "b", "c"}, serviceNames(r)); diff != "" {
		t.Error(diff)
	}
	if got := r.Locate(cluster.MakeRef(cluster.Service, "default", "c"), "spec.ports[0].port").String(); got != "-:5:23" {
		t.Errorf("position in standard input: %s", got)
	}
}

func TestFS(t *testing.T) {
	fsys := fstest.MapFS{"demo/web.yaml": {Data: []byte(service("web", ""))}, "demo/.x.yaml": {Data: []byte("{")}, "other.yaml": {Data: []byte("{")}}
	r := load(t, Options{FS: fsys, Paths: []string{"demo"}})
	if diff := cmp.Diff([]string{"web"}, serviceNames(r)); diff != "" || len(r.Problems) > 0 {
		t.Error(diff, lines(r.Problems))
	}
	if _, err := Load(t.Context(), Options{FS: fsys, Paths: []string{"nope"}}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing path: %v", err)
	}
}

func TestUnreadable(t *testing.T) {
	dir := write(t, map[string]string{"good.yaml": service("good", ""), "empty/readme": ""})
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe.yaml"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "dangling.yaml")); err != nil {
		t.Fatal(err)
	}
	r := load(t, Options{Paths: []string{dir, filepath.Join(dir, "empty")}})
	want := dir + "/dangling.yaml: cannot be read: no such file or directory\n" +
		"warning: " + dir + "/empty: no .yaml, .yml or .json file in this directory\n" +
		dir + "/pipe.yaml: cannot be read: not a regular file; name it with -f to read it all the same\n"
	if diff := cmp.Diff(want, lines(r.Problems)); diff != "" || len(r.Objects.Services) != 1 {
		t.Errorf("%d services, problems (-want +got):\n%s", len(r.Objects.Services), diff)
	}
}

func TestTooBig(t *testing.T) {
	big := bytes.Repeat([]byte("# nothing\n"), maxFileBytes/10+1)
	r := load(t, Options{Paths: []string{"-"}, Stdin: bytes.NewReader(big)})
	if got, want := lines(r.Problems), "-: bigger than 64 MiB; split it into several files\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	r = loadText(t, service("a", "")+"---\napiVersion: v1\nkind: Service\nmetadata:\n  name: big\n  annotations: {a: "+strings.Repeat("x", maxObjectBytes)+"}\n")
	want := "-:7:1: Service default/big: object is bigger than the 3 MiB that an API server takes; split it, or write out its aliases\n"
	if diff := cmp.Diff(want, lines(r.Problems)); diff != "" || len(r.Objects.Services) != 1 {
		t.Error(diff)
	}
}

func TestErrors(t *testing.T) {
	_, err := Load(t.Context(), Options{Paths: []string{"testdata", "no/such/dir"}})
	if want := "read manifests no/such/dir: no such file or directory"; err == nil || err.Error() != want || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want %s", err, want)
	}
	if _, err := Load(t.Context(), Options{Paths: []string{"-"}}); err == nil {
		t.Error("standard input that is not there must be an error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Load(ctx, Options{Paths: []string{"testdata"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled load: %v", err)
	}
	if r := load(t, Options{}); len(r.Problems) > 0 || len(r.Objects.Services) > 0 {
		t.Error("no paths must give nothing")
	}
}
