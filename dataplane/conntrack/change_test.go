package conntrack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/lab"
)

// TestChangeAlone proves that after a change the flows that it makes stale are
// those that a look at the whole table finds, whichever door is concerned, and
// that the journal keeps what is still there alone.
func TestChangeAlone(t *testing.T) {
	eachFamily(t, func(s *stage) {
		s.serve(dataplane.UDP)
		s.cleaner = New(Config{Journal: filepath.Join(t.TempDir(), "frontends.json")})
		inner := func(endpoint ...string) *builder {
			return s.service(newTable(), dataplane.ClusterIP, vip, dataplane.UDP, endpoint...)
		}
		outer := func() *builder {
			return s.service(s.service(newTable(), dataplane.ExternalIP, external, dataplane.UDP, p2), dataplane.NodePort, "0.0.0.0:30060", dataplane.UDP, p2)
		}
		clients := []client{s.client(s.Pod(1), vip, 4000), s.client(s.Outside, external, 4001), s.client(s.Outside, "192.0.2.1:30060", 4002)}
		s.rules(join(inner(p2), outer()))
		s.clean(join(inner(p2), outer()))
		for _, c := range clients {
			c.want("p2")
		}
		none := newTable()
		for _, step := range []struct {
			what                    string
			before, after, others   *builder
			stale, destinationsLeft int
		}{
			{"another endpoint", inner(p2), inner(p3), outer(), 1, 2},
			{"an endpoint more", inner(p3), inner(p2, p3), outer(), 0, 2},
			{"the doors are shut", outer(), none, inner(p2, p3), 2, 0},
			{"the doors open", none, outer(), inner(p2, p3), 2, 2},
		} {
			for _, c := range clients {
				c.send()
			}
			if got := s.cleanChange(dataplane.Delta{Before: step.before.Table, After: step.after.Table}, join(step.after, step.others)); len(got) != step.stale {
				t.Errorf("%s: %d flows stale, want %d: %v", step.what, len(got), step.stale, got)
			}
			if noted, err := readJournal(s.cleaner.config.Journal); err != nil || len(noted) != step.destinationsLeft {
				t.Errorf("%s: the journal has %v, %v", step.what, noted, err)
			}
		}
	})
}

// send sends a datagram and does not ask what becomes of it.
func (c client) send() {
	lab.Probe(c.host, dataplane.UDP, c.to, lab.Options{Source: c.port, Timeout: time.Millisecond})
}

// join makes one table of several.
func join(parts ...*builder) dataplane.Table {
	out := dataplane.Table{Node: testNode()}
	for _, b := range parts {
		out.Frontends, out.Sets = append(out.Frontends, b.Frontends...), append(out.Sets, b.Sets...)
	}
	out.Sort()
	return out
}

// cleanChange takes a change to the kernel and removes what it makes stale, which
// has to be what a look at the whole table would find.
func (s *stage) cleanChange(d dataplane.Delta, now dataplane.Table) (removed []string) {
	s.t.Helper()
	s.Node.Do(func() {
		ctx := s.t.Context()
		backend, err := s.backend.Plan(ctx, now)
		if err = errors.Join(err, s.cleaner.Expect(ctx, d.After)); err == nil {
			err = backend.Apply(ctx)
		}
		whole, err1 := s.cleaner.Plan(ctx, now)
		change, err2 := s.cleaner.PlanChange(ctx, d, now)
		if err = errors.Join(err, err1, err2); err != nil {
			s.t.Fatal(err)
		}
		removed = describe(change)
		if want := describe(whole); !slices.Equal(removed, want) {
			s.t.Errorf("the change alone: %v, the whole table: %v", removed, want)
		}
		if err := change.Apply(ctx); err != nil {
			s.t.Fatal(err)
		}
	})
	return removed
}

func describe(p dataplane.Plan) []string {
	var out []string
	for _, c := range p.Changes() {
		out = append(out, fmt.Sprint(c, c.Lines))
	}
	slices.Sort(out)
	return out
}

// A journal that cannot be understood takes a look at the whole table.
func TestChangeWithDamagedJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "frontends.json")
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := dataplane.Delta{After: everyDoor().Table}
	if _, err := New(Config{Journal: path}).PlanChange(context.Background(), d, d.After); !errors.Is(err, dataplane.ErrForgotten) {
		t.Errorf("error %v, want ErrForgotten", err)
	}
}
