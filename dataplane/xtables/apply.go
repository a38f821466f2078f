package xtables

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/toyproxy/toyproxy/dataplane"
)

// maxRefused is how many refused chains are sought one by one before giving up:
// when a kernel lacks a match that all rules use, nobody wants to wait for the
// trial of each.
const maxRefused = 16

// kernel is what applying needs of a Tool.
type kernel interface {
	Save(ctx context.Context) (State, error)
	Restore(ctx context.Context, text string) error
	DropTable(ctx context.Context, table Table) error
}

// apply makes the changes of a delta, by which the kernel comes to hold want: at
// once if the kernel lets it.
func apply(ctx context.Context, k kernel, want Ruleset, d Delta) error {
	err := restore(ctx, k, d)
	var refused *RestoreError
	if errors.As(err, &refused) && ctx.Err() == nil {
		err = retry(ctx, k, want)
	}
	if err != nil {
		return err
	}
	for _, e := range d.Edits {
		if e.Chain != marker || !e.erase {
			continue
		}
		if err := k.DropTable(ctx, e.Table); err != nil {
			return err
		}
	}
	return nil
}

// restore makes one transaction, and gives its error the names of what stands
// on the line that was refused.
func restore(ctx context.Context, k kernel, d Delta) error {
	if d.Empty() {
		return nil
	}
	text, owner := d.script()
	err := k.Restore(ctx, text)
	var refused *RestoreError
	if !errors.As(err, &refused) {
		return err
	}
	named := *refused
	if i := named.Line - 1; i >= 0 && i < len(owner) && owner[i] >= 0 {
		named.Chain, named.For = d.Edits[owner[i]].Chain, d.Edits[owner[i]].For
		named.Rule = strings.Split(text, "\n")[i]
	}
	if len(d.Edits) == 1 {
		named.Chain, named.For = d.Edits[0].Chain, d.Edits[0].For
	}
	return &named
}

// retry makes in parts what was refused as a whole. It begins with another look
// at the kernel: a table may have been committed before another was refused, and
// somebody may have changed a rule since the plan was made.
func retry(ctx context.Context, k kernel, want Ruleset) error {
	have, err := k.Save(ctx)
	if err != nil {
		return err
	}
	return piecemeal(ctx, k, Diff(want, have))
}

// piecemeal makes the changes of a refused delta in parts: first all new chains
// without rules, so that every part can lead to every chain; then the rules, in
// halves of halves until the refused chains stand alone; then jumps; then the
// deletions, after all that is to go was emptied. A chain that is refused keeps
// what it held.
func piecemeal(ctx context.Context, k kernel, d Delta) error {
	var created, written, jumps, emptied, erased []Edit
	for _, e := range d.Edits {
		bare := e
		bare.rules, bare.erase = nil, false
		switch {
		case e.base:
			jumps = append(jumps, e)
		case e.Op == dataplane.Remove:
			emptied, erased = append(emptied, bare), append(erased, e)
		case e.Op == dataplane.Add:
			created, written = append(created, bare), append(written, e)
		default:
			written = append(written, e)
		}
	}
	if err := restore(ctx, k, Delta{Family: d.Family, Edits: created}); err != nil {
		return err
	}
	b := bisection{kernel: k, family: d.Family, removal: d.Removal}
	for _, edits := range [][]Edit{written, jumps, emptied, erased} {
		b.try(ctx, edits)
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
