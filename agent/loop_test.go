package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/pods"
)

// machine is a node of fakes: objects that a test changes, Pods that are made and
// end when a test says so, and a kernel that is a table and can be damaged.
type machine struct {
	in     Input
	broken error // of loading
	loads  int

	seen   map[string]*pods.Seen
	refuse map[string]error
	deeds  []string
	wrong  []dataplane.Change // of the Pods' networks

	mirror
	stamp int
	drift bool
}

func newMachine(objs cluster.Objects) *machine {
	return &machine{in: Input{Objects: objs}, seen: map[string]*pods.Seen{}, refuse: map[string]error{}}
}

func (m *machine) did(format string, args ...any) {
	m.deeds = append(m.deeds, fmt.Sprintf(format, args...))
}

// Load implements Source.
func (m *machine) Load(context.Context) (Input, error) {
	takeOver()
	m.loads++
	return m.in, m.broken
}

// Settle implements Source.
func (m *machine) Settle(_ context.Context, in Input) (Setting, error) {
	takeOver()
	return Setting{Input: in, Node: trackerNode(), Pods: m}, nil
}

// Survey implements PodRuntime.
func (m *machine) Survey(context.Context) ([]pods.Seen, error) {
	var out []pods.Seen
	for _, s := range m.seen {
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b pods.Seen) int { return compareNames(a.Name, b.Name) })
	return out, nil
}

// Change implements PodRuntime.
func (m *machine) Change(_ context.Context, name types.NamespacedName, change func(*corev1.Pod) bool) error {
	p := m.seen[name.Name].Pod.DeepCopy()
	if change(p) {
		m.seen[name.Name].Pod = p
		m.did("change %s", name.Name)
	}
	return nil
}

// Make implements PodRuntime: Pods are made, and ready at once.
func (m *machine) Make(_ context.Context, wanted []*corev1.Pod) map[types.NamespacedName]error {
	failed := map[types.NamespacedName]error{}
	for _, p := range wanted {
		name := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
		m.did("make %s", p.Name)
		if err := m.refuse[p.Name]; err != nil {
			failed[name] = err
			continue
		}
		p = p.DeepCopy()
		p.Status.PodIP = fmt.Sprintf("10.128.0.%d", 10+len(m.seen))
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		m.seen[p.Name] = &pods.Seen{Name: name, State: pods.Living, Pod: p}
	}
	return failed
}

// End implements PodRuntime.
func (m *machine) End(_ context.Context, victims []pods.Seen) error {
	for _, s := range victims {
		m.did("end %s with %d endpoints", s.Name.Name, endpointCount(m.kernel))
	}
	return nil
}

// Bury implements PodRuntime.
func (m *machine) Bury(_ context.Context, dead []pods.Seen) error {
	for _, s := range dead {
		m.did("bury %s", s.Name.Name)
		delete(m.seen, s.Name.Name)
	}
	return nil
}

// Repair implements PodRuntime.
func (m *machine) Repair(context.Context, []*corev1.Pod) (dataplane.Plan, error) {
	return &repair{m, m.wrong}, nil
}

type repair struct {
	m       *machine
	changes []dataplane.Change
}

func (r *repair) Changes() []dataplane.Change { return r.changes }

func (r *repair) Apply(context.Context) error {
	r.m.wrong = nil
	return nil
}

// Plan makes the fake kernel a Backend, too: a whole plan has changes only where it
// differs from the table.
func (m *machine) Plan(ctx context.Context, t dataplane.Table) (dataplane.Plan, error) {
	p, err := m.mirror.Plan(ctx, t)
	if err == nil && !m.drift && sameTables(m.kernel, t) {
		m.sure = true
		return dataplane.Plans(nil), nil
	}
	return stamped{p, m}, err
}

// PlanChange implements dataplane.Follower.
func (m *machine) PlanChange(ctx context.Context, d dataplane.Delta) (dataplane.Plan, error) {
	p, err := m.mirror.PlanChange(ctx, d)
	if err != nil || d.Empty() {
		return p, err
	}
	return stamped{p, m}, nil
}

func sameTables(a, b dataplane.Table) bool {
	return len(a.Frontends) == len(b.Frontends) && endpointCount(a) == endpointCount(b)
}

func endpointCount(t dataplane.Table) int {
	n := 0
	for _, s := range t.Sets {
		n += len(s.Endpoints)
	}
	return n
}

