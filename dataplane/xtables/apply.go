package xtables

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/toyproxy/toyproxy/dataplane"
)

// maxRefused is how many refused chains are sought one by one before giving up:
// when a kernel lacks a match that all rules use, nobody wants to wait for the
// trial of each.
const maxRefused = 16

// kernel is what applying needs of a Tool.
type kernel interface {
	Save(ctx context.Context) (State, error)
	Restore(ctx context.Context, text io.WriterTo) error
	DropTable(ctx context.Context, table Table) (gone bool, err error)
}

// maxWeight is the weight of what an engine changes in one transaction; 0 is no
// limit. iptables-nft looks for the chain of every line of its input, and for that
// to which it leads, in a list of those named before: 40,000 chains at once take it
// minutes, in parts seconds. The legacy engine writes the whole table however
// little changes, so that parts would cost it more.
func maxWeight(e Engine) int {
	if e == NFT {
		return 2048
	}
	return 0
}

// madeWeight is what a chain weighs whose rules are yet to be made: those of a
// Service lead to few other chains.
const madeWeight = 8

// weight is about how many lines an edit makes.
func (e Edit) weight() int {
	if e.want.Make != nil {
		return madeWeight
	}
	return 1 + len(e.want.Rules) + len(e.deletes) + len(e.inserts) + len(e.appends)
}

// apply makes the changes of a delta, by which the kernel comes to hold want: at
// once, or if they weigh more than most in parts; and bit by bit if the kernel
// refuses. The marks of tables go last, each with its table: as long as anything
// of ours can be there, the mark is there too.
func apply(ctx context.Context, k kernel, want Ruleset, d Delta, most int) error {
	d, marks := d.withoutMarks()
	var err error
	for _, part := range parts(d, most) {
		if err = restore(ctx, k, part); err != nil {
			break
		}
	}
	var refused *RestoreError
	if errors.As(err, &refused) && ctx.Err() == nil {
		err = retry(ctx, k, want, most)
	}
	if err != nil {
		return err
	}
	for _, m := range marks {
		if err := dropMark(ctx, k, d, m); err != nil {
			return err
		}
	}
	return nil
}

// dropMark takes away the mark of a table and with it the table; the mark alone
// if others have put something into the table.
func dropMark(ctx context.Context, k kernel, d Delta, mark Edit) error {
	gone, err := k.DropTable(ctx, mark.Table)
	if gone || err != nil {
		return err
	}
	return restore(ctx, k, Delta{Family: d.Family, Removal: d.Removal, Edits: []Edit{mark}})
}

// withoutMarks parts the removal of marks of tables from the other edits.
func (d Delta) withoutMarks() (rest Delta, marks []Edit) {
	isMark := func(e Edit) bool { return e.Chain == marker && e.erase }
	if !slices.ContainsFunc(d.Edits, isMark) {
		return d, nil
	}
	rest = d
	rest.Edits = nil
	for _, e := range d.Edits {
		if isMark(e) {
			marks = append(marks, e)
			continue
		}
		rest.Edits = append(rest.Edits, e)
	}
	return rest, marks
}

// parts splits a delta that weighs more than most, in the order in which nothing
// is worse in between: chains before those that lead to them, then the jumps, then
// what is to go, which is emptied before any of it is deleted. Chains and jumps go
// together if they can: where other rules of ours stand in chains of the same names,
// half of the new ones is worse than none.
func parts(d Delta, most int) []Delta {
	if len(d.Edits) == 0 || len(portions(d.Edits, most)) == 1 {
		return []Delta{d}
	}
	var out []Delta
	s := sortEdits(d)
	groups := [][]Edit{s.written, s.jumps, s.emptied, s.erased}
	if both := slices.Concat(s.written, s.jumps); len(portions(both, most)) == 1 {
		groups = [][]Edit{both, s.emptied, s.erased}
	}
	for _, edits := range groups {
		for _, part := range portions(edits, most) {
			out = append(out, Delta{Family: d.Family, Removal: d.Removal, Edits: part})
		}
	}
	return out
}

