package meter

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/conntrack"
)

const (
	// listenEvery is how long ended flows lie in the kernel's buffer, which holds
	// those of seconds at thousands of connections a second: to read them in
	// batches is cheaper than to be woken by each.
	listenEvery = 100 * time.Millisecond
	// restFactor bounds what dumps take of a core, however many flows there are: a
	// dump is followed by at least so many times what it took.
	restFactor = 49
)

// Meter keeps a Ledger with what the kernel tells of one network namespace. It is
// safe for concurrent use, but that Serve and Read are not called at once.
type Meter struct {
	watch *conntrack.Watch
	mu    sync.Mutex
	// ledger and stats are what mu guards; news: there is a table, and no dump has been
	// made for it.
	ledger *Ledger
	stats  Stats
	news   bool
}

// Stats tell how the counting itself goes.
type Stats struct {
	// Lost is the number of flows whose last count is not known.
	Lost uint64
	// Overflows is how often the kernel could not tell of all flows that ended.
	Overflows uint64
	// Uncounted is the number of connections that the kernel has not counted the
	// packets of.
	Uncounted uint64
	// Dumps is how many there were, Took how long the last one took, and Flows how
	// many entries of the kernel it had, of whomever.
	Dumps uint64
	Took  time.Duration
	Flows int
}

// Open begins to listen in the network namespace of the calling thread. A kernel
// that does not tell of its flows gives an error that wraps dataplane.ErrUnsupported.
func Open() (*Meter, error) {
	w, err := conntrack.OpenWatch()
	if err != nil {
		return nil, err
	}
	return &Meter{watch: w, ledger: NewLedger()}, nil
}

// Close ends the listening.
func (m *Meter) Close() error { return m.watch.Close() }

// Set makes the meter know just the Services of a table.
func (m *Meter) Set(t dataplane.Table) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.news = m.news || !m.ledger.known
	m.ledger.Set(t)
}

// Change makes the meter follow a change of the table.
func (m *Meter) Change(d dataplane.Delta) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ledger.Change(d)
}

// Lines returns what all Service ports have carried, sorted.
func (m *Meter) Lines() []Line {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ledger.Lines()
}

// Stats tells how the counting goes.
func (m *Meter) Stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.stats
	s.Lost, s.Uncounted = m.ledger.lost, m.ledger.uncounted
	return s
}

// Serve counts until the context ends, on any thread, with a dump of all flows each
// period, or less often where there are very many. It returns nil when the context
// ended it.
func (m *Meter) Serve(ctx context.Context, period time.Duration) error {
	tick := time.NewTicker(min(listenEvery, period))
	defer tick.Stop()
	due := time.Now()
	for {
		lost := m.listen()
		if lost != nil && !errors.Is(lost, conntrack.ErrLost) {
			return lost
		}
		if m.due(due) {
			if err := m.Read(ctx); err != nil && ctx.Err() == nil {
				return err
			}
			due = time.Now().Add(max(period, restFactor*m.Stats().Took))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// due tells whether it is time for a dump.
func (m *Meter) due(at time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	news := m.news
	m.news = false
	return news || !time.Now().Before(at)
}

// Wait counts for some time, and then brings the lines up to date.
func (m *Meter) Wait(ctx context.Context, d time.Duration) error {
	tick := time.NewTicker(min(listenEvery, d))
	defer tick.Stop()
	for end := time.Now().Add(d); time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if err := m.listen(); err != nil && !errors.Is(err, conntrack.ErrLost) {
			return err
		}
	}
	return m.Read(ctx)
}

// Read brings the lines up to date: it reads what has ended, and all living flows.
func (m *Meter) Read(ctx context.Context) error {
	begun := time.Now()
	m.mu.Lock()
	m.ledger.BeginDump()
	m.mu.Unlock()
	flows := 0
	err := m.watch.Dump(ctx, func(f conntrack.Counted) {
		flows++
		m.mu.Lock()
		defer m.mu.Unlock()
		m.ledger.Saw(f)
	})
	if err != nil {
		return err
	}
	if err := m.listen(); err != nil && !errors.Is(err, conntrack.ErrLost) {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ledger.EndDump()
	m.stats.Dumps++
	m.stats.Took, m.stats.Flows = time.Since(begun), flows
	return nil
}

// listen takes note of the flows that have ended.
func (m *Meter) listen() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := m.watch.Ended(m.ledger.Ended)
	if errors.Is(err, conntrack.ErrLost) {
		m.stats.Overflows++
	}
	return err
}