// stamped changes the fingerprint when it is applied.
type stamped struct {
	dataplane.Plan
	m *machine
}

func (s stamped) Apply(ctx context.Context) error {
	s.m.stamp++
	err := s.Plan.Apply(ctx)
	if err == nil {
		s.m.drift = false
	}
	return err
}

// Follow implements dataplane.Incremental.
func (m *machine) Follow() dataplane.Follower { return m }

// Render implements dataplane.Backend.
func (m *machine) Render(dataplane.Table) (string, error) { return "", nil }

// Remove implements dataplane.Backend.
func (m *machine) Remove(context.Context) (dataplane.Plan, error) { return dataplane.Plans(nil), nil }

// Fingerprint implements dataplane.Fingerprinter.
func (m *machine) Fingerprint(context.Context) (string, error) { return fmt.Sprint(m.stamp), nil }

// damage is what somebody else does to the kernel.
func (m *machine) damage() {
	m.stamp++
	m.drift = true
}

// reports collects what a loop tells.
type reports struct{ all []Report }

// Observe implements Observer.
func (r *reports) Observe(one Report) {
	takeOver()
	r.all = append(r.all, one)
}

// last is the latest report.
func (r *reports) last() Report { return r.all[len(r.all)-1] }

// running runs a loop over a machine in a time of its own, and calls a test with it.
func running(t *testing.T, m *machine, cfg LoopConfig, test func(*Loop, *reports)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &reports{}
		cfg.Source, cfg.Backend, cfg.BackendName, cfg.Observers = m, m, "fake", []Observer{r}
		cfg.MinSyncPeriod, cfg.SyncPeriod = DefaultMinSyncPeriod, DefaultSyncPeriod
		l := NewLoop(cfg)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- l.Run(ctx) }()
		synctest.Wait()
		test(l, r)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// handOver passes what a test and its loop share from one to the other: time that
// goes by does not, in the eyes of the race detector.
var handOver sync.Mutex

func takeOver() {
	handOver.Lock()
	defer handOver.Unlock()
}

// pass lets time go by, and lets the loop do what it will.
func pass(d time.Duration) {
	takeOver()
	time.Sleep(d)
	synctest.Wait()
}

// wants is a Service and n Pods of it that are to be made.
func wants(n int) cluster.Objects {
	objs := cluster.Objects{Services: input().Objects.Services[:1]}
	for i := range n {
		p := pod(fmt.Sprintf("web-%d", i))
		p.Labels, p.Status = objs.Services[0].Spec.Selector, corev1.PodStatus{}
		objs.Pods = append(objs.Pods, p)
	}
	return objs
}

// Pods are made, and come into the rules with the pass that finds them ready; one
// that is not wanted leaves the rules before it is told to end, and is buried once
// it has ended.
func TestLoopMakesAndEndsPods(t *testing.T) {
	m := newMachine(wants(2))
	running(t, m, LoopConfig{}, func(l *Loop, r *reports) {
		if first := r.all[0]; first.PodsMade != 2 || !first.Whole || first.Err != nil || endpointCount(m.kernel) != 0 {
			t.Errorf("first pass: %+v", first)
		}
		l.Wake(PodsChanged)
		pass(time.Second)
		if endpointCount(m.kernel) != 2 || r.last().Oldest.IsZero() {
			t.Errorf("%d endpoints once the Pods are ready; %+v", endpointCount(m.kernel), r.last())
		}
		m.deeds = nil
		m.in.Objects = wants(1)
		l.Wake(ObjectsChanged)
		pass(2 * time.Second)
		m.seen["web-1"].State = pods.Dead
		l.Wake(PodsChanged)
		pass(2 * time.Second)
		want := []string{"change web-1", "end web-1 with 1 endpoints", "bury web-1"}
		if !slices.Equal(m.deeds, want) {
			t.Errorf("deeds %q, want %q", m.deeds, want)
		}
	})
}

// A pass that is asked for again and again takes place once a period, and the first
// one at once.
func TestLoopCoalesces(t *testing.T) {
	m := newMachine(wants(0))
	running(t, m, LoopConfig{}, func(l *Loop, r *reports) {
		pass(2 * time.Second)
		before, loads := len(r.all), m.loads
		l.Wake(ObjectsChanged)
		synctest.Wait()
		if len(r.all) != before+1 {
			t.Errorf("a change after a quiet time waits")
		}
		for range 50 {
			l.Wake(ObjectsChanged)
			pass(10 * time.Millisecond)
		}
		pass(600 * time.Millisecond)
		if n := m.loads - loads; n != 2 {
			t.Errorf("50 changes in half a second: loaded %d times, want 2", n)
		}
	})
}

