package conformance

import (
	"fmt"
	"strings"
	"testing"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/lab"
)

// stage is a lab with one backend and one pipeline, for tests whose flows need
// more than a scenario file can say.
type stage struct {
	*lab.Lab
	t       *testing.T
	backend dataplane.Backend
	p       *pipeline
}

// onBackends runs a test on every backend, each on a stage of its own, and says
// so to tools/testsum.
func onBackends(t *testing.T, pods int, test func(*testing.T, *stage, backend)) {
	for _, b := range backends() {
		if !b.here() {
			continue
		}
		t.Run(b.name, func(t *testing.T) {
			lab.Require(t, append(b.needs, lab.Namespaces)...)
			test(t, &stage{lab.New(t, lab.WithPods(pods)), t, b.make(t), newPipeline()}, b)
			t.Attr("exercised", b.name+" IPv4 IPv6")
		})
	}
}

// program makes the kernel match the objects, both given as in a scenario file.
func (s *stage) program(pods, objects string) dataplane.Table {
	s.t.Helper()
	text, err := step{pods: pods, objects: objects}.manifest(false)
	if err != nil {
		s.t.Fatal(err)
	}
	table, err := s.p.table(text)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := program(s.Node, s.backend, table); err != nil {
		s.t.Fatal(err)
	}
	return table
}

// podLines returns "pFIRST LABELS" to "pLAST LABELS".
func podLines(first, last int, labels string) string {
	var out strings.Builder
	for n := first; n <= last; n++ {
		fmt.Fprintf(&out, "p%d %s\n", n, labels)
	}
	return out.String()
}
