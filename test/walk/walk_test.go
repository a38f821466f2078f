package walk

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/conntrack"
	"github.com/toyproxy/toyproxy/test/lab"
)

const (
	defaultSeed  = 20261130
	defaultSteps = 150
	// guestSteps is for kernels in which each call is slow.
	guestSteps = 25
	// scratchEvery is after how many steps a kernel is programmed from nothing.
	scratchEvery = 10
	// cleanEvery is after how many steps with faults one is ended without.
	cleanEvery = 5
	// damageEach is in how many of a hundred steps somebody damages the rules, and
	// an audit follows.
	damageEach = 4
	// flowsEach is how many flows are tried after a step.
	flowsEach = 3
	// mostFaults is how many steps may go wrong before the walk ends.
	mostFaults = 5
)

// settings returns seed and steps of a walk.
func settings(t *testing.T) (seed uint64, steps int) {
	t.Helper()
	usual := uint64(defaultSteps)
	if os.Getenv(lab.GuestVariable) != "" {
		usual = guestSteps
	}
	return number(t, "TOYPROXY_WALK_SEED", defaultSeed), int(number(t, "TOYPROXY_WALK_STEPS", usual))
}

// number reads a setting of the environment.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// walker is a walk under way.
type walker struct {
	*testing.T
	column
	*lab.Lab
	world   *world
	store   *cluster.Store
	tracker *agent.Tracker
	// onlooker only ever plans.
	onlooker dataplane.Backend
	// dice are for what is looked at, so that the steps are the same whatever is.
	dice *world
	// sctp: this kernel has sockets of that protocol.
	sctp bool
	// stateDir is what backends of this node have for their files.
	stateDir string
	// wholes, flows, faults and retries count.
	wholes, flows, faults, retries int
}