// As many Pods as one pass may make are made, the next ones without waiting.
func TestLoopBoundsActions(t *testing.T) {
	m := newMachine(wants(10))
	running(t, m, LoopConfig{MaxActions: 4}, func(_ *Loop, r *reports) {
		var made []int
		for _, one := range r.all {
			made = append(made, one.PodsMade)
		}
		if !slices.Equal(made, []int{4, 4, 2}) {
			t.Errorf("made %v", made)
		}
	})
}

// A Pod that cannot be made is a problem, stops no other, and is tried again less
// and less often.
func TestLoopTriesAgain(t *testing.T) {
	m := newMachine(wants(2))
	m.refuse["web-0"] = errors.New("no address left")
	running(t, m, LoopConfig{}, func(_ *Loop, r *reports) {
		pass(40 * time.Second)
		tries := 0
		for _, d := range m.deeds {
			if d == "make web-0" {
				tries++
			}
		}
		if m.seen["web-1"] == nil || tries < 4 || tries > 8 {
			t.Errorf("%d tries in 40 s; deeds %q", tries, m.deeds)
		}
		told := slices.ContainsFunc(r.all[0].Problems, func(p cluster.Problem) bool {
			return p.Object.Name == "web-0" && strings.Contains(p.Message, "no address left")
		})
		if !told {
			t.Errorf("problems %v", r.all[0].Problems)
		}
		delete(m.refuse, "web-0")
		pass(lastRetry + time.Second)
		if m.seen["web-0"] == nil {
			t.Error("not made after it can be")
		}
	})
}

// What others change in the kernel is found within a sync period, and told apart
// from what objects changed; a notice of the kernel makes it sooner. When nothing
// has changed the kernel is not read.
func TestLoopRepairsDrift(t *testing.T) {
	m := newMachine(wants(1))
	running(t, m, LoopConfig{}, func(l *Loop, r *reports) {
		l.Wake(PodsChanged)
		pass(2 * DefaultSyncPeriod)
		wholes := m.wholes
		pass(5 * DefaultSyncPeriod)
		if m.wholes != wholes {
			t.Errorf("%d whole looks at a kernel that nobody has changed", m.wholes-wholes)
		}
		m.damage()
		pass(DefaultSyncPeriod + time.Second)
		found := slices.IndexFunc(r.all, func(r Report) bool { return len(r.Drift) > 0 })
		if found < 0 || m.drift || len(r.all[found].Changes) > 0 {
			t.Fatalf("drift was not found: %+v", r.last())
		}
		m.damage()
		l.Wake(KernelChanged)
		pass(time.Second)
		if m.drift {
			t.Error("a notice of the kernel changes nothing")
		}
		m.damage()
		m.in.Objects = wants(2)
		m.in.Objects.Services = slices.Clone(m.in.Objects.Services)
		m.in.Objects.Services[0] = m.in.Objects.Services[0].DeepCopy()
		m.in.Objects.Services[0].Spec.Ports[0].Port++
		l.Wake(ObjectsChanged)
		pass(time.Second)
		if one := r.last(); len(one.Drift) == 0 || len(one.Changes) == 0 {
			t.Errorf("drift and a change at once: %d and %d changes", len(one.Drift), len(one.Changes))
		}
		if pass(2 * wholeEvery); m.wholes == wholes {
			t.Error("all of the kernel is never compared again")
		}
	})
}

// The Pods' networks are looked at with every audit; what the first look finds is
// no drift.
func TestLoopRepairsNetworks(t *testing.T) {
	m := newMachine(wants(1))
	m.wrong = []dataplane.Change{{Op: dataplane.Add, Object: "link toybr0"}}
	running(t, m, LoopConfig{}, func(_ *Loop, r *reports) {
		if one := r.all[0]; len(one.Drift) > 0 || one.Changes[0].Object != "link toybr0" {
			t.Errorf("first pass: drift %v, changes %v", one.Drift, one.Changes)
		}
		m.wrong = []dataplane.Change{{Op: dataplane.Add, Object: "address of toybr0"}}
		pass(DefaultSyncPeriod)
		if one := r.last(); len(one.Drift) != 1 || m.wrong != nil {
			t.Errorf("drift %v", one.Drift)
		}
	})
}

