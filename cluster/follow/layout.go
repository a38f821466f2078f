package follow

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/cluster/state"
)

const (
	// entries are the events that show that a directory came or went within another.
	entries = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_DELETE
	// contents are those of objects. What is created is not whole before it is closed.
	contents = unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_DELETE | unix.IN_CLOSE_WRITE
)

// layout is which directories there are: those of kinds, the state directory that
// holds them, and the nearest directory above that exists.
type layout struct {
	root       string
	rootWatch  int
	above      string
	aboveWatch int
	places     []*place
	// unsettled: directories came or went since the watches were set.
	unsettled bool
}

// note takes note of what happened.
func (l *layout) note(h happening) {
	switch {
	case h.mask&unix.IN_Q_OVERFLOW != 0:
		l.lost()
		return
	case h.watch == l.aboveWatch:
		l.unsettled = l.unsettled || h.name == "" || h.name == l.nextBelow()
		if h.mask&unix.IN_IGNORED != 0 {
			l.aboveWatch = none
		}
		return
	case h.watch == l.rootWatch:
		l.unsettled = l.unsettled || h.name == "" || l.has(h.name)
		if h.mask&unix.IN_IGNORED != 0 {
			l.rootWatch = none
		}
		return
	}
	for _, p := range l.places {
		if p.watch == h.watch {
			l.unsettled = p.note(h) || l.unsettled
			return
		}
	}
}

// nextBelow is the first part of the state directory's path below above.
func (l *layout) nextBelow() string {
	rest, err := filepath.Rel(l.above, l.root)
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(rest, string(filepath.Separator))
	return first
}

// has tells whether the state directory holds a directory of that name that matters.
func (l *layout) has(name string) bool {
	for _, p := range l.places {
		if filepath.Base(p.path) == name {
			return true
		}
	}
	return false
}

// lost: everything may have changed.
func (l *layout) lost() {
	l.unsettled = true
	for _, p := range l.places {
		p.anew = true
	}
}

// quiet tells whether nothing has to be looked at.
func (l *layout) quiet() bool {
	if l.unsettled {
		return false
	}
	for _, p := range l.places {
		if p.anew || len(p.dirty) > 0 {
			return false
		}
	}
	return true
}

// settle watches the directories that there are now. A directory is watched before
// what it holds is looked at, so that nothing is made unseen between.
func (l *layout) settle(q queue) error {
	if !l.unsettled {
		return nil
	}
	errs := []error{l.settleAbove(q)}
	wd, err := q.watch(l.root, entries)
	if wd != l.rootWatch {
		q.forget(l.rootWatch)
		l.rootWatch = wd
	}
	errs = append(errs, err)
	for _, p := range l.places {
		errs = append(errs, p.settle(q))
	}
	err = errors.Join(errs...)
	l.unsettled = err != nil // it is tried again
	return err
}

// settleAbove watches the nearest directory above the state directory.
func (l *layout) settleAbove(q queue) error {
	for dir := filepath.Dir(l.root); ; dir = filepath.Dir(dir) {
		wd, err := q.watch(dir, entries)
		if err != nil {
			return err
		}
		if wd == none && dir != filepath.Dir(dir) {
			continue
		}
		if wd != l.aboveWatch {
			q.forget(l.aboveWatch)
		}
		l.above, l.aboveWatch = dir, wd
		next := filepath.Join(dir, l.nextBelow())
		if info, err := os.Stat(next); err != nil || !info.IsDir() || next == l.root {
			return nil
		}
		dir = l.root // what is below was made meanwhile: from the start
	}
}

// object is the newest version of an object, of the first of its kind's directories
// that holds it.
func (l *layout) object(ref cluster.Ref) (version, bool) {
	file := state.FileName(ref.NamespacedName)
	for _, p := range l.places {
		if p.kind != ref.Kind {
			continue
		}
		if v, ok := p.newest(file); ok {
			return v, true
		}
	}
	return version{}, false
}
