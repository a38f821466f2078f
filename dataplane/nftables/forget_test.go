package nftables

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/lab"
	"github.com/toyproxy/toyproxy/test/tables"
)

// oneMore is a delta that adds a Service to small.
func oneMore() dataplane.Delta {
	d := dataplane.Delta{Before: dataplane.Table{Node: tables.Node()}, After: dataplane.Table{Node: tables.Node()}}
	tables.ClusterIP(&d.After, "default/more", "10.96.0.77:80", dataplane.TCP, "10.244.0.11:8080")
	return d
}

// TestForgets proves that a follower does not go on when what it remembers is not
// what matters.
func TestForgets(t *testing.T) {
	nodePort := func(service, at string, k dataplane.Kind) dataplane.Table {
		out := dataplane.Table{Node: tables.Node()}
		tables.ClusterIP(&out, service, at, dataplane.TCP, "10.244.0.11:8080")
		out.Frontends[0].Kind = k
		return out
	}
	join := func(parts ...dataplane.Table) dataplane.Table {
		out := dataplane.Table{Node: tables.Node()}
		for _, t := range parts {
			out.Frontends, out.Sets = append(out.Frontends, t.Frontends...), append(out.Sets, t.Sets...)
		}
		out.Sort()
		return out
	}
	none := dataplane.Table{Node: tables.Node()}
	moved := oneMore()
	moved.After.Node.Addrs = moved.After.Node.Addrs[:1]
	longer := join(tables.Small())
	longer.Sets[0].Endpoints = append(longer.Sets[0].Endpoints[:1:1], dataplane.Endpoint{Addr: netip.MustParseAddrPort("10.244.9.9:1"), Weight: 1})
	port, own := nodePort("default/np", "0.0.0.0:30080", dataplane.NodePort), nodePort("default/own", "192.0.2.1:30080", dataplane.ExternalIP)
	for _, tc := range []struct {
		name  string
		table dataplane.Table
		d     dataplane.Delta
		want  string
	}{
		{"node", tables.Small(), moved, "facts about the node"},
		{"Services that are not there", tables.Small(), dataplane.Delta{Before: oneMore().After, After: none}, "not known"},
		{"more endpoints than there are", nodePort("default/x", "10.96.0.10:80", dataplane.ClusterIP), dataplane.Delta{Before: join(tables.Small()), After: none}, "not known"},
		{"a NodePort of another loses an address", join(port), dataplane.Delta{Before: none, After: own}, "the NodePort 30080"},
		{"a NodePort of another gains an address", join(port, own), dataplane.Delta{Before: own, After: none}, "the NodePort 30080"},
		{"a NodePort beside another's own", own, dataplane.Delta{Before: none, After: port}, ""},
		{"both", none, dataplane.Delta{Before: none, After: join(port, own)}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLab(t, lab.WithPods(0))
			l.Node.Do(func() {
				b := New(Config{})
				f := b.Follow().(*follower)
				defer f.Close()
				applied(t)(f.Plan(t.Context(), tc.table))
				p, err := f.PlanChange(t.Context(), tc.d)
				if tc.want != "" {
					checkForgotten(t, err, tc.want)
					_, err = f.PlanChange(t.Context(), oneMore())
					checkForgotten(t, err, "no plan was applied yet")
					return
				}
				applied(t)(p, err)
				checkChanges(t, tables.PlanOf(t, b, join(tc.table, tc.d.After)), nil)
			})
		})
	}
}

// TestManyServices proves that a change is whole that makes of some Services so
// many that chains are kept for sizes that none has, and back.
func TestManyServices(t *testing.T) {
	l := newLab(t, lab.WithPods(0))
	few, more := tables.Many(manyFrontends-1, 2), tables.Many(manyFrontends+1, 2)
	added := dataplane.Table{Node: more.Node}
	for _, fe := range more.Frontends {
		if _, ok := few.Frontend(fe.Key); !ok {
			s, _ := more.Set(fe.Routes[0].Set)
			added.Frontends, added.Sets = append(added.Frontends, fe), append(added.Sets, s)
		}
	}
	added.Sort()
	none := dataplane.Table{Node: more.Node}
	l.Node.Do(func() {
		b := New(Config{})
		f := b.Follow().(*follower)
		defer f.Close()
		applied(t)(f.Plan(t.Context(), few))
		applied(t)(f.PlanChange(t.Context(), dataplane.Delta{Before: none, After: added}))
		checkChanges(t, tables.PlanOf(t, b, more), nil)
		applied(t)(f.PlanChange(t.Context(), dataplane.Delta{Before: added, After: none}))
		checkChanges(t, tables.PlanOf(t, b, few), nil)
	})
}

