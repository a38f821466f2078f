package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/balance"
	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/endpoints"
)

// Tracker keeps the rules of one node up to date with objects that change one by
// one. From the event of an object to the write to the kernel a change costs what
// the Services that it touches have, however many others there are:
//
//	events ─▶ endpoints.Index ─▶ balance.MakePart ─▶ balance.Ledger ─▶ dataplane.Follower
//	          Services touched   their parts         their Delta       the plan for it
//
// It takes a whole pass instead, which reads the kernel and compares it with the
// whole table, for the first events, when a fact about the node changes, whenever
// the follower cannot vouch for what the kernel holds, as after a plan that was
// not applied to its end, and when Audit asks for one. So a failure loses
// nothing: what was to be changed is in the table.
//
// It makes no Pods: give it their objects with the status that they have. It is
// not safe for concurrent use.
type Tracker struct {
	config   Node
	follower dataplane.Follower
	flows    FollowedFlows

	index *endpoints.Index
	// here is the Node object of this node; nil if there is none.
	here *corev1.Node
	// node is config with what here says, and ledger the table for it; nil before
	// the first events.
	node   Node
	ledger *balance.Ledger
	// behind: the table has changes that the follower was not told of.
	behind bool
	// unswept: flows may have become stale, and no pass has come so far as to
	// remove them.
	unswept bool
}

// NewTracker returns a tracker that knows no objects yet. Flows may be nil:
// then stale flows stay.
func NewTracker(node Node, follower dataplane.Follower, flows FollowedFlows) *Tracker {
	return &Tracker{config: node, follower: follower, flows: flows, index: endpoints.New(), behind: true}
}

// Update takes the events of a store, which may be none, and plans what they
// change. It writes nothing. When it fails, and when the pass is not applied to
// its end, the next one makes up for it.
func (t *Tracker) Update(ctx context.Context, events []cluster.Event) (*Pass, error) {
	touched := t.index.Apply(events)
	t.look(events)
	p := &Pass{tracker: t, Flows: dataplane.Plans(nil)}
	node := complete(t.config, t.nodes())
	if t.ledger == nil || !reflect.DeepEqual(node, t.node) {
		t.node, t.behind = node, true
		p.Touched = t.begin()
		return t.planWhole(ctx, p)
	}
	delta, touched := t.ledger.Update(t.parts(touched))
	p.Touched, p.delta = touched, delta
	if t.behind {
		return t.planWhole(ctx, p)
	}
	t.behind = true
	plan, err := t.follower.PlanChange(ctx, delta)
	if errors.Is(err, dataplane.ErrForgotten) {
		return t.planWhole(ctx, p)
	}
	if err != nil {
		return nil, fmt.Errorf("plan of the change of %d Services: %w", len(touched), err)
	}
	p.Plan, t.behind = plan, false
	p.sweep = t.sweepAfter(delta)
	return p, nil
}

// Audit plans a whole pass for the objects as they are: it finds what others have
// changed in the kernel.
func (t *Tracker) Audit(ctx context.Context) (*Pass, error) {
	t.behind = true
	return t.Update(ctx, nil)
}

// Close ends what the follower holds of the kernel; the next pass is a whole one.
func (t *Tracker) Close() error {
	t.behind = true
	if c, ok := t.follower.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// SetNode says that facts about the node are others, but for its name; the next
// Update takes them into account.
func (t *Tracker) SetNode(node Node) { t.config = node }

// Table returns the table as of the last Update.
func (t *Tracker) Table() dataplane.Table {
	if t.ledger == nil {
		return dataplane.Table{}
	}
	return t.ledger.Table()
}

// Problems returns what is wrong with any Service, the oldest first.
func (t *Tracker) Problems() []cluster.Problem {
	if t.ledger == nil {
		return nil
	}
	return t.ledger.Problems()
}

// ProblemsOf returns what is wrong with one Service.
func (t *Tracker) ProblemsOf(name types.NamespacedName) []cluster.Problem {
	if t.ledger == nil {
		return nil
	}
	return t.ledger.ProblemsOf(name)
}

// Slices returns the EndpointSlices of a Service. They are shared: read only.
func (t *Tracker) Slices(name types.NamespacedName) []*discoveryv1.EndpointSlice {
	return t.index.Resolve(name)
}

// look keeps the Node object of this node.
func (t *Tracker) look(events []cluster.Event) {
	for _, e := range events {
		if e.Object.Kind == cluster.Node && e.Object.Name == t.config.Name {
			t.here, _ = e.New.(*corev1.Node)
		}
	}
}

func (t *Tracker) nodes() []*corev1.Node {
	if t.here == nil {
		return nil
	}
	return []*corev1.Node{t.here}
}

// begin makes the parts of all Services for the node, and returns their names.
func (t *Tracker) begin() []types.NamespacedName {
	var names []types.NamespacedName
	for svc := range t.index.Services() {
		names = append(names, types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name})
	}
	slices.SortFunc(names, compareNames)
	parts, _ := t.parts(names)
	t.ledger = balance.NewLedger(t.node, parts)
	return names
}

// parts makes the parts of Services, and names those that are gone.
func (t *Tracker) parts(names []types.NamespacedName) (set []balance.Part, gone []types.NamespacedName) {
	for _, name := range names {
		svc := t.index.Service(name)
		if svc == nil {
			gone = append(gone, name)
			continue
		}
		set = append(set, balance.MakePart(t.node, svc, t.index.Resolve(name)))
	}
	return set, gone
}

// planWhole fills in a pass that reads the kernel.
func (t *Tracker) planWhole(ctx context.Context, p *Pass) (*Pass, error) {
	plan, err := t.follower.Plan(ctx, t.ledger.Table())
	if err != nil {
		return nil, fmt.Errorf("plan of the rules: %w", err)
	}
	p.Plan, p.Whole, p.sweep, t.behind, t.unswept = plan, true, sweepAll, false, true
	return p, nil
}

func compareNames(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
