package manifest

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/toyproxy/toyproxy/cluster"
)

// The place of a field is found whether or not the tree of its object is still there:
// in one of several documents, in Lists within Lists, in a long List.
func TestGivenUp(t *testing.T) {
	service := func(name string) string {
		return fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: %s}, spec: {ports: [{port: 80}]}}\n", name)
	}
	list := func(items ...string) string {
		return "{apiVersion: v1, kind: List, items: [" + strings.Join(items, ",\n") + "]}\n"
	}
	var many []string
	for i := range 300 {
		many = append(many, service(fmt.Sprintf("many-%d", i)))
	}
	text := "# \n" + service("a") + "---\n" + service("b") + "---\n" + service("c") + "...\n---\n" +
		list(service("d"), list(service("e"), service("f"))) + "---\n" + list(many...)
	r, err := Load(t.Context(), Options{Paths: []string{"-"}, Stdin: strings.NewReader(text)})
	if err != nil || len(r.Problems) > 0 {
		t.Fatal(err, r.Problems)
	}
	lines := strings.Split(text, "\n")
	kept := 0
	for ref, it := range r.items {
		for _, field := range []string{"metadata.name", "spec.ports[0].port"} {
			want := map[string]string{"metadata.name": ref.Name, "spec.ports[0].port": "80"}[field]
			if at := r.Locate(ref, field); at.Line < 1 || !strings.HasPrefix(lines[at.Line-1][at.Column-1:], want) || !strings.Contains(lines[at.Line-1], ref.Name+"}") {
				t.Errorf("%s of %s is at %s", field, ref, at)
			}
		}
		if at := r.Locate(ref, ""); at.Line < 1 || !strings.HasPrefix(lines[at.Line-1][at.Column-1:], "{apiVersion: v1, kind: Service, metadata: {name: "+ref.Name) {
			t.Errorf("%s is at %s", ref, at)
		}
		if it.root != nil {
			kept++
		}
	}
	if kept != len(many) {
		t.Errorf("%d trees are kept, want those of the long List, %d", kept, len(many))
	}
}

// What is loaded takes little more memory than the text and its objects do: with the
// trees of all of them it was more than twice as much.
func TestBytesPerObject(t *testing.T) {
	const n = 1000
	data := big(n)
	before := heapInUse()
	r, err := Load(t.Context(), Options{Paths: []string{"-"}, Stdin: bytes.NewReader(data)})
	if err != nil {
		t.Fatal(err)
	}
	each := (heapInUse() - before) / (2 * n)
	t.Logf("%d bytes an object, of which %d are text", each, len(data)/(2*n))
	if each > 3500 {
		t.Errorf("%d bytes for each object, a Service or ten endpoints", each)
	}
	if r.Locate(cluster.MakeRef(cluster.Service, "default", "svc-7"), "spec").Line == 0 {
		t.Error("nothing is located")
	}
}

func heapInUse() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
