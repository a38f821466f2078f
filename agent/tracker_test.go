package agent

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/dataplane"
)

// mirror is a follower whose kernel is a table. As the contract says, it does not
// know the kernel any more after a plan that was not applied to its end.
type mirror struct {
	kernel dataplane.Table
	sure   bool
	// refuse makes the next plans fail, each once: of a whole pass, of a change,
	// and their Apply.
	refuse struct{ whole, change, apply error }
	// wholes and changes count the plans; size is the number of frontends and sets
	// that the last one was told.
	wholes, changes, size int
}

func once(err *error) error {
	failed := *err
	*err = nil
	return failed
}

func (m *mirror) Plan(_ context.Context, t dataplane.Table) (dataplane.Plan, error) {
	m.wholes, m.sure, m.size = m.wholes+1, false, len(t.Frontends)+len(t.Sets)
	return m.towards(t), once(&m.refuse.whole)
}

func (m *mirror) PlanChange(_ context.Context, d dataplane.Delta) (dataplane.Plan, error) {
	if !m.sure {
		return nil, fmt.Errorf("mirror: %w", dataplane.ErrForgotten)
	}
	m.changes, m.size = m.changes+1, len(d.Before.Frontends)+len(d.Before.Sets)+len(d.After.Frontends)+len(d.After.Sets)
	if d.Empty() {
		return dataplane.Plans(nil), nil
	}
	m.sure = false
	next := dataplane.Table{Node: m.kernel.Node}
	for _, fe := range m.kernel.Frontends {
		if _, gone := d.Before.Frontend(fe.Key); !gone {
			next.Frontends = append(next.Frontends, fe)
		}
	}
	for _, s := range m.kernel.Sets {
		if _, gone := d.Before.Set(s.Name); !gone {
			next.Sets = append(next.Sets, s)
		}
	}
	next.Frontends, next.Sets = append(next.Frontends, d.After.Frontends...), append(next.Sets, d.After.Sets...)
	next.Sort()
	return m.towards(next), once(&m.refuse.change)
}

func (m *mirror) towards(t dataplane.Table) dataplane.Plan { return mirrorPlan{m, t} }

type mirrorPlan struct {
	mirror *mirror
	table  dataplane.Table
}

func (p mirrorPlan) Changes() []dataplane.Change {
	return []dataplane.Change{{Op: dataplane.Update, Object: "table"}}
}

func (p mirrorPlan) Apply(context.Context) error {
	if err := once(&p.mirror.refuse.apply); err != nil {
		return err
	}
	p.mirror.kernel, p.mirror.sure = p.table, true
	return nil
}

// village is n Services of ten Pods each, and two nodes, in a store.
type village struct {
	store   *cluster.Store
	objects cluster.Objects
}

func newVillage(n int) *village {
	v := &village{store: cluster.NewStore()}
	for i := range n {
		svc := input().Objects.Services[0]
		svc.Name, svc.Spec.ClusterIP = fmt.Sprintf("svc-%05d", i), fmt.Sprintf("10.96.%d.%d", i>>8, i&255)
		svc.Spec.ClusterIPs, svc.Spec.Selector = []string{svc.Spec.ClusterIP}, map[string]string{"app": svc.Name}
		v.objects.Services = append(v.objects.Services, svc)
		for j := range 10 {
			p := pod(fmt.Sprintf("%s-%d", svc.Name, j))
			p.Labels, p.Spec.NodeName = svc.Spec.Selector, fmt.Sprintf("n%d", 1+j%2)
			p.Status.PodIP = fmt.Sprintf("10.%d.%d.%d", 128+(i*10+j)>>16, (i*10+j)>>8&255, (i*10+j)&255)
			v.objects.Pods = append(v.objects.Pods, p)
		}
	}
	for _, name := range []string{"n1", "n2"} {
		v.objects.Nodes = append(v.objects.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: "z"}}})
	}
	return v
}

func (v *village) events() []cluster.Event { return v.store.Replace(v.objects) }

// ready makes a copy of a Pod that is ready or not, and its event.
func (v *village) ready(i int, status corev1.ConditionStatus) []cluster.Event {
	next := v.objects.Pods[i].DeepCopy()
	next.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
	event := cluster.Event{Object: cluster.MakeRef(cluster.Pod, next.Namespace, next.Name), Old: v.objects.Pods[i], New: next}
	v.objects.Pods[i] = next
	return []cluster.Event{event}
}

// table is what a single pass over all objects makes.
func (v *village) table() dataplane.Table {
	return Resolve(Input{Objects: v.objects}, trackerNode(), v.objects.Pods).Table
}

