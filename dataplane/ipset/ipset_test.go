package ipset

import (
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/lab"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }

// one is a set for the tests.
func one(name string, timeout time.Duration) Set {
	return Set{Name: name, Family: dataplane.IPv4, Timeout: timeout, For: "default/web"}
}

// TestDiff shows which changes come before the rules and which after.
func TestDiff(t *testing.T) {
	for _, tc := range []struct {
		name   string
		want   []Set
		have   []held
		before []string
		after  []string
	}{
		{name: "nothing"},
		{name: "equal", want: []Set{one("A", time.Minute)}, have: []held{one("A", time.Minute).asHeld()}},
		{name: "new", want: []Set{one("A", time.Minute)}, before: []string{"+ ipset A for default/web: set missing"}},
		{name: "gone", have: []held{one("B", time.Minute).asHeld(), one("A", time.Minute).asHeld()},
			after: []string{"- ipset A: set not wanted", "- ipset B: set not wanted"}},
		{name: "timeout", want: []Set{one("A", time.Hour)}, have: []held{one("A", time.Minute).asHeld()},
			before: []string{"~ ipset A for default/web: timeout 60 s, want 3600 s"}},
		{name: "other type", want: []Set{one("A", time.Hour)}, have: []held{{"A", "hash:net", dataplane.IPv4, 3600}},
			before: []string{"~ ipset A for default/web: type hash:net of IPv4, want hash:ip of IPv4"}},
		{name: "killed", want: []Set{one("A", time.Hour)}, have: []held{one("A", time.Hour).asHeld(), one("A", time.Hour).spare().asHeld()},
			after: []string{"- ipset A-NEXT: left by a pass that was cut short"}},
	} {
		got := diff(tc.want, tc.have)
		if diff := cmp.Diff(tc.before, told(got.Before)); diff != "" {
			t.Errorf("%s, before: %s", tc.name, diff)
		}
		if diff := cmp.Diff(tc.after, told(got.After)); diff != "" {
			t.Errorf("%s, after: %s", tc.name, diff)
		}
	}
}

func told(p dataplane.Plan) []string {
	var out []string
	for _, c := range p.Changes() {
		out = append(out, c.String())
	}
	return out
}

// TestCarried proves that a client is forgotten as long after it was last seen
// as the new timeout says.
func TestCarried(t *testing.T) {
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	for _, tc := range []struct {
		name     string
		left     []client
		from, to uint32
		want     []client
	}{
		{"longer", []client{{a, 50}}, 60, 3600, []client{{a, 3590}}},
		{"shorter", []client{{a, 50}, {b, 10}}, 60, 30, []client{{a, 20}}},
		{"more left than the set gives", []client{{a, 90}}, 60, 30, []client{{a, 30}}},
	} {
		if diff := cmp.Diff(tc.want, carried(tc.left, tc.from, tc.to), cmp.AllowUnexported(client{}), cmp.Comparer(func(x, y netip.Addr) bool { return x == y })); diff != "" {
			t.Errorf("%s: %s", tc.name, diff)
		}
	}
}

// TestKernel proves that sets are made, renewed with their clients and removed,
// in both families, whatever a pass that was cut short has left, and twice.
func TestKernel(t *testing.T) {
	lab.Require(t, lab.Namespaces, lab.IPSet)
	node := lab.New(t, lab.WithPods(0)).Node
	six := Set{Name: "SIX", Family: dataplane.IPv6, Timeout: time.Minute}
	four := one("FOUR", time.Minute)
	all := func(string, dataplane.Family) bool { return true }
	settle := func(want ...Set) {
		t.Helper()
		node.Do(func() {
			for range 2 {
				p, err := Plan(want, all)
				if err == nil {
					err = errors.Join(p.Before.Apply(t.Context()), p.After.Apply(t.Context()))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if p, err := Plan(want, all); err != nil || len(p.Before.Changes())+len(p.After.Changes()) > 0 {
				t.Errorf("still to do: %v, %v; %v", p.Before.Changes(), p.After.Changes(), err)
			}
		})
	}
	settle(four, six)
	for i := range 1000 {
		node.Run("ipset", "add", "SIX", netip.AddrFrom16([16]byte{0x20, 1, 14: byte(i >> 8), 15: byte(i)}).String())
		if i == 9 && testing.Short() {
			break
		}
	}
	node.Run("ipset", "create", "SIX-NEXT", "hash:net")
	six.Timeout = time.Hour
	settle(four, six)
	if got := node.Run("ipset", "save", "SIX"); strings.Count(got, "\nadd ") < 10 || !strings.Contains(got, "2001::1 timeout 35") {
		t.Errorf("clients were lost:\n%.500s", got)
	}
	settle()
	if got := node.Run("ipset", "list", "-n"); got != "" {
		t.Errorf("left: %s", got)
	}
}