// Whatever fails is tried again, and loses nothing; nobody is told to end before the
// rules are without him.
func TestLoopLosesNothing(t *testing.T) {
	m := newMachine(wants(2))
	running(t, m, LoopConfig{}, func(l *Loop, r *reports) {
		l.Wake(PodsChanged)
		pass(2 * time.Second)
		m.deeds = nil
		m.in.Objects, m.mirror.refuse.change = wants(1), errors.New("refused")
		m.broken = nil
		l.Wake(ObjectsChanged)
		synctest.Wait()
		if r.last().Err == nil || slices.ContainsFunc(m.deeds, func(d string) bool { return strings.HasPrefix(d, "end") }) {
			t.Errorf("error %v, deeds %q", r.last().Err, m.deeds)
		}
		pass(5 * time.Second)
		if endpointCount(m.kernel) != 1 || !slices.Contains(m.deeds, "end web-1 with 1 endpoints") || r.last().Err != nil {
			t.Errorf("%d endpoints, deeds %q, error %v", endpointCount(m.kernel), m.deeds, r.last().Err)
		}
		m.broken = errors.New("no such directory")
		l.Wake(ObjectsChanged)
		pass(2 * time.Second)
		if r.last().Err == nil || endpointCount(m.kernel) != 1 {
			t.Error("manifests that cannot be read change the kernel, or are not told")
		}
	})
}

// Another configuration is worked with from the next pass on.
func TestLoopReloads(t *testing.T) {
	m, n := newMachine(wants(1)), newMachine(wants(3))
	running(t, m, LoopConfig{}, func(l *Loop, r *reports) {
		cfg := l.cfg
		cfg.Source, cfg.Backend, cfg.BackendName = n, n, "other"
		l.Reload(cfg)
		pass(2 * time.Second)
		if one := r.last(); len(n.seen) != 3 || one.Backend != "other" || !slices.ContainsFunc(r.all, func(r Report) bool { return slices.Contains(r.Causes, Reloaded) }) {
			t.Errorf("%d Pods; %+v", len(n.seen), one)
		}
	})
}

// The loop shows that it is alive while it waits, and not while a pass hangs.
func TestLoopShowsThatItIsAlive(t *testing.T) {
	m, beats := newMachine(wants(0)), 0
	cfg := LoopConfig{Alive: func() { takeOver(); beats++ }, AliveEvery: time.Second}
	running(t, m, cfg, func(*Loop, *reports) {
		if pass(20 * time.Second); beats < 20 {
			t.Errorf("%d signs of life in 20 s", beats)
		}
	})
}

// A pass that is under way when the loop is told to end comes to its end; one that
// hangs is broken off.
func TestLoopEndsItsPass(t *testing.T) {
	for _, tc := range []struct {
		takes time.Duration
		whole bool
	}{{time.Second, true}, {time.Hour, false}} {
		synctest.Test(t, func(t *testing.T) {
			m := newMachine(wants(1))
			r := &reports{}
			l := NewLoop(LoopConfig{Source: slow{m, tc.takes}, Backend: m, Observers: []Observer{r}, SyncPeriod: DefaultSyncPeriod})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- l.Run(ctx) }()
			synctest.Wait()
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			if whole := r.last().Err == nil && r.last().PodsMade == 1; whole != tc.whole {
				t.Errorf("a pass of %s: %+v", tc.takes, r.last())
			}
		})
	}
}

// slow is a machine whose objects take time to load.
type slow struct {
	*machine
	takes time.Duration
}

// Load implements Source.
func (s slow) Load(ctx context.Context) (Input, error) {
	select {
	case <-ctx.Done():
		return Input{}, ctx.Err()
	case <-time.After(s.takes):
		return s.machine.Load(ctx)
	}
}

// When none of many Pods can be made the loop does not run in circles.
func TestLoopRestsWhenNothingCanBeMade(t *testing.T) {
	m := newMachine(wants(100))
	for i := range 100 {
		m.refuse[fmt.Sprintf("web-%d", i)] = errors.New("no bridge")
	}
	running(t, m, LoopConfig{MaxActions: 4}, func(_ *Loop, r *reports) {
		if pass(10 * time.Second); len(r.all) > 25 {
			t.Errorf("%d passes in 10 s", len(r.all))
		}
	})
}
