package conntrack

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
)

func TestDestinations(t *testing.T) {
	var got []string
	for _, k := range destinations(everyDoor().Table) {
		got = append(got, k.String())
	}
	want := []string{"192.0.2.1:30053/udp", "203.0.113.7:53/udp", "203.0.113.8:53/udp", "203.0.113.9:80/tcp"}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestExpect proves that what once was a frontend stays noted until its flows
// are removed, and that nothing is written that is there already.
func TestExpect(t *testing.T) {
	c := New(Config{Journal: filepath.Join(t.TempDir(), "state", "frontends.json")})
	expect := func(table dataplane.Table, want int) {
		t.Helper()
		if err := c.Expect(t.Context(), table); err != nil {
			t.Fatal(err)
		}
		if keys, err := readJournal(c.config.Journal); err != nil || len(keys) != want {
			t.Errorf("%v, %v; want %d destinations", keys, err, want)
		}
	}
	expect(dataplane.Table{}, 0)
	if _, err := os.Stat(filepath.Dir(c.config.Journal)); err == nil {
		t.Error("a journal for nothing")
	}
	table := everyDoor().Table
	expect(table, 4)
	long := time.Unix(1, 0)
	if err := os.Chtimes(c.config.Journal, long, long); err != nil {
		t.Fatal(err)
	}
	expect(table, 4)
	if st, err := os.Stat(c.config.Journal); err != nil || !st.ModTime().Equal(long) {
		t.Errorf("written again: %v", err)
	}
	expect(dataplane.Table{}, 4)
	other := newTable()
	other.frontend(dataplane.ExternalIP, "203.0.113.99:53", dataplane.UDP, dataplane.Route{Verdict: dataplane.Refuse})
	expect(other.Table, 5)
}

func TestDamagedJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "frontends.json")
	if err := os.WriteFile(path, []byte("[{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readJournal(path); !errors.Is(err, errDamaged) {
		t.Errorf("read: %v, want errDamaged", err)
	}
	if err := New(Config{Journal: path}).Expect(t.Context(), everyDoor().Table); err != nil {
		t.Errorf("a damaged journal stops a pass: %v", err)
	}
}
