package arch

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// read parses the project's code, folder by folder; modules of their own
// (tools, test/oracle) are other houses.
func read(t *testing.T) map[string]*source {
	t.Helper()
	top := filepath.Join("..", "..")
	sources := map[string]*source{}
	err := fs.WalkDir(os.DirFS(top), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if p != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || ownModule(filepath.Join(top, p))) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
			return nil
		}
		dir := path.Dir(p)
		if sources[dir] == nil {
			sources[dir] = &source{dir: dir}
		}
		text, err := os.ReadFile(filepath.Join(top, p))
		if err != nil {
			return err
		}
		return sources[dir].add(path.Base(p), text)
	})
	if err != nil {
		t.Fatal(err)
	}
	return sources
}

func ownModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

func TestArchitecture(t *testing.T) {
	sources := read(t)
	if len(sources) < 3 {
		t.Fatalf("only %d folders with code found", len(sources))
	}
	for dir, s := range sources {
		i := slices.IndexFunc(rules, func(r rule) bool { return r.dir == dir })
		if i < 0 {
			t.Errorf("%s: no row in the table of rules: say there what it may import", dir)
			continue
		}
		report(t, importFaults(s, rules[i]))
		report(t, purityFaults(s, rules[i]))
	}
}

func TestWords(t *testing.T) {
	for _, s := range read(t) {
		report(t, wordFaults(s))
	}
}

func TestShape(t *testing.T) {
	for _, s := range read(t) {
		report(t, shapeFaults(s))
	}
}

func report(t *testing.T, faults []string) {
	t.Helper()
	slices.Sort(faults)
	for _, f := range faults {
		t.Error(f)
	}
}

// TestFaultsAreFound shows each check the fault it is there for.
func TestFaultsAreFound(t *testing.T) {
	r := rule{dir: "a", imports: "b", io: "kernel.go"}
	imports := func(s *source) []string { return importFaults(s, r) }
	purity := func(s *source) []string { return purityFaults(s, r) }
	long := strings.Repeat("\n", maxFunction)
	tests := []struct {
		name, file, text string
		check            func(*source) []string
		want             string // "" for none
	}{
		{"allowed arrow", "x.go", `import "` + module + `/b"`, imports, ""},
		{"arrow not in the table", "x.go", `import "` + module + `/cmd/toyproxy"`, imports, "may not import cmd/toyproxy"},
		{"Kubernetes below the waist", "x.go", `import "k8s.io/api/core/v1"`, imports, "may not know Kubernetes"},
		{"I/O in its file", "kernel.go", `import "os"; var _, _ = os.Open("x")`, purity, ""},
		{"I/O elsewhere", "x.go", `import "os"; var _, _ = os.Open("x")`, purity, "only in kernel.go"},
		{"constants of the system", "x.go", `import "syscall"; const x = syscall.IPPROTO_TCP`, purity, ""},
		{"the clock", "x.go", `import "time"; var now = time.Now()`, purity, "calls time.Now"},
		{"a duration", "x.go", `import "time"; const second = time.Second`, purity, ""},
		{"no package comment", "x.go", ``, wordFaults, "no package comment"},
		{"vague name", "util.go", ``, wordFaults, `"util" tells nothing`},
		{"long function", "x.go", "func f() {" + long + "}", shapeFaults, "function f has 61 lines"},
		{"function just short enough", "x.go", "func f() {" + long[1:] + "}", shapeFaults, ""},
		{"long file", "x.go", strings.Repeat("\n", maxFile+1), shapeFaults, "401 lines"},
		{"init", "x.go", "func init() {}", shapeFaults, "init function"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &source{dir: "a"}
			if err := s.add(tt.file, []byte("package a; "+tt.text)); err != nil {
				t.Fatal(err)
			}
			got := strings.Join(tt.check(s), "\n")
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
