package ipvs_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/ipvs"
	"github.com/toyproxy/toyproxy/test/lab"
)

// A kernel without IPVS is told from one with it, with modprobe and without;
// nothing is touched, and there is nothing to remove. It runs where IPVS is
// missing: the opposite of all other tests here.
func TestNoIPVS(t *testing.T) {
	lab.Require(t, lab.Namespaces)
	if lab.IPVS.Missing() == nil {
		t.Skip("SKIP(kernel): this kernel has IPVS, the test is for one without")
	}
	for _, path := range []string{os.Getenv("PATH"), t.TempDir()} {
		l := lab.New(t, lab.WithPods(1))
		state := t.TempDir()
		b := ipvs.New(ipvs.Config{StateDir: state})
		before := quietDump(l.Node)
		l.Node.Do(func() {
			t.Setenv("PATH", path)
			_, err := b.Plan(context.Background(), newTable().add("default/web", "10.96.0.10", dataplane.TCP, 80).Table)
			var missing *dataplane.Unsupported
			if !errors.As(err, &missing) || !errors.Is(err, dataplane.ErrUnsupported) {
				t.Errorf("plan: %v", err)
				return
			}
			if want := "generic netlink family IPVS (module ip_vs)"; missing.Missing != want || !strings.Contains(missing.Mend, "modprobe ip_vs") {
				t.Errorf("plan: %v", err)
			}
			p, err := b.Remove(context.Background())
			if err != nil || len(p.Changes()) != 0 || p.Apply(context.Background()) != nil {
				t.Errorf("removal: %v, %v", p, err)
			}
		})
		if diff := cmp.Diff(before, quietDump(l.Node)); diff != "" {
			t.Errorf("the node was changed (-before +after):\n%s", diff)
		}
		if left, err := os.ReadDir(state); err != nil || len(left) != 0 {
			t.Errorf("left in the state directory: %v %v", left, err)
		}
	}
}

// quietDump lists what exists on any kernel, without bringing tables into being.
func quietDump(h *lab.Host) string {
	return h.Run("/bin/cat", "/proc/self/net/ip_tables_names") + h.Run("/sbin/ip", "route", "show", "table", "all") + h.Run("/sbin/ipset", "list", "-n")
}
