package main

import (
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestExamples runs examples as users do, each script in a node of its own. They
// find the examples below $TOP.
func TestExamples(t *testing.T) {
	requireRoot(t)
	t.Parallel()
	top, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:       filepath.Join("testdata", "examples"),
		Condition: condition,
		Setup: func(env *testscript.Env) error {
			env.Setenv("TOP", top)
			return startNode(env)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"node": nodeCommand},
	})
}
