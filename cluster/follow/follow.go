// Package follow keeps a copy of the live objects of a state directory that is
// never behind: Catch takes in what other processes have written since, down to
// the instant of the call.
//
// The kernel queues an inotify event within the system call that makes the change,
// and Catch reads the queue without waiting: one read(2) when nothing happened, and
// one file for each object that changed. When the queue has overflowed, or a
// directory was made anew, everything there is read and compared.
//
// It writes nothing. It stands beside cluster/watch, which only wakes and may be
// late; here a query that comes after a change sees it. In the flow:
//
//	state directory ─▶ follow ─▶ dns, ingress
package follow

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/cluster/state"
)

// Directory follows one state directory. It is not safe for concurrent use, but Wait
// may be called beside the other methods.
type Directory struct {
	queue  queue
	layout layout
	// told are the objects as events have told them.
	told map[cluster.Ref]version
	lean bool
}

// version is an object as it was at a time.
type version struct {
	// digest is of its file's bytes.
	digest uint64
	// object is nil in a lean directory.
	object metav1.Object
}

// Open starts to follow the objects of these kinds. The directory need not exist yet.
func Open(stateDir string, kinds ...cluster.Kind) (*Directory, error) {
	return start(stateDir, kinds, false)
}

// OpenLean is Open for who needs no copy of the objects: nothing is kept of them but
// what tells whether they have changed. Old objects of events have nothing but their
// names, and Catch returns the events of many changes in parts.
func OpenLean(stateDir string, kinds ...cluster.Kind) (*Directory, error) {
	return start(stateDir, kinds, true)
}

func start(stateDir string, kinds []cluster.Kind, lean bool) (*Directory, error) {
	abs, err := filepath.Abs(stateDir)
	if err != nil {
		return nil, fmt.Errorf("state directory %s: %w", stateDir, err)
	}
	q, err := openQueue()
	if err != nil {
		return nil, fmt.Errorf("follow state directory %s: %w", abs, err)
	}
	d := &Directory{queue: q, told: map[cluster.Ref]version{}, lean: lean}
	seed := maphash.MakeSeed()
	d.layout = layout{root: abs, rootWatch: none, aboveWatch: none, unsettled: true}
	for _, kind := range kinds {
		for _, name := range state.Directories(kind) {
			d.layout.places = append(d.layout.places, newPlace(kind, filepath.Join(abs, name), lean, seed))
		}
	}
	return d, nil
}

// Catch returns what has changed since the call before, without waiting for
// anything: at first everything that is there. Events are ordered by kind, namespace
// and name. Damaged files are named in the error (see state.Damaged), beside which the
// events are good; their objects stay as they were.
//
// A lean directory has told everything when Catch returns no events.
func (d *Directory) Catch() ([]cluster.Event, error) {
	err := d.queue.drain(d.layout.note)
	if err != nil {
		d.layout.lost() // what could not be read may have been anything
	}
	errs := []error{err}
	for !d.layout.quiet() {
		touched := map[cluster.Ref]struct{}{}
		errs = append(errs, d.layout.settle(d.queue))
		left := d.share()
		for _, p := range d.layout.places {
			err := p.refresh(touched, &left)
			errs = append(errs, err)
		}
		if events := d.events(touched); len(events) > 0 || left > 0 {
			return events, errors.Join(errs...)
		}
	}
	return nil, errors.Join(errs...)
}

// part is how many files a lean directory reads for the events of one Catch.
const part = 2048

// share is how many files to read at once.
func (d *Directory) share() int {
	if d.lean {
		return part
	}
	return math.MaxInt
}

// events are those of objects that may have changed.
func (d *Directory) events(touched map[cluster.Ref]struct{}) []cluster.Event {
	var events []cluster.Event
	for _, ref := range slices.SortedFunc(maps.Keys(touched), cluster.Ref.Compare) {
		before, known := d.told[ref]
		now, exists := d.layout.object(ref)
		if known == exists && before.digest == now.digest {
			continue
		}
		d.tell(ref, now, exists)
		e := cluster.Event{Object: ref, Old: before.object, New: now.object}
		if known && d.lean {
			e.Old = nameOnly(ref)
		}
		if !d.lean && equality.Semantic.DeepEqual(e.Old, e.New) {
			continue // the same in other words
		}
		events = append(events, e)
	}
	for _, p := range d.layout.places {
		clear(p.fresh)
	}
	return events
}

// tell notes what an event tells.
func (d *Directory) tell(ref cluster.Ref, now version, exists bool) {
	switch {
	case !exists:
		delete(d.told, ref)
	case d.lean:
		d.told[ref] = version{digest: now.digest}
	default:
		d.told[ref] = now
	}
}

// nameOnly is an object of which only the name is known.
func nameOnly(ref cluster.Ref) metav1.Object {
	obj := state.Empty(ref.Kind)
	obj.SetNamespace(ref.Namespace)
	obj.SetName(ref.Name)
	return obj
}

// Wait returns when there may be something to catch, or the context ends; then the
// error is the context's.
func (d *Directory) Wait(ctx context.Context) error {
	_ = d.queue.file.SetReadDeadline(time.Time{})
	stop := context.AfterFunc(ctx, func() { _ = d.queue.file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	conn, err := d.queue.file.SyscallConn()
	if err != nil {
		return fmt.Errorf("wait for the state directory: %w", err)
	}
	err = conn.Read(func(fd uintptr) bool {
		ready, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return ready > 0 && err == nil
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && !errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("wait for the state directory: %w", err)
	}
	return nil
}

// Close ends it.
func (d *Directory) Close() error {
	d.queue.fd = none
	return d.queue.file.Close()
}
