package walk

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"

	"github.com/toyproxy/toyproxy/dataplane"
)

// errFault is the error of a write that was made to fail.
var errFault = errors.New("made to fail")

// faulty is a context that ends, by chance, when somebody asks it: before a
// transaction, between two of them, or while a child of iptables is under way.
type faulty struct {
	context.Context
	mu      sync.Mutex
	dice    *rand.Rand
	percent int
	ended   chan struct{}
}

func newFaulty(ctx context.Context, dice *rand.Rand, percent int) *faulty {
	return &faulty{Context: ctx, dice: rand.New(rand.NewPCG(dice.Uint64(), 1)), percent: percent, ended: make(chan struct{})}
}

// ask reports whether the context has ended, and ends it now and then.
func (f *faulty) ask() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.ended:
		return true
	default:
	}
	if f.dice.IntN(100) >= f.percent {
		return false
	}
	close(f.ended)
	return true
}

// Err returns context.Canceled once the context has ended.
func (f *faulty) Err() error {
	if f.ask() {
		return context.Canceled
	}
	return nil
}

// Done is closed once the context has ended.
func (f *faulty) Done() <-chan struct{} {
	f.ask()
	return f.ended
}

// failing applies a plan with writes that fail, each with the chance of one in
// ten: it is not begun, ends in the midst, or is made to the end and said to have
// failed, as when the kernel's answer is lost.
func failing(ctx context.Context, dice *rand.Rand, p dataplane.Plan) error {
	switch n := dice.IntN(100); {
	case n < 5:
		return errFault
	case n < 10:
		return errors.Join(p.Apply(ctx), errFault)
	}
	return p.Apply(newFaulty(ctx, dice, 10))
}
