package ingress

import (
	"slices"
	"testing"
)

func TestHostnames(t *testing.T) {
	t.Parallel()
	one, deep := Hostname{Name: "*.b.example"}, Hostname{Name: "*.b.example", AnyDepth: true}
	for _, tc := range []struct {
		name Hostname
		host string
		want bool
	}{
		{Hostname{}, "", true}, {Hostname{}, "a", true},
		{Hostname{Name: "a.example"}, "a.example", true}, {Hostname{Name: "a.example"}, "b.a.example", false}, {Hostname{Name: "a.example"}, "", false},
		{one, "a.b.example", true}, {one, "b.example", false}, {one, ".b.example", false}, {one, "a.a.b.example", false}, {one, "ab.example", false},
		{deep, "a.b.example", true}, {deep, "a.a.b.example", true}, {deep, "b.example", false}, {deep, "", false},
	} {
		if got := tc.name.Covers(tc.host); got != tc.want {
			t.Errorf("%v (any depth: %t) covers %q: %t", tc.name, tc.name.AnyDepth, tc.host, got)
		}
	}
	order := []Hostname{{Name: "a.example"}, {Name: "b"}, one, deep, {Name: "*.c.example"}, {Name: "*.example"}, {}}
	for i, a := range order {
		for j, b := range order {
			if got := a.Compare(b); (got < 0) != (i < j) || (got == 0) != (i == j) {
				t.Errorf("%v compared with %v is %d", a, b, got)
			}
		}
	}
	if !slices.IsSortedFunc(order, Hostname.Compare) {
		t.Error("not in order")
	}
}