// applied returns a function that applies a plan.
func applied(t *testing.T) func(dataplane.Plan, error) {
	return func(p dataplane.Plan, err error) {
		t.Helper()
		if err == nil {
			err = p.Apply(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func checkForgotten(t *testing.T, err error, why string) {
	t.Helper()
	if !errors.Is(err, dataplane.ErrForgotten) || !strings.Contains(err.Error(), why) {
		t.Fatalf("error %v, want one that says that all is forgotten: %s", err, why)
	}
}

// TestForgetsPlans proves that plans that were not applied, or not in their
// order, end the memory.
func TestForgetsPlans(t *testing.T) {
	l := newLab(t, lab.WithPods(0))
	l.Node.Do(func() {
		b := New(Config{})
		f := b.Follow().(*follower)
		defer f.Close()
		_, err := f.PlanChange(t.Context(), oneMore())
		checkForgotten(t, err, "no plan was applied yet")
		first, err := f.Plan(t.Context(), tables.Small())
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.PlanChange(t.Context(), oneMore())
		checkForgotten(t, err, "the last plan was not applied")
		applied(t)(f.Plan(t.Context(), tables.Small()))
		p, err := f.PlanChange(t.Context(), oneMore())
		if err != nil {
			t.Fatal(err)
		}
		applied(t)(first, nil) // overtaken twice
		checkForgotten(t, p.Apply(t.Context()), "overtaken")
		applied(t)(f.Plan(t.Context(), tables.Small()))
		p, err = f.PlanChange(t.Context(), oneMore())
		for range 2 { // twice is no harm
			applied(t)(p, err)
		}
		applied(t)(f.PlanChange(t.Context(), dataplane.Delta{}))
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		_, err = f.PlanChange(t.Context(), oneMore())
		checkForgotten(t, err, "no plan was applied yet")
		applied(t)(f.Plan(t.Context(), tables.Small()))
	})
}

// TestForgetsForeignChanges proves that a follower notices whatever another
// program does to rules, before it plans and before it writes.
func TestForgetsForeignChanges(t *testing.T) {
	l := newLab(t, lab.WithPods(0))
	foreign := func() { l.Node.Run("nft", "add table ip foreign; delete table ip foreign") }
	l.Node.Do(func() {
		b := New(Config{})
		f := b.Follow().(*follower)
		defer f.Close()
		applied(t)(f.Plan(t.Context(), tables.Small()))
		foreign()
		_, err := f.PlanChange(t.Context(), oneMore())
		checkForgotten(t, err, "another program")
		p, err := f.Plan(t.Context(), dataplane.Table{Node: tables.Node()})
		foreign()
		applied(t)(p, err)
		_, err = f.PlanChange(t.Context(), oneMore())
		checkForgotten(t, err, "no plan was applied yet, or the last one failed")
		applied(t)(f.Plan(t.Context(), tables.Small()))
		before := listed(t, l.Node)
		p, err = f.PlanChange(t.Context(), oneMore())
		if err != nil {
			t.Fatal(err)
		}
		foreign()
		checkForgotten(t, p.Apply(t.Context()), "another program")
		if diff := cmp.Diff(before, listed(t, l.Node)); diff != "" {
			t.Errorf("refused, and yet written:\n%s", diff)
		}
	})
}

// TestClientsAreNoChange proves that clients whose endpoint the kernel remembers,
// and forgets, are no change of the rules.
func TestClientsAreNoChange(t *testing.T) {
	l := newLab(t)
	l.Pod(2).Serve(dataplane.TCP, 8080)
	table := dataplane.Table{Node: tables.Node()}
	tables.Service(t, &table, "default/web", "10.96.0.10:80", dataplane.TCP, l.Pod(2))
	for i := range table.Sets {
		table.Sets[i].Affinity = time.Second
	}
	f := New(Config{}).Follow().(*follower)
	defer f.Close()
	l.Node.Do(func() { applied(t)(f.Plan(t.Context(), table)) })
	change := func() { l.Node.Do(func() { applied(t)(f.PlanChange(t.Context(), dataplane.Delta{})) }) }
	if out := lab.Probe(l.Pod(1), dataplane.TCP, netip.MustParseAddrPort("10.96.0.10:80"), lab.Options{}); out.Fate != lab.OK {
		t.Fatal(out)
	}
	change()
	remembered := func() bool { return strings.Contains(l.Node.Run("nft", "list table ip toyproxy"), "expires") }
	if !remembered() {
		t.Error("the client is not remembered")
	}
	for deadline := time.Now().Add(time.Minute); remembered(); {
		if time.Now().After(deadline) {
			t.Fatal("the client is not forgotten")
		}
		time.Sleep(50 * time.Millisecond)
	}
	change()
}