// portions cuts edits into runs that do not weigh more than most, or are single
// edits; with a most of 0 into one.
func portions(edits []Edit, most int) [][]Edit {
	var out [][]Edit
	first, total := 0, 0
	for i, e := range edits {
		weight := e.weight()
		if most > 0 && total+weight > most && i > first {
			out = append(out, edits[first:i])
			first, total = i, 0
		}
		total += weight
	}
	if first < len(edits) {
		out = append(out, edits[first:])
	}
	return out
}

// sorted is the edits of a delta by what they do. emptied are erased without their
// rules.
type sorted struct {
	written, jumps, emptied, erased []Edit
}

func sortEdits(d Delta) sorted {
	s := sorted{written: make([]Edit, 0, len(d.Edits))}
	for _, e := range d.Edits {
		switch {
		case e.base:
			s.jumps = append(s.jumps, e)
		case e.Op == dataplane.Remove:
			s.emptied = append(s.emptied, e.bare())
			if e.erase {
				s.erased = append(s.erased, e)
			}
		default:
			s.written = append(s.written, e)
		}
	}
	return s
}

// bare is the edit without any rules: the chain is made, or emptied.
func (e Edit) bare() Edit {
	e.want, e.erase = Chain{}, false
	return e
}

// created are the chains that edits make, without their rules.
func (s sorted) created() []Edit {
	var out []Edit
	for _, e := range s.written {
		if e.Op == dataplane.Add {
			out = append(out, e.bare())
		}
	}
	return out
}

// restore makes one transaction, and gives its error the names of what stands
// on the line that was refused.
func restore(ctx context.Context, k kernel, d Delta) error {
	if d.Empty() {
		return nil
	}
	err := k.Restore(ctx, d)
	var refused *RestoreError
	if !errors.As(err, &refused) {
		return err
	}
	named := *refused
	if e, text, ok := d.line(named.Line); ok {
		named.Chain, named.For, named.Rule = e.Chain, e.For, text
	}
	if len(d.Edits) == 1 {
		named.Chain, named.For = d.Edits[0].Chain, d.Edits[0].For
	}
	return &named
}

// retry makes bit by bit what was refused as a whole. It begins with another
// look at the kernel: a table may have been committed before another was refused,
// and somebody may have changed a rule since the plan was made.
func retry(ctx context.Context, k kernel, want Ruleset, most int) error {
	have, err := k.Save(ctx)
	if err != nil {
		return err
	}
	rest, _ := Diff(want, have).withoutMarks()
	return piecemeal(ctx, k, rest, most)
}

// piecemeal makes the changes of a refused delta: first all new chains without
// rules, so that every part can lead to every chain; then the rest in the order
// of parts, in halves of halves until the refused chains stand alone. A chain
// that is refused keeps what it held.
func piecemeal(ctx context.Context, k kernel, d Delta, most int) error {
	s := sortEdits(d)
	b := bisection{kernel: k, family: d.Family, removal: d.Removal}
	for _, edits := range [][]Edit{s.created(), s.written, s.jumps, s.emptied, s.erased} {
		for _, part := range portions(edits, most) {
			b.try(ctx, part)
		}
	}
	return b.result()
}

// bisection finds the edits that the kernel refuses, and makes the others.
type bisection struct {
	kernel  kernel
	family  dataplane.Family
	removal bool
	refused []error
	// fatal is an error that is not about the input: a held lock, say.
	fatal error
}

// try makes the edits, or those of them that the kernel takes.
func (b *bisection) try(ctx context.Context, edits []Edit) {
	if len(edits) == 0 || b.fatal != nil || len(b.refused) >= maxRefused {
		return
	}
	err := restore(ctx, b.kernel, Delta{Family: b.family, Removal: b.removal, Edits: edits})
	var refused *RestoreError
	switch {
	case err == nil:
	case !errors.As(err, &refused) || ctx.Err() != nil:
		b.fatal = err
	case len(edits) == 1:
		b.refused = append(b.refused, err)
	default:
		half := len(edits) / 2
		b.try(ctx, edits[:half])
		b.try(ctx, edits[half:])
	}
}

func (b *bisection) result() error {
	if len(b.refused) >= maxRefused {
		b.refused = append(b.refused, fmt.Errorf("%d chains were refused; the rest was not tried", len(b.refused)))
	}
	return errors.Join(append(b.refused, b.fatal)...)
}
