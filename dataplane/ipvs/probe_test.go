package ipvs

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toyproxy/toyproxy/dataplane"
)

// A Service gets the scheduler that it wishes for if the kernel has it.
func TestGrant(t *testing.T) {
	for _, c := range []struct {
		wish     string
		affinity time.Duration
		has      map[string]bool
		want     string
	}{
		{"", 0, nil, ""},
		{"lc", 0, map[string]bool{"lc": true}, "lc"},
		{"lc", 0, map[string]bool{"rr": true}, ""},
		{"nosuch", 0, map[string]bool{"rr": true}, ""},
		{"", time.Hour, map[string]bool{"mh": true, "sh": true}, ""},
		{"", time.Hour, map[string]bool{"sh": true}, "sh"},
		{"lc", time.Hour, map[string]bool{"lc": true, "sh": true}, "lc"},
	} {
		given := dataplane.Table{Sets: []dataplane.EndpointSet{{Name: "a", Scheduler: c.wish, Affinity: c.affinity}}}
		got := grant(given, func() map[string]bool { return c.has })
		if got.Sets[0].Scheduler != c.want {
			t.Errorf("%+v: %q", c, got.Sets[0].Scheduler)
		}
		if told := notGranted(given, func() map[string]bool { return c.has }); (len(told) > 0) != (c.wish != "" && !c.has[c.wish]) {
			t.Errorf("%+v: told %q", c, told)
		}
		if given.Sets[0].Scheduler != c.wish {
			t.Errorf("%+v: the table that was given has changed", c)
		}
	}
}

// Schedulers are found in lists of what is built in and of symbols.
func TestLinesWith(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list")
	list := "0000 t ip_vs_rr_schedule\n0000 t ip_vs_lc_schedule\t[ip_vs_lc]\n0000 t ip_vs_wlc_schedule_x\n0000 t nip_vs_sh_schedule\n"
	if err := os.WriteFile(path, []byte(list), 0o644); err != nil {
		t.Fatal(err)
	}
	got := linesWith(path, " ip_vs_%s_schedule", []string{"lc", "rr", "sh", "wlc"})
	if diff := cmp.Diff([]string{"lc", "rr"}, got); diff != "" {
		t.Error(diff)
	}
	if got := linesWith(path+"-not", "%s", []string{"rr"}); got != nil {
		t.Error(got)
	}
}
