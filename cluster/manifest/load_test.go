package manifest

import (
	"bytes"
	"flag"
	"fmt"
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

func TestListsWithinLists(t *testing.T) {
	nested := func(depth int) string {
		open, end := strings.Repeat("{apiVersion: v1, kind: List, items: [", depth), strings.Repeat("]}", depth)
		return open + "{apiVersion: v1, kind: Service, metadata: {name: deep}, spec: {ports: [{port: 80}]}}" + end
	}
	if r := loadText(t, nested(4)); len(r.Objects.Services) != 1 || len(r.Problems) > 0 {
		t.Errorf("a List in a List must be read: %s", lines(r.Problems))
	}
	if r := loadText(t, nested(20)); len(r.Objects.Services) > 0 || len(r.Problems) != 1 {
		t.Errorf("20 Lists deep must be one problem: %s", lines(r.Problems))
	}
}

// TestExamples requires that every example, a file or a folder, is fine alone and
// that all files are together.
func TestExamples(t *testing.T) {
	dir := filepath.Join("..", "..", "examples")
	paths, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(paths) < 6 {
		t.Fatalf("examples: %v, %v", paths, err)
	}
	var together []string
	check := func(paths ...string) {
		if r := load(t, Options{Paths: paths}); len(r.Problems) > 0 || len(r.Objects.Services) == 0 {
			t.Errorf("%s: %d Services, problems:\n%s", paths, len(r.Objects.Services), lines(r.Problems))
		}
	}
	for _, p := range paths {
		switch filepath.Ext(p) {
		case ".md":
			continue
		case ".yaml":
			together = append(together, p)
		}
		check(p)
	}
	check(together...)
}

// TestOneBadObjectStopsNoOther is field fault 5: the bad parts are named, the
// good Service works and follows the change of its slice.
func TestOneBadObjectStopsNoOther(t *testing.T) {
	slice := func(name, address string, port int) string {
		return fmt.Sprintf("---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: %s}\naddressType: IPv4\nports: [{port: %d}]\nendpoints: [{addresses: [%s]}]\n", name, port, address)
	}
	bad := service("bad", "clusterIP: 10.96.0.11, externalIPs: [not-an-ip]") + service("bad2", "clusterIP: 10.96.0.12, ports: [{port: 99999}]") +
		slice("bad", "10.244.0.12%eth0", 80) + slice("bad2", "10.244.0.13", 0)
	for _, address := range []string{"10.244.0.12", "10.244.0.13"} {
		r := loadText(t, bad+service("good", "clusterIP: 10.96.0.10")+slice("good", address, 8080))
		if len(r.Objects.Services) != 1 || len(r.Objects.EndpointSlices) != 1 || r.Objects.EndpointSlices[0].Endpoints[0].Addresses[0] != address {
			t.Errorf("the good objects must be used, got %v", r.Objects)
		}
		want := `-:5:66: Service default/bad: spec.externalIPs[0]: Invalid value: "not-an-ip": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)
-:10:46: Service default/bad2: spec.ports[0].port: Invalid value: 99999: must be between 1 and 65535, inclusive
-:17:26: EndpointSlice default/bad: endpoints[0].addresses[0]: Invalid value: "10.244.0.12%eth0": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)
-:23:16: EndpointSlice default/bad2: ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive
`
		var errors []cluster.Problem
		for _, p := range r.Problems {
			if !p.Warning {
				errors = append(errors, p)
			}
		}
		if diff := cmp.Diff(want, lines(errors)); diff != "" {
			t.Errorf("problems (-want +got):\n%s", diff)
		}
	}
}
