package balance

import (
	"cmp"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/dataplane"
)

// Ledger keeps the parts of all Services of a node, and which Service has which
// of the frontends that several claim. It is a table that is kept up to date: a
// change costs what the Services that it touches have, however many others there
// are, and is told as a dataplane.Delta.
//
// A frontend that two Services claim, through whatever doors, belongs to the
// older Service (creationTimestamp, then namespace and name), but that a ClusterIP
// goes before all other doors. A node port is a claim to that port of all the
// node's addresses, so that no younger Service is given one of them as an external
// or load balancer's address. The claim of the other is a problem, changes nothing
// else of it, and is served as soon as the older one does not claim it any more.
//
// The parts have to be made for the ledger's node; when a fact about the node
// changes, make them anew and begin a new ledger. It is not safe for concurrent
// use.
type Ledger struct {
	node     dataplane.Node
	accounts map[types.NamespacedName]*account
	// claims lists who claims a frontend, each account once, the one that has it
	// first.
	claims map[dataplane.Key][]claim
}

// account is what a ledger has of one Service: its part, and of that what it was
// given.
type account struct {
	part  Part
	given share
}

// share is what a Service has in the table.
type share struct {
	frontends []dataplane.Frontend
	sets      []dataplane.EndpointSet
}

// NewLedger returns a ledger of parts in any order, one a Service. It keeps them
// and changes none.
func NewLedger(node Node, parts []Part) *Ledger {
	l := &Ledger{
		node:     node.table(),
		accounts: make(map[types.NamespacedName]*account, len(parts)),
		claims:   make(map[dataplane.Key][]claim, len(parts)),
	}
	for _, p := range parts {
		a := &account{part: p}
		if earlier := l.accounts[p.name()]; earlier != nil {
			l.withdraw(earlier)
		}
		l.accounts[p.name()] = a
		l.claim(a)
	}
	for _, a := range l.accounts {
		a.given = l.settle(a)
	}
	return l
}

// Update replaces the parts of Services, or adds them, and takes away those of
// Services that are gone; one that is in both is replaced. It returns the change
// of the table, which is empty when the Services have what they had, and the
// names, sorted, of all Services whose frontends, sets or problems may be others
// now: with those that were given a frontend which another one has lost.
func (l *Ledger) Update(set []Part, gone []types.NamespacedName) (dataplane.Delta, []types.NamespacedName) {
	u := update{Ledger: l, had: map[dataplane.Key]*account{}, touched: map[*account]bool{}}
	for _, name := range gone {
		u.remove(name)
	}
	for _, p := range set {
		u.set(p)
	}
	return u.settle()
}

// Table returns the table of all parts.
func (l *Ledger) Table() dataplane.Table {
	t := dataplane.Table{Node: l.node}
	for _, a := range l.accounts {
		a.given.addTo(&t)
	}
	t.Sort()
	return t
}

// Problems returns what is wrong with any Service, the oldest first.
func (l *Ledger) Problems() []cluster.Problem {
	var out []cluster.Problem
	for _, a := range slices.SortedFunc(maps.Values(l.accounts), func(a, b *account) int { return older(a.part.Service, b.part.Service) }) {
		out = append(out, l.problems(a)...)
	}
	return out
}

// ProblemsOf returns what is wrong with one Service; nothing if the ledger does
// not have it.
func (l *Ledger) ProblemsOf(name types.NamespacedName) []cluster.Problem {
	a := l.accounts[name]
	if a == nil {
		return nil
	}
	return l.problems(a)
}

// settle returns what an account is to be given: the frontends that it has, and
// those of its sets that they use.
func (l *Ledger) settle(a *account) share {
	kept := make([]dataplane.Frontend, 0, len(a.part.Frontends))
	for i, fe := range a.part.Frontends {
		if l.owner(fe.Key) == (claim{a, i}) {
			kept = append(kept, fe)
		}
	}
	if len(kept) == len(a.part.Frontends) {
		return share{a.part.Frontends, a.part.Sets}
	}
	used := usedSets(kept)
	return share{kept, slices.DeleteFunc(slices.Clone(a.part.Sets), func(s dataplane.EndpointSet) bool { return !used[s.Name] })}
}

func (s share) addTo(t *dataplane.Table) {
	t.Frontends = append(t.Frontends, s.frontends...)
	t.Sets = append(t.Sets, s.sets...)
}

func (s share) equal(o share) bool {
	return len(s.frontends) == len(o.frontends) && len(s.sets) == len(o.sets) &&
		(len(s.frontends) == 0 || reflect.DeepEqual(s.frontends, o.frontends)) && (len(s.sets) == 0 || reflect.DeepEqual(s.sets, o.sets))
}

// update is a change of a ledger under way.
type update struct {
	*Ledger
	// had says who had the frontends that the change is about; nil for nobody.
	had map[dataplane.Key]*account
	// touched are the accounts that may be given something else now.
	touched map[*account]bool
}

func (u *update) set(p Part) {
	name := p.name()
	a := u.accounts[name]
	if a == nil {
		a = &account{}
		u.accounts[name] = a
	}
	u.touch(a)
	u.withdraw(a)
	a.part = p
	u.touch(a)
	u.claim(a)
}

func (u *update) remove(name types.NamespacedName) {
	if a := u.accounts[name]; a != nil {
		u.touch(a)
		u.withdraw(a)
		a.part = Part{Service: a.part.Service}
		delete(u.accounts, name)
	}
}

// touch notes an account whose claims are about to change, and who has what it
// claims.
func (u *update) touch(a *account) {
	u.touched[a] = true
	for _, fe := range a.part.Frontends {
		u.note(fe.Key)
		for _, key := range u.behind(fe.Key) {
			u.note(key)
		}
	}
}

// note keeps who had a frontend before the change.
func (u *update) note(key dataplane.Key) {
	if _, known := u.had[key]; !known {
		u.had[key] = u.owner(key).of
	}
}

// settle gives the touched accounts what is theirs now.
func (u *update) settle() (dataplane.Delta, []types.NamespacedName) {
	told := map[types.NamespacedName]bool{}
	for key, had := range u.had {
		if other := u.shadows(key); other != nil {
			told[other.part.name()] = true
		}
		if has := u.owner(key).of; has != had {
			u.passOn(had, has)
			for _, k := range append(u.behind(key), key) {
				for _, c := range u.claims[k] { // those who have it not are told who does
					told[c.of.part.name()] = true
				}
			}
		}
	}
	d := dataplane.Delta{Before: dataplane.Table{Node: u.node}, After: dataplane.Table{Node: u.node}}
	for a := range u.touched {
		told[a.part.name()] = true
		before := a.given
		a.given = u.Ledger.settle(a)
		if !a.given.equal(before) {
			before.addTo(&d.Before)
			a.given.addTo(&d.After)
		}
	}
	d.Before.Sort()
	d.After.Sort()
	return d, slices.SortedFunc(maps.Keys(told), compareNames)
}

// passOn touches the accounts between which a frontend went; nil is nobody.
func (u *update) passOn(had, has *account) {
	for _, a := range []*account{had, has} {
		if a != nil {
			u.touched[a] = true
		}
	}
}

func (p Part) name() types.NamespacedName {
	return types.NamespacedName{Namespace: p.Service.Namespace, Name: p.Service.Name}
}

func compareNames(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