func trackerNode() Node {
	return Node{Name: "n1", PodRanges: []netip.Prefix{netip.MustParsePrefix("10.128.0.0/9")}}
}

// follow takes events through a tracker to the kernel.
func follow(t testing.TB, tr *Tracker, events []cluster.Event) *Pass {
	t.Helper()
	p, err := tr.Update(context.Background(), events)
	if err == nil {
		err = p.Apply(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// One Pod among 500 Services: one Service is built, told to the ledger and to
// the kernel, and nothing else is looked at.
func TestTrackerTouchesWhatChanged(t *testing.T) {
	v, m := newVillage(500), &mirror{}
	tr := NewTracker(trackerNode(), m, nil)
	if p := follow(t, tr, v.events()); !p.Whole || len(p.Touched) != 500 {
		t.Errorf("first pass: whole %t, %d Services", p.Whole, len(p.Touched))
	}
	before := tr.index.Stats()
	p := follow(t, tr, v.ready(421, corev1.ConditionFalse))
	after := tr.index.Stats()
	if p.Whole || len(p.Touched) != 1 || after.Built-before.Built != 1 || after.Visited-before.Visited != 1 || m.size != 4 {
		t.Errorf("one Pod: whole %t, touched %v, %d Services built, %d looked at, %d frontends and sets told",
			p.Whole, p.Touched, after.Built-before.Built, after.Visited-before.Visited, m.size)
	}
	if want := v.table(); !reflect.DeepEqual(m.kernel, want) {
		t.Error("the kernel is not what a single pass over all objects makes")
	}
	if p := follow(t, tr, v.ready(421, corev1.ConditionFalse)); p.Whole || len(p.Touched) > 0 || m.size > 0 {
		t.Errorf("the same again: touched %v, %d told", p.Touched, m.size)
	}
	if p, err := tr.Audit(t.Context()); err != nil || !p.Whole {
		t.Errorf("audit: %v, %v", p, err)
	}
}

// A change of a Node's zone: of this one, it takes a whole pass; of another,
// what the Services with hints cost.
func TestTrackerFollowsNodes(t *testing.T) {
	v, m := newVillage(5), &mirror{}
	v.objects.Services[3].Spec.TrafficDistribution = new(corev1.ServiceTrafficDistributionPreferSameZone)
	tr := NewTracker(trackerNode(), m, nil)
	follow(t, tr, v.events())
	for _, tc := range []struct {
		node    int
		zone    string
		whole   bool
		touched int
	}{{1, "y", false, 1}, {0, "y", true, 5}, {0, "", true, 5}} {
		next := v.objects.Nodes[tc.node].DeepCopy()
		next.Labels[corev1.LabelTopologyZone] = tc.zone
		v.objects.Nodes[tc.node] = next
		if p := follow(t, tr, v.events()); p.Whole != tc.whole || len(p.Touched) != tc.touched {
			t.Errorf("%s to zone %q: whole %t, touched %v", next.Name, tc.zone, p.Whole, p.Touched)
		}
		if !reflect.DeepEqual(m.kernel, v.table()) {
			t.Errorf("%s to zone %q: the kernel is not what a single pass makes", next.Name, tc.zone)
		}
	}
	node := trackerNode()
	node.MasqueradeAll = true
	tr.SetNode(node)
	if p := follow(t, tr, nil); !p.Whole || !m.kernel.Frontends[0].Routes[dataplane.FromPod].Masquerade {
		t.Error("a fact about the node was not taken into account")
	}
}

// Whatever fails, the next pass makes up for it, and is a whole one; with those
// after it the kernel is followed again.
func TestTrackerLosesNothing(t *testing.T) {
	broken := errors.New("refused")
	for _, tc := range []struct {
		name string
		fail func(*mirror)
		skip bool // the plan is not applied
	}{
		{"plan of a change", func(m *mirror) { m.refuse.change = broken }, false},
		{"whole plan", func(m *mirror) { m.sure, m.refuse.whole = false, broken }, false},
		{"apply", func(m *mirror) { m.refuse.apply = broken }, false},
		{"never applied", func(*mirror) {}, true},
		{"somebody asked for a whole pass", func(m *mirror) { m.sure = false }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v, m := newVillage(3), &mirror{}
			tr := NewTracker(trackerNode(), m, nil)
			follow(t, tr, v.events())
			tc.fail(m)
			p, err := tr.Update(t.Context(), v.ready(1, corev1.ConditionFalse))
			if err == nil && !tc.skip {
				err = p.Apply(t.Context())
			}
			if !tc.skip && !errors.Is(err, broken) {
				t.Fatalf("error %v, want %v", err, broken)
			}
			if p := follow(t, tr, v.ready(12, corev1.ConditionFalse)); !p.Whole {
				t.Error("the pass after it is not a whole one")
			}
			if !reflect.DeepEqual(m.kernel, v.table()) {
				t.Error("a change was lost")
			}
			if p := follow(t, tr, v.ready(12, corev1.ConditionTrue)); p.Whole || !reflect.DeepEqual(m.kernel, v.table()) {
				t.Errorf("afterwards: whole %t", p.Whole)
			}
		})
	}
}

// Stale flows are looked for once the rules of a change stand, not without any,
// and again until that has succeeded.
func TestTrackerSweepsFlows(t *testing.T) {
	var d diary
	v, m := newVillage(3), &mirror{}
	tr := NewTracker(trackerNode(), m, followedFlows{flows{diary: &d}, nil})
	swept := []string{"expect flows", "read flows", "remove flows"}
	changed := []string{"expect flows", "read flows of default/svc-00000", "remove flows"}
	check := func(what string, want []string) {
		t.Helper()
		if !slices.Equal(d.lines, want) {
			t.Errorf("%s: %v, want %v", what, d.lines, want)
		}
		d.lines = nil
	}
	follow(t, tr, v.events())
	check("first pass", swept)
	follow(t, tr, v.ready(1, corev1.ConditionFalse))
	check("a change", changed)
	follow(t, tr, v.ready(1, corev1.ConditionFalse))
	check("no change", nil)
	m.refuse.apply = errors.New("refused")
	if p, err := tr.Update(t.Context(), v.ready(1, corev1.ConditionTrue)); err != nil || p.Apply(t.Context()) == nil {
		t.Fatal(err)
	}
	check("rules refused", swept[:1])
	follow(t, tr, nil)
	check("the pass after it", swept)
	tr.flows = followedFlows{flows{diary: &d}, errors.New("no answer")}
	if p, err := tr.Update(t.Context(), v.ready(2, corev1.ConditionFalse)); err != nil || p.Apply(t.Context()) == nil {
		t.Fatal(err)
	}
	check("unreadable", changed[:2])
	tr.flows = followedFlows{flows{diary: &d}, fmt.Errorf("journal: %w", dataplane.ErrForgotten)}
	follow(t, tr, v.ready(2, corev1.ConditionFalse))
	check("the pass after it, without a change", swept)
	follow(t, tr, v.ready(2, corev1.ConditionTrue))
	check("a whole look is asked for", slices.Concat(changed[:2], swept[1:]))
}

// followedFlows notes which Service a change is of.
type followedFlows struct {
	flows
	err error
}

func (f followedFlows) PlanChange(_ context.Context, d dataplane.Delta, now dataplane.View) (dataplane.Plan, error) {
	fe := d.After.Frontends[0]
	f.diary.note("read flows of " + fe.Service)
	if again, ok := now.Frontend(fe.Key); !ok || again.Service != fe.Service {
		f.diary.note("the view is not that of the change")
	}
	return deed{f.diary, "remove flows", nil}, f.err
}

// BenchmarkTracker is one changed Pod, from its event to the plan of the
// follower. It must not depend on how many Services there are.
func BenchmarkTracker(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("services=%d", n), func(b *testing.B) {
			v, quiet := newVillage(n), &quietFollower{}
			tr := NewTracker(trackerNode(), quiet, nil)
			follow(b, tr, v.events())
			states := [][]cluster.Event{v.ready(421, corev1.ConditionFalse), v.ready(421, corev1.ConditionTrue)}
			before, i := tr.index.Stats(), 0
			for b.Loop() {
				if p := follow(b, tr, states[i%2]); p.Whole || len(p.Touched) != 1 {
					b.Fatalf("whole %t, touched %v", p.Whole, p.Touched)
				}
				i++
			}
			b.ReportMetric(float64(tr.index.Stats().Built-before.Built)/float64(i), "services/op")
			b.ReportMetric(float64(quiet.told)/float64(i), "frontends+sets/op")
		})
	}
}

// quietFollower counts what it is told.
type quietFollower struct{ told int }

func (q *quietFollower) Plan(context.Context, dataplane.Table) (dataplane.Plan, error) {
	return dataplane.Plans(nil), nil
}

func (q *quietFollower) PlanChange(_ context.Context, d dataplane.Delta) (dataplane.Plan, error) {
	q.told += len(d.After.Frontends) + len(d.After.Sets)
	return dataplane.Plans(nil), nil
}
