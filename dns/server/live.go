package server

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/dns"
)

const (
	// pause is how long changes are left to gather when nobody asks.
	pause = 20 * time.Millisecond
	// tellAgain is after how long the same trouble is told once more.
	tellAgain = time.Minute
)

// live keeps the zone equal to the source.
type live struct {
	config Config
	access *access

	// mu is held while changes are taken in: who asks meanwhile waits for them.
	mu      sync.Mutex
	began   bool
	history *history
	told    string
	toldAt  time.Time
}

// catch takes in what has changed.
func (l *live) catch() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.part() {
	}
	l.began = true
}

// part takes in some of what has changed; it tells whether there may be more.
func (l *live) part() (more bool) {
	events, err := l.config.Source.Catch()
	if err != nil {
		l.tell(err.Error())
	}
	if len(events) == 0 {
		return false
	}
	now := time.Now()
	l.access.follow(events)
	changes := l.config.Zone.Apply(events, now)
	l.config.Metrics.changed(events, changes)
	if !l.began && !l.history.wantsFirst() {
		return true
	}
	if err := l.history.note(entries(events, changes, now)); err != nil {
		l.tell(err.Error())
	}
	return true
}

// tell tells what goes wrong, the same thing once in a while.
func (l *live) tell(message string) {
	now := time.Now()
	if message == l.told && now.Sub(l.toldAt) < tellAgain {
		return
	}
	l.told, l.toldAt = message, now
	l.config.Tell(message)
}

// keep takes in changes when nobody asks, for the history and lest they pile up.
func (l *live) keep(ctx context.Context) {
	for l.config.Source.Wait(ctx) == nil || ctx.Err() == nil {
		l.safely()
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// safely is catch, whose faults end nothing here either.
func (l *live) safely() {
	defer func() {
		if trouble := recover(); trouble != nil {
			l.config.Tell(fmt.Sprintf("a change showed a fault of this program, which went on: %v", trouble))
		}
	}()
	l.catch()
}

func (l *live) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.history.close()
}

// entries are changes of the zone as the history has them.
func entries(events []cluster.Event, changes []dns.Change, now time.Time) []dns.Entry {
	what := map[cluster.Ref]string{}
	for _, e := range events {
		switch {
		case e.Old == nil:
			what[e.Object] = "added"
		case e.New == nil:
			what[e.Object] = "deleted"
		default:
			what[e.Object] = "modified"
		}
	}
	out := make([]dns.Entry, len(changes))
	for i, c := range changes {
		out[i] = dns.Entry{Time: now, Event: what[c.Object], Object: c.Object.String(), Added: c.Added, Removed: c.Removed}
	}
	return out
}
