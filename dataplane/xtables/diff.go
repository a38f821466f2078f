package xtables

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"

	"github.com/toyproxy/toyproxy/dataplane"
)

// Delta is the difference between a desired and an actual state of one family:
// a value that can be printed, and turned into the input of iptables-restore.
//
// When something is to be built, table filter is committed before nat: marks
// have a meaning before anything sets them. When everything goes it is the
// other way round.
type Delta struct {
	Family dataplane.Family
	// Removal says that nothing is desired.
	Removal bool
	Edits   []Edit
}

// Edit changes one chain of ours, or the jumps in one built-in chain.
type Edit struct {
	Op    dataplane.Op
	Table Table
	// Chain is the chain that is written to.
	Chain string
	// For and Reason are as in dataplane.Change.
	For    string
	Reason string

	missing, surplus []string // rules that only the wanted state has, or only the actual

	base    bool     // Chain is built-in: never declared
	want    Chain    // our chain with its new content
	deletes []string // rules to delete one by one, of a built-in chain
	inserts []string // rules to put at the top of a built-in chain
	appends []string // rules to put at the end of a built-in chain
	erase   bool     // delete the chain at the end
}

// Empty reports whether the states are equal.
func (d Delta) Empty() bool { return len(d.Edits) == 0 }

// Text returns the input for iptables-restore --noflush; empty without edits.
func (d Delta) Text() string {
	var b strings.Builder
	_, _ = d.WriteTo(&b)
	return b.String()
}

// WriteTo writes the text of Text.
func (d Delta) WriteTo(w io.Writer) (int64, error) {
	s := script{w: bufio.NewWriterSize(w, 1<<16)}
	d.script(&s)
	return s.bytes, s.w.Flush()
}

// line returns what stands on a line of the text, from 1, and which edit it serves.
func (d Delta) line(n int) (e Edit, text string, ok bool) {
	s := script{w: bufio.NewWriter(io.Discard), sought: n, owner: -1}
	d.script(&s)
	if s.owner < 0 {
		return Edit{}, "", false
	}
	return d.Edits[s.owner], s.found, true
}

func (d Delta) script(s *script) {
	for _, t := range tables(d.Edits, d.Removal) {
		s.write(t, d.Edits)
	}
}

// Changes describes the edits with the words of the tool: "iptables nat chain
// TOY-SERVICES".
func (d Delta) Changes(e Engine) []dataplane.Change {
	out := make([]dataplane.Change, 0, len(d.Edits))
	for _, ed := range d.Edits {
		kind := "chain"
		if ed.base {
			kind = "jumps in"
		}
		out = append(out, dataplane.Change{
			Op:     ed.Op,
			Object: fmt.Sprintf("%s %s %s %s", program(e, d.Family), ed.Table, kind, ed.Chain),
			For:    ed.For, Reason: ed.Reason, Lines: lines(ed.Chain, ed.surplus, ed.lacking()),
		})
	}
	return out
}

// lacking are the rules that only the wanted state has. Those of a chain that is
// missing are all of them.
func (e Edit) lacking() []string {
	if e.Op == dataplane.Add && !e.base {
		return e.want.rules()
	}
	return e.missing
}

// program is the command that a reader would type to see the rules.
func program(e Engine, f dataplane.Family) string {
	name := "iptables"
	if f == dataplane.IPv6 {
		name = "ip6tables"
	}
	if e == Auto {
		return name
	}
	return name + "-" + e.String()
}

// Diff returns the edits that turn have into want: chains to write in the order
// of want, then jumps, then chains to delete.
func Diff(want Ruleset, have State) Delta {
	d := Delta{Family: want.Family, Removal: want.Empty()}
	if !have.Ours() {
		d.Edits = make([]Edit, 0, len(want.Chains)+len(want.Jumps))
	}
	wanted, room := make(map[Table]map[string]bool), new(Lines)
	for _, c := range want.Chains {
		if wanted[c.Table] == nil {
			wanted[c.Table] = make(map[string]bool)
		}
		wanted[c.Table][c.Name] = true
		if e, differs := diffChain(c, have, room); differs {
			d.Edits = append(d.Edits, e)
		}
	}
	going := stale(wanted, have)
	d.Edits = append(d.Edits, diffJumps(want, have, going)...)
	d.Edits = append(d.Edits, going...)
	return d
}

func diffChain(c Chain, have State, room *Lines) (Edit, bool) {
	e := Edit{Op: dataplane.Add, Table: c.Table, Chain: c.Name, For: c.For, want: c, Reason: "chain missing"}
	held, exists := have.chain(c.Table, c.Name)
	if !exists {
		return e, true
	}
	if room.holds(c, held) {
		return Edit{}, false
	}
	e.Op = dataplane.Update
	e.missing, e.surplus = compare(c.rules(), held)
	e.Reason = ruleReason(e.missing, e.surplus)
	return e, true
}

