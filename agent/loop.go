package agent

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/dataplane"
)

// The defaults of LoopConfig, and times that cannot be set.
const (
	DefaultMinSyncPeriod = time.Second
	DefaultSyncPeriod    = 5 * time.Second
	// DefaultMaxActions is how many Pods one pass makes and ends.
	DefaultMaxActions = 20
	// wholeEvery is after how long an audit compares everything, whatever the
	// fingerprint of the kernel says.
	wholeEvery = time.Minute
	// firstRetry is how long a pass that failed waits for the next one; each time it
	// is twice as long, up to lastRetry.
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
	// lastPass is how long a pass may go on after the loop was told to end.
	lastPass = 10 * time.Second
)

// LoopConfig is what a Loop works with.
type LoopConfig struct {
	Source Source
	// Workloads may be nil: then there are only Pods of manifests.
	Workloads Workloads
	// Backend programs the table, under this name. Others are not in use: what they
	// left is removed once Backend's rules stand. Flows may be nil.
	Backend     dataplane.Backend
	BackendName string
	Others      []Leftover
	Flows       FollowedFlows
	// Chronicle keeps the live objects for other processes; may be nil.
	Chronicle Chronicle
	// Observers are told of every pass.
	Observers []Observer
	// Problems returns what is wrong beside the objects, which is told with the
	// problems of those; may be nil.
	Problems func() []cluster.Problem
	// Hinders returns what of the node itself hinders what the table promises, such
	// as a server on a node port; it is asked with each audit, and may be nil.
	Hinders func(context.Context, dataplane.Table, []*corev1.Service) []cluster.Problem
	// Alive is called while the loop makes progress, at least every AliveEvery, if
	// that is not zero.
	Alive      func()
	AliveEvery time.Duration
	// MinSyncPeriod is the least time between the end of a pass and the next one,
	// SyncPeriod that between two audits.
	MinSyncPeriod, SyncPeriod time.Duration
	// MaxActions bounds how many Pods one pass makes and ends; 0: no bound.
	MaxActions int
	// Suffix returns the ending of a new Pod's name.
	Suffix func() string
}

// Loop keeps a node as its objects want it. One goroutine, that of Run, does all
// of it; others only Wake it.
type Loop struct {
	cfg LoopConfig

	mu sync.Mutex
	// causes are why the next pass is needed, with the time each was noticed first.
	causes map[Cause]time.Time
	signal chan struct{}
	// next is the configuration that the next pass works with; nil: the same.
	next *LoopConfig

	// store holds objects, which are the last that it was given.
	store   *cluster.Store
	objects cluster.Objects
	tracker *Tracker
	// input is the last that was loaded; loaded tells whether there is one.
	input  Input
	loaded bool
	pods   podMemory
	// setting is the last one that could be told.
	setting *Setting
	audit   auditState
	// failing are Pods that could not be made, and when they are tried again.
	failing map[types.NamespacedName]retry
	// retry is that of passes. again is when to look again though nothing changes.
	retry retry
	again time.Time
	bound bool
	// parting are Pods that have left the rules, and when they may be told to end.
	parting map[types.NamespacedName]time.Time
	// hinders is what Hinders has told last.
	hinders []cluster.Problem
	// recorded: the chronicle has everything up to the last pass.
	recorded bool
	// cleared: nothing of other backends is left. looked: the Pods' networks have been
	// looked at.
	cleared, looked bool
}

// retry is when something that failed is tried again.
type retry struct {
	at    time.Time
	delay time.Duration
	// why says what failed; it stays a problem until it is tried again.
	why string
}

// failed returns when to try next.
func (r retry) failed(now time.Time) retry {
	d := min(max(firstRetry, 2*r.delay), lastRetry)
	return retry{at: now.Add(d), delay: d, why: r.why}
}

// NewLoop returns a loop that has not begun.
func NewLoop(cfg LoopConfig) *Loop {
	return &Loop{cfg: cfg, causes: map[Cause]time.Time{}, signal: make(chan struct{}, 1),
		store: cluster.NewStore(), failing: map[types.NamespacedName]retry{}}
}

// Wake asks for a pass. It may be called by any goroutine, and does not block.
func (l *Loop) Wake(c Cause) {
	now := time.Now()
	l.mu.Lock()
	_, known := l.causes[c]
	if !known {
		l.causes[c] = now
	}
	l.mu.Unlock()
	select {
	case l.signal <- struct{}{}:
	default:
	}
}

// Reload makes the next pass work with another configuration, as a new process
// would: it loads everything, and compares all of the kernel. It may be called by
// any goroutine, and does not block.
func (l *Loop) Reload(cfg LoopConfig) {
	l.mu.Lock()
	l.next = &cfg
	l.mu.Unlock()
	l.Wake(Reloaded)
}

