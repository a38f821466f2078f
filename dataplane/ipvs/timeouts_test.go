package ipvs

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Timeouts are set when somebody asks, and put back when nobody does any more.
func TestPlanTimeouts(t *testing.T) {
	now, none := seconds{900, 120, 300}, timeoutRecord{}
	ours := timeoutRecord{Old: seconds{900}, Set: seconds{60}}
	for _, c := range []struct {
		what      string
		want, now seconds
		past      timeoutRecord
		set       seconds
		record    timeoutRecord
		forget    bool
		remarks   int
	}{
		{"nobody asks", seconds{}, now, none, seconds{}, none, false, 0},
		{"first", seconds{60}, now, none, seconds{60}, ours, false, 0},
		{"again", seconds{60}, seconds{60, 120, 300}, ours, seconds{}, ours, false, 0},
		{"another value", seconds{70}, seconds{60, 120, 300}, ours, seconds{70}, timeoutRecord{seconds{900}, seconds{70}}, false, 0},
		{"it was so", seconds{900}, now, none, seconds{}, none, false, 0},
		{"no longer", seconds{}, seconds{60, 120, 300}, ours, seconds{900}, none, true, 0},
		{"another one", seconds{0, 0, 5}, seconds{60, 120, 300}, ours, seconds{900, 0, 5}, timeoutRecord{seconds{0, 0, 300}, seconds{0, 0, 5}}, false, 0},
		{"changed by others", seconds{}, seconds{61, 120, 300}, ours, seconds{}, none, true, 1},
	} {
		p := planTimeouts(c.want, c.now, c.past, "journal")
		if p.set != c.set || p.record != c.record || p.forget != c.forget || len(p.remarks) != c.remarks {
			t.Errorf("%s: set %v, record %v, forget %v, remarks %v", c.what, p.set, p.record, p.forget, p.remarks)
		}
		if again := (c.set == seconds{} && !c.forget); again != (len(p.Changes()) == 0) {
			t.Errorf("%s: changes %v", c.what, p.Changes())
		}
	}
}

func TestTimeoutSeconds(t *testing.T) {
	got, err := Timeouts{TCP: time.Minute, UDP: 1500 * time.Millisecond}.seconds()
	if diff := cmp.Diff(seconds{60, 0, 2}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	for _, bad := range []time.Duration{-1, 25 * 24 * time.Hour} {
		if _, err := (Timeouts{TCPFin: bad}).seconds(); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}
