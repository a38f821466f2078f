package walk

import (
	"context"
	"errors"
	"fmt"

	"github.com/toyproxy/toyproxy/dataplane"
)

// fingerprint returns that of what the backend reads of the kernel.
func (w *walker) fingerprint() (out string) {
	w.Node.Do(func() {
		var err error
		if out, err = dataplane.Fingerprint(context.Background(), w.onlooker); err != nil || out == "" {
			w.Errorf("fingerprint %q: %v", out, err)
		}
	})
	return out
}

// stays reports a fingerprint that is another one after something that changes
// nothing. What drains changes by itself. IPVS is asked again: the kernel's list of
// real servers leaves some out as long as other namespaces have virtual servers too,
// as those of labs that have just ended.
func (w *walker) stays(change func() error) (err error) {
	tries := 1
	if w.virtual {
		tries = 4
	}
	var before, after string
	for range tries {
		before = w.fingerprint()
		err = errors.Join(err, change())
		if after = w.fingerprint(); after == before {
			return err
		}
	}
	if !w.drains {
		err = errors.Join(err, fmt.Errorf("a plan without changes or packets made the fingerprint another one:\n%s\n%s", before, after))
	}
	return err
}

// noticed damages the rules, and reports a fingerprint that stayed the same although
// a plan has something to repair.
func (w *walker) noticed() string {
	before := w.fingerprint()
	what := w.damage()
	if w.fingerprint() == before {
		if err := w.settled(w.tracker.Table()); err != nil {
			w.Errorf("%s: the fingerprint stayed, and yet %v", what, err)
		}
	}
	return what
}
