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
	"maps"
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
	told map[cluster.Ref]metav1.Object
}

// Open starts to follow the objects of these kinds. The directory need not exist yet.
func Open(stateDir string, kinds ...cluster.Kind) (*Directory, error) {
	abs, err := filepath.Abs(stateDir)
	if err != nil {
		return nil, fmt.Errorf("state directory %s: %w", stateDir, err)
	}
	q, err := openQueue()
	if err != nil {
		return nil, fmt.Errorf("follow state directory %s: %w", abs, err)
	}
	d := &Directory{queue: q, told: map[cluster.Ref]metav1.Object{}}
	d.layout = layout{root: abs, rootWatch: none, aboveWatch: none, unsettled: true}
	for _, kind := range kinds {
		for _, name := range state.Directories(kind) {
			d.layout.places = append(d.layout.places, newPlace(kind, filepath.Join(abs, name)))
		}
	}
	return d, nil
}

// Catch returns what has changed since the call before, without waiting for
// anything: at first everything that is there. Events are ordered by kind, namespace
// and name. Damaged files are named in the error (see state.Damaged), beside which the
// events are good; their objects stay as they were.
func (d *Directory) Catch() ([]cluster.Event, error) {
	err := d.queue.drain(d.layout.note)
	if err != nil {
		d.layout.lost() // what could not be read may have been anything
	}
	if d.layout.quiet() {
		return nil, err
	}
	touched := map[cluster.Ref]struct{}{}
	errs := []error{err, d.layout.settle(d.queue)}
	for _, p := range d.layout.places {
		errs = append(errs, p.refresh(touched))
	}
	return d.events(touched), errors.Join(errs...)
}

// events are those of objects that may have changed.
func (d *Directory) events(touched map[cluster.Ref]struct{}) []cluster.Event {
	var events []cluster.Event
	for _, ref := range slices.SortedFunc(maps.Keys(touched), cluster.Ref.Compare) {
		before, now := d.told[ref], d.layout.object(ref)
		if equality.Semantic.DeepEqual(before, now) {
			continue
		}
		events = append(events, cluster.Event{Object: ref, Old: before, New: now})
		if now == nil {
			delete(d.told, ref)
		} else {
			d.told[ref] = now
		}
	}
	return events
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