// diffJumps compares the jumps of each built-in chain. When they differ, all of
// them are taken out and put back in order, in the same transaction. Jumps of
// others to chains that go have to go along: the kernel keeps what is led to.
func diffJumps(want Ruleset, have State, going []Edit) []Edit {
	var out []Edit
	for _, at := range places(want, have) {
		top, end := wantedJumps(want, at)
		wanted := slices.Concat(top, end)
		held, guests := have.jumps(at.Table, at.Base), have.guests(at, going)
		e := Edit{Table: at.Table, Chain: at.Base, base: true, deletes: guests,
			// A base chain that we brought into being goes with its last rule.
			erase: len(wanted) == 0 && dispensable(have, at, len(guests))}
		if !slices.Equal(wanted, held) {
			e.deletes, e.inserts, e.appends = slices.Concat(held, guests), top, end
		}
		if len(e.deletes)+len(e.inserts)+len(e.appends) == 0 {
			continue
		}
		missing, surplus := compare(wanted, held)
		e.Op = jumpOp(missing, slices.Concat(surplus, guests))
		e.Reason = jumpReason(at.Base, jumpDelta{missing, surplus, wanted, guests})
		e.missing, e.surplus = missing, slices.Concat(surplus, guests)
		out = append(out, e)
	}
	return out
}

// guests returns the jumps of others in a built-in chain to chains of ours that
// go.
func (s State) guests(at Jump, going []Edit) []string {
	ts := s.Tables[at.Table]
	if ts == nil || ts.Bases[at.Base] == nil {
		return nil
	}
	var out []string
	for _, r := range ts.Bases[at.Base].Guests {
		target := targetOf(r)
		if slices.ContainsFunc(going, func(e Edit) bool { return e.Table == at.Table && e.Chain == target && e.erase }) {
			out = append(out, r)
		}
	}
	return out
}

// wantedJumps are the jumps wanted in a built-in chain, by where they stand.
func wantedJumps(want Ruleset, at Jump) (top, end []string) {
	for _, j := range want.Jumps {
		switch {
		case j.Table != at.Table || j.Base != at.Base:
		case j.Last:
			end = append(end, j.Rule)
		default:
			top = append(top, j.Rule)
		}
	}
	return top, end
}

func jumpOp(missing, surplus []string) dataplane.Op {
	switch {
	case len(missing) == 0 && len(surplus) > 0:
		return dataplane.Remove
	case len(surplus) == 0 && len(missing) > 0:
		return dataplane.Add
	}
	return dataplane.Update
}

// places lists the built-in chains in which jumps are wanted or stand, in the
// order of want, then by name.
func places(want Ruleset, have State) []Jump {
	var out, rest []Jump
	for _, j := range want.Jumps {
		if at := (Jump{Table: j.Table, Base: j.Base}); !slices.Contains(out, at) {
			out = append(out, at)
		}
	}
	for name, t := range have.Tables {
		for base, b := range t.Bases {
			at := Jump{Table: name, Base: base}
			if len(b.Jumps)+len(b.Guests) > 0 && !slices.Contains(out, at) {
				rest = append(rest, at)
			}
		}
	}
	sort.Slice(rest, func(i, j int) bool {
		if rest[i].Table != rest[j].Table {
			return rest[i].Table < rest[j].Table
		}
		return rest[i].Base < rest[j].Base
	})
	return append(out, rest...)
}

// stale returns the edits that delete our chains that nobody wants. One that a
// foreign chain leads to is emptied only, because the kernel keeps it.
func stale(wanted map[Table]map[string]bool, have State) []Edit {
	var out []Edit
	for t, ts := range have.Tables {
		for name, rules := range ts.Chains {
			if wanted[t][name] {
				continue
			}
			e := Edit{Op: dataplane.Remove, Table: t, Chain: name, erase: true,
				Reason: "chain not wanted", surplus: rules}
			if by, ok := ts.Referenced[name]; ok {
				if len(rules) == 0 {
					continue
				}
				e.erase = false
				e.Reason = fmt.Sprintf("chain not wanted; emptied only, because chain %s, which is not ours, leads to it", by)
			}
			out = append(out, e)
		}
	}
	sort.Slice(out, func(i, j int) bool {
		if out[i].Table != out[j].Table {
			return out[i].Table < out[j].Table
		}
		return out[i].Chain < out[j].Chain
	})
	return out
}
