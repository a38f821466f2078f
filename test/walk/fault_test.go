package walk

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

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

// faults make writes fail, each with the chance of one in ten.
type faults struct {
	*rand.Rand
	tools toolbox
	// byTools: all writes are made by programs, which can be made to refuse.
	byTools bool
}

func newFaults(t *testing.T, seed uint64, byTools bool) *faults {
	dice := rand.New(rand.NewPCG(seed, 3))
	return &faults{dice, newToolbox(t, dice, "iptables-nft-restore", "ip6tables-nft-restore", "iptables-legacy-restore", "ip6tables-legacy-restore"), byTools}
}

// apply applies a plan. It is not begun, or a transaction is refused, or it ends
// in the midst, or it is made to the end and said to have failed, as when the
// kernel's answer is lost.
func (f *faults) apply(ctx context.Context, p dataplane.Plan) error {
	switch n := f.IntN(100); {
	case n < 5:
		return errFault
	case n < 10:
		return errors.Join(p.Apply(ctx), errFault)
	case n < 50 && f.byTools:
		return f.tools.use(func() error { return p.Apply(ctx) })
	}
	return p.Apply(newFaulty(ctx, f.Rand, 10))
}

// toolbox is a folder with programs of iptables of which one call of ten fails, as
// when the kernel refuses a transaction.
type toolbox string

// newToolbox makes programs that go before the machine's own of the same names. A
// schedule says which calls fail, so that it is the same each time.
func newToolbox(t *testing.T, dice *rand.Rand, programs ...string) toolbox {
	t.Helper()
	dir := t.TempDir()
	schedule := make([]byte, 20_000)
	for i := range schedule {
		schedule[i] = "f........."[dice.IntN(10)]
	}
	write := func(name string, content []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write("schedule", schedule)
	for _, name := range programs {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		write(name, fmt.Appendf(nil, `#!/bin/sh
echo call >>%[1]s/calls
if [ "$(cut -c"$(wc -l <%[1]s/calls)" %[1]s/schedule)" = f ]; then
	cat >/dev/null
	echo "made to fail" >&2
	exit 4
fi
exec %[2]s "$@"
`, dir, path))
	}
	return toolbox(dir)
}

// use runs f with the programs of the toolbox.
func (b toolbox) use(f func() error) error {
	path := os.Getenv("PATH")
	defer os.Setenv("PATH", path)
	os.Setenv("PATH", string(b)+":"+path)
	return f()
}
