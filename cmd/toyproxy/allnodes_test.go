package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestAllNodes plays the scripts below testdata/allnodes, in which one machine has
// several nodes, with every backend that the kernel has; $BACKEND is its name.
// A guest was started for IPVS: there the others are not played again.
func TestAllNodes(t *testing.T) {
	requireRoot(t)
	for _, backend := range []backendName{backendIPTables, backendNftables, backendIPVS} {
		t.Run(string(backend), func(t *testing.T) {
			guest := os.Getenv("VMRUN_GUEST") != ""
			if backend != backendIPVS && guest {
				return
			}
			if need := map[backendName]string{backendNftables: "nftables", backendIPVS: "ipvs"}[backend]; need != "" {
				ok, err := condition(need)
				switch {
				case err != nil || !ok && guest:
					t.Fatalf("the guest's kernel has no %s: %v", need, err)
				case !ok:
					t.Skipf("SKIP(kernel): no %s", need)
				}
			}
			testscript.Run(t, testscript.Params{
				Dir: "testdata/allnodes",
				Setup: func(env *testscript.Env) error {
					env.Setenv("BACKEND", string(backend))
					return startNode(env)
				},
				Cmds:      map[string]func(*testscript.TestScript, bool, []string){"node": nodeCommand, "snapshot": snapshotCommand},
				Condition: condition,
			})
		})
	}
}
