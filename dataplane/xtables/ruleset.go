package xtables

import (
	"bufio"
	"cmp"
	"slices"
	"strconv"

	"github.com/toyproxy/toyproxy/dataplane"
)

// Table is a table of the kernel's packet filter, not a dataplane.Table.
type Table string

// The tables that backends put chains in.
const (
	Filter Table = "filter"
	Mangle Table = "mangle"
	NAT    Table = "nat"
)

// Chain is a chain of ours with everything that stands in it.
type Chain struct {
	Table Table
	// Name is one that Owned knows, and has at most MaxName bytes.
	Name string
	// For is the Service that the chain serves, for people; empty for what all
	// Services share.
	For string
	// Rules are the rules in order, without "-A NAME", spelled exactly as
	// iptables-save prints them.
	Rules []string
	// Make, if there is one, writes the rules instead, each time the same.
	Make func(*Lines)
}

// rules returns the rules, however the chain has them.
func (c Chain) rules() []string {
	if c.Make == nil {
		return c.Rules
	}
	var l Lines
	l.write(c)
	return l.rules()
}

// Jump is a rule of a built-in chain that leads into a chain of ours.
type Jump struct {
	Table Table
	// Base is the built-in chain: "PREROUTING".
	Base string
	// Rule is the rule without "-A BASE", spelled as iptables-save prints it.
	// Its target is a chain of ours, and it has a JumpComment.
	Rule string
	// Last puts the jump at the end of the chain, so that it comes after all
	// rules of others and only before the policy; else it is put at the top.
	Last bool
}

// Ruleset is the whole desired state of one family: every chain of ours and
// every jump. What is ours in the kernel and not in it is to go.
type Ruleset struct {
	Family dataplane.Family
	// Chains are in the order in which they take effect when they cannot be
	// changed all at once: a chain before those that lead to it.
	Chains []Chain
	// Jumps of one base chain stand in that order, those with Last behind the
	// others. The position is taken when they are inserted. A foreign rule that
	// is put before them later stays there: other programs want to be first
	// too, and a war helps nobody.
	Jumps []Jump
}

// Empty reports whether nothing is desired.
func (r Ruleset) Empty() bool { return len(r.Chains) == 0 && len(r.Jumps) == 0 }

// Made returns the ruleset with the rules of all chains in Rules.
func (r Ruleset) Made() Ruleset {
	r.Chains = slices.Clone(r.Chains)
	for i, c := range r.Chains {
		r.Chains[i].Rules, r.Chains[i].Make = c.rules(), nil
	}
	return r
}

// Text returns the input for iptables-restore that makes the ruleset from
// nothing. It loads with and without --noflush; filter comes first, see Delta.
func (r Ruleset) Text() string {
	return Diff(r, State{}).Text()
}

// tables lists the tables named by chains and jumps, in order of effect: each is a
// transaction of its own. A table that only loses rules comes after those that gain
// some: until the new rules stand packets need the old ones.
func tables(edits []Edit, removal bool) []Table {
	var out []Table
	gains := map[Table]int{}
	for _, e := range edits {
		if !slices.Contains(out, e.Table) {
			out = append(out, e.Table)
		}
		if e.Op != dataplane.Remove {
			gains[e.Table] = 1
		}
	}
	slices.SortFunc(out, func(a, b Table) int { return cmp.Or(gains[b]-gains[a], cmp.Compare(a, b)) })
	if removal {
		slices.Reverse(out)
	}
	return out
}

// script writes lines of iptables-restore input.
type script struct {
	w *bufio.Writer
	// lines and bytes count.
	lines int
	bytes int64
	// sought is the number of a line, from 1, of which owner and found are to
	// become the edit that it serves, or -1, and what it says.
	sought, owner int
	found         string
	room          Lines
}

// line writes a line, which serves an edit or none: -1. A rule may be in two parts.
func (s *script) line(owner int, text string, rest []byte) {
	if s.lines++; s.lines == s.sought {
		s.owner, s.found = owner, text+string(rest)
	}
	_, _ = s.w.WriteString(text)
	_, _ = s.w.Write(rest)
	_ = s.w.WriteByte('\n')
	s.bytes += int64(len(text)+len(rest)) + 1
}

// write puts the edits of one table into the script. Declaring a chain creates
// or empties it, so that chains which lead to each other can be written and
// deleted in any order.
func (s *script) write(t Table, edits []Edit) {
	s.line(-1, "*"+string(t), nil)
	for i, e := range edits {
		if e.Table == t && !e.base {
			s.line(i, ":"+e.Chain+" - [0:0]", nil)
		}
	}
	for i, e := range edits {
		if e.Table != t {
			continue
		}
		for _, r := range e.deletes {
			s.line(i, "-D "+e.Chain+" "+r, nil)
		}
		added := "-A " + e.Chain + " "
		s.room.write(e.want)
		s.room.each(func(rule []byte) { s.line(i, added, rule) })
		for n, r := range e.inserts {
			s.line(i, "-I "+e.Chain+" "+strconv.Itoa(n+1)+" "+r, nil)
		}
		for _, r := range e.appends {
			s.line(i, added+r, nil)
		}
	}
	for i, e := range edits {
		if e.Table == t && e.erase {
			s.line(i, "-X "+e.Chain, nil)
		}
	}
	s.line(-1, "COMMIT", nil)
}
