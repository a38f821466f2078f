package dataplane_test

import (
	"testing"

	"github.com/toyproxy/toyproxy/dataplane"
)

func TestMarks(t *testing.T) {
	for _, tc := range []struct {
		mark uint32
		want dataplane.Marks
	}{
		{0, dataplane.Marks{Mask: 0xc000, Masquerade: 0x4000, Drop: 0x8000, Refuse: 0xc000}},
		{1, dataplane.Marks{Mask: 3, Masquerade: 1, Drop: 2, Refuse: 3}},
		{1 << 31, dataplane.Marks{Mask: 0xc0000000, Masquerade: 0x80000000, Drop: 0x40000000, Refuse: 0xc0000000}},
	} {
		if got := (dataplane.Node{MasqueradeMark: tc.mark}).Marks(); got != tc.want {
			t.Errorf("mark %#x: %+v, want %+v", tc.mark, got, tc.want)
		}
	}
}