// adopt takes over a configuration that was given meanwhile.
func (l *Loop) adopt() error {
	l.mu.Lock()
	next := l.next
	l.next = nil
	l.mu.Unlock()
	if next == nil {
		return nil
	}
	err := l.close()
	l.cfg = *next
	l.store, l.objects, l.tracker, l.loaded = cluster.NewStore(), cluster.Objects{}, nil, false
	l.audit, l.recorded, l.cleared, l.looked = auditState{}, false, false, false
	l.pods, l.setting = podMemory{}, nil
	clear(l.failing)
	return err
}

// take returns the causes there are, and forgets them.
func (l *Loop) take() map[Cause]time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := maps.Clone(l.causes)
	clear(l.causes)
	return out
}

func (l *Loop) pending() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.causes) > 0
}

// Run makes passes until the context ends, and leaves everything as it is then. It
// works in the network namespace of the calling thread.
func (l *Loop) Run(ctx context.Context) error {
	if err := l.adopt(); err != nil {
		return err
	}
	l.Wake(Started)
	var ended time.Time
	audit := time.Now().Add(l.cfg.SyncPeriod)
	for {
		now := time.Now()
		if !now.Before(audit) {
			l.Wake(AuditDue)
			audit = now.Add(l.cfg.SyncPeriod)
		}
		l.wakeOnTime(now)
		earliest := ended.Add(l.cfg.MinSyncPeriod)
		if l.pending() && (l.bound || !now.Before(earliest)) {
			causes := l.take()
			l.announce(causes)
			whole, cancel := ending(ctx)
			l.tell(l.pass(whole, causes))
			cancel()
			ended = time.Now()
			if ctx.Err() != nil {
				return l.close()
			}
			continue
		}
		until := audit
		if l.pending() {
			until = earliest
		}
		if !l.sleep(ctx, until) {
			return l.close()
		}
	}
}

// ending is the context of a pass: it outlives its parent for a while, so that the
// end of the process does not break off what is half done.
func ending(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(parent))
	stop := context.AfterFunc(parent, func() {
		select {
		case <-ctx.Done():
		case <-time.After(lastPass):
			cancel()
		}
	})
	return ctx, func() { stop(); cancel() }
}

// wakeOnTime wakes the loop for what is due.
func (l *Loop) wakeOnTime(now time.Time) {
	if !l.retry.at.IsZero() && !now.Before(l.retry.at) {
		l.retry.at = time.Time{}
		l.Wake(Retried)
	}
	if !l.again.IsZero() && !now.Before(l.again) || l.bound {
		l.again = time.Time{}
		l.Wake(PodsChanged)
	}
}

// sleep waits until a time, an earlier one that something is due at, or a wake-up.
// It returns false when the context has ended.
func (l *Loop) sleep(ctx context.Context, until time.Time) bool {
	for _, t := range []time.Time{l.retry.at, l.again} {
		if !t.IsZero() && t.Before(until) {
			until = t
		}
	}
	if l.cfg.AliveEvery > 0 {
		l.cfg.Alive()
		until = earlier(until, time.Now().Add(l.cfg.AliveEvery))
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	// While the next pass has to wait, wake-ups only add to its causes.
	signal := l.signal
	if l.pending() {
		signal = nil
	}
	select {
	case <-ctx.Done():
		return false
	case <-signal:
	case <-timer.C:
	}
	return true
}

// clock is the time now, which may be later than that of a pass.
func (l *Loop) clock() time.Time { return time.Now() }

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// close gives back what the loop holds of the kernel.
func (l *Loop) close() error {
	if l.tracker == nil {
		return nil
	}
	return l.tracker.Close()
}

// announce tells observers since when changes wait that the next pass is to put in
// force.
func (l *Loop) announce(causes map[Cause]time.Time) {
	var since time.Time
	for c, at := range causes {
		if c.tellsOfChange() && (since.IsZero() || at.Before(since)) {
			since = at
		}
	}
	for _, o := range l.cfg.Observers {
		if w, ok := o.(Waiter); ok && !since.IsZero() {
			w.Waiting(since)
		}
	}
}

// tell tells observers of a pass.
func (l *Loop) tell(r Report) {
	for _, o := range l.cfg.Observers {
		o.Observe(r)
	}
}

// pass is one pass.
func (l *Loop) pass(ctx context.Context, causes map[Cause]time.Time) Report {
	began := time.Now()
	adopted := l.adopt()
	t := &turn{loop: l, now: began, causes: causes}
	t.report = Report{Started: began, Causes: slices.Sorted(maps.Keys(causes)), Backend: l.cfg.BackendName}
	t.fail(adopted)
	t.run(ctx)
	err := errors.Join(t.errs...)
	if ctx.Err() == nil && err != nil {
		l.retry = l.retry.failed(time.Now())
	} else {
		l.retry = retry{}
	}
	l.bound = t.bounded && err == nil && !t.stuck
	if t.bounded && !l.bound {
		t.lookAgain(l.clock().Add(firstRetry))
	}
	l.again = t.again
	t.report.Err, t.report.Took, t.report.Settled = err, time.Since(began), l.audit.settled
	return t.report
}