func newWalker(t *testing.T, c column, seed uint64) *walker {
	w := &walker{T: t, column: c, Lab: newTown(t), world: newWorld(seed), dice: newWorld(seed + 1), store: cluster.NewStore(), stateDir: t.TempDir(), sctp: lab.SCTP.Missing() == nil}
	flows := conntrack.New(conntrack.Config{Virtual: c.virtual, Journal: filepath.Join(w.stateDir, "frontends.json")})
	w.onlooker = c.make(w.stateDir)
	w.tracker = agent.NewTracker(w.world.facts, dataplane.Follow(c.make(w.stateDir)), flows)
	t.Cleanup(func() {
		if err := w.tracker.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// TestWalk takes steps that succeed, and compares after each.
func TestWalk(t *testing.T) {
	seed, steps := settings(t)
	onColumns(t, columns(), func(t *testing.T, c column) {
		w := newWalker(t, c, seed)
		for i := range steps {
			what, pass := w.move(), w.pass
			if w.dice.chance(damageEach) {
				what += "; " + w.noticed()
				pass = w.audit
			}
			if err := pass(nil); err != nil {
				w.wrong(i, what, err)
				continue
			}
			w.look(i, what)
		}
		t.Logf("seed %d: %d steps, %d of them whole passes, %d flows", seed, steps, w.wholes, w.flows)
	})
}

// TestWalkWithFaults takes steps in which one of ten writes fails. What is left
// undone is made up for by the same step tried again, or by the next one; every few
// steps one ends without faults.
func TestWalkWithFaults(t *testing.T) {
	const mostRetries = 40
	seed, steps := settings(t)
	exact := slices.DeleteFunc(columns(), func(c column) bool { return c.drains })
	onColumns(t, exact, func(t *testing.T, c column) {
		w := newWalker(t, c, seed+7)
		faults := newFaults(t, seed, strings.HasPrefix(c.name, "iptables"))
		for i := range steps {
			what := w.move()
			err := w.pass(faults)
			for try := 0; err != nil && try < mostRetries && faults.IntN(6) > 0; try++ {
				w.retries++
				err = w.pass(faults)
			}
			if last := i == steps-1; err != nil && (last || i%cleanEvery == 0) {
				if err = w.pass(nil); err != nil {
					w.wrong(i, what+", without faults in the end", err)
				}
			}
			if err == nil {
				w.look(i, what)
			}
		}
		t.Logf("seed %d: %d steps, %d tried again, %d passes were whole, %d flows", seed, steps, w.retries, w.wholes, w.flows)
	})
}

// move takes a step of the world.
func (w *walker) move() string {
	what := w.world.change()
	w.tracker.SetNode(w.world.facts)
	return what
}

// pass takes what has changed to the kernel, with writes that fail if there are
// dice for it.
func (w *walker) pass(faults *faults) error {
	events := w.store.Replace(w.world.objects())
	return w.apply(faults, func(ctx context.Context) (*agent.Pass, error) { return w.tracker.Update(ctx, events) })
}

// audit is pass, which may fail when the kernel is not as it was left, and then
// compares all of the kernel.
func (w *walker) audit(faults *faults) error {
	_ = w.pass(faults)
	return w.apply(faults, w.tracker.Audit)
}

// apply makes a plan in the node's namespace and applies it.
func (w *walker) apply(faults *faults, plan func(context.Context) (*agent.Pass, error)) (err error) {
	w.Node.Do(func() {
		ctx := context.Background()
		var p *agent.Pass
		reading := ctx
		if faults != nil {
			reading = newFaulty(ctx, faults.Rand, 2)
		}
		if p, err = plan(reading); err != nil {
			err = fmt.Errorf("plan: %w", err)
			return
		}
		if p.Whole {
			w.wholes++
		}
		if faults != nil {
			err = faults.apply(ctx, p)
		} else {
			err = p.Apply(ctx)
		}
		if err != nil {
			err = fmt.Errorf("apply: %w", err)
		}
	})
	return err
}

// wrong reports a step that went wrong, and ends the walk when there are many.
func (w *walker) wrong(step int, what string, err error) {
	w.Helper()
	w.Errorf("step %d (%s): %v", step, what, err)
	if w.faults++; w.faults == mostFaults {
		w.Fatal("enough")
	}
}

// look compares the kernel with the objects.
func (w *walker) look(step int, what string) {
	w.Helper()
	table := w.tracker.Table()
	err := w.stays(func() error { return errors.Join(w.sameTable(table), w.settled(table)) })
	if step%scratchEvery == 0 {
		w.Run(fmt.Sprintf("scratch-%d", step), func(t *testing.T) {
			want, have := fromScratch(t, w.column, table), w.Node.Dump(lab.Rules())
			if w.drains {
				have[servers] = w.withoutDraining(have[servers], want[servers])
				have[sets] = slices.DeleteFunc(have[sets], func(line string) bool { return ofMark(line) && !slices.Contains(want[sets], line) })
			}
			if diff := lab.Differences(want, have); diff != "" {
				t.Errorf("step %d (%s): the kernel differs from one programmed from nothing:\n%s", step, what, diff)
			}
		})
	}
	err = errors.Join(err, w.stays(func() error { return w.tryFlows(table) }))
	if err != nil {
		w.wrong(step, what, err)
	}
}

// The commands that list the virtual servers, and the sets.
const servers, sets = "ipvsadm -Sn", "ipset save"

// ofMark reports whether a line is about the set of the marks that virtual servers
// have; those that drain keep theirs.
func ofMark(line string) bool {
	words := strings.Fields(line)
	return len(words) > 1 && (words[1] == "TOY-MARK-4" || words[1] == "TOY-MARK-6")
}

// withoutDraining leaves out virtual servers that are not wanted and have no real
// server but such as drain, which dumps do not show.
func (w *walker) withoutDraining(have, want []string) []string {
	return slices.DeleteFunc(slices.Clone(have), func(line string) bool {
		words := strings.Fields(line)
		used := slices.ContainsFunc(have, func(l string) bool {
			return strings.HasPrefix(l, strings.Join([]string{"-a", words[1], words[2], ""}, " "))
		})
		return words[0] == "-A" && !used && !slices.Contains(want, line)
	})
}

// sameTable compares the table that was followed with that of a single pass.
func (w *walker) sameTable(table dataplane.Table) error {
	objects := w.world.objects()
	want := agent.Resolve(agent.Input{Objects: objects}, w.world.facts, objects.Pods).Table
	if diff := cmp.Diff(want, table, cmpopts.EquateComparable(netip.Addr{}, netip.AddrPort{}, netip.Prefix{}), cmpopts.EquateEmpty()); diff != "" {
		return fmt.Errorf("the table is not that of a single pass (-single pass +followed):\n%s", diff)
	}
	return nil
}

// settled returns what a backend that has no memory would change.
func (w *walker) settled(table dataplane.Table) (err error) {
	w.Node.Do(func() {
		p, failed := w.onlooker.Plan(context.Background(), table)
		if failed != nil {
			err = fmt.Errorf("whole plan: %w", failed)
			return
		}
		for _, c := range p.Changes() {
			if w.draining(c.Lines) {
				continue
			}
			err = errors.Join(err, fmt.Errorf("a whole plan would change: %s %q", c, c.Lines))
		}
	})
	return err
}

// fromScratch is what a kernel holds that has only ever seen this table.
func fromScratch(t *testing.T, c column, table dataplane.Table) lab.Dump {
	t.Helper()
	fresh := lab.New(t, lab.WithPods(0)).Node
	fresh.Do(func() {
		p, err := c.make(t.TempDir()).Plan(t.Context(), table)
		if err == nil {
			err = p.Apply(t.Context())
		}
		if err != nil {
			t.Errorf("from scratch: %v", err)
		}
	})
	return fresh.Dump(lab.Rules())
}

// tryFlows sends packets of a few flows.
func (w *walker) tryFlows(table dataplane.Table) error {
	var errs []error
	for tried := 0; tried < flowsEach; {
		p := w.dice.draw(w.Lab, table)
		want, known := fateOf(table, p)
		// Whoever waits for what does not come waits long: of those a few.
		patient := want.verdict != dataplane.Drop || w.dice.chance(20)
		// Sockets of SCTP do not tell a refusal from silence.
		told := p.to.Protocol != dataplane.SCTP || w.sctp && want.verdict != dataplane.Refuse
		if !known || !patient || !told {
			continue
		}
		tried++
		w.flows++
		if err := probe(w.Lab, p, want); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p, err))
		}
	}
	return errors.Join(errs...)
}
