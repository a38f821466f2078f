package main

import (
	"context"
	"net/http"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/meter"
	"github.com/toyproxy/toyproxy/health"
	"github.com/toyproxy/toyproxy/metrics"
	"github.com/toyproxy/toyproxy/serve"
)

const (
	// defaultMetricsAddress is where others ask what run counts.
	defaultMetricsAddress = "127.0.0.1:10249"
	// leastHealthLimit is how long changes may wait at least, however short the sync
	// period is.
	leastHealthLimit = 10 * time.Second
	// countEvery is how often all tracked flows are looked at.
	countEvery = 5 * time.Second
	// answerRetry is when a port that was taken is tried again.
	answerRetry = 5 * time.Second
)

// answerFlags say where run answers questions.
type answerFlags struct {
	metrics, healthz string
	counting         bool
}

func (f *answerFlags) register(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.metrics, "metrics-bind-address", defaultMetricsAddress, "ADDRESS:PORT of /metrics and /proxyMode (empty: none)")
	fl.StringVar(&f.healthz, "healthz-bind-address", ":10256", "ADDRESS:PORT of /healthz and /livez (empty: none)")
	fl.BoolVar(&f.counting, "count-traffic", true, "count connections, packets and bytes of each Service port\n(sets sysctl net.netfilter.nf_conntrack_acct; down puts it back)")
}

// answers are all that run answers with.
type answers struct {
	health   *health.State
	recorder *metrics.Recorder
	ports    *health.NodePorts
	meter    *meter.Meter
	cancel   context.CancelFunc
	running  sync.WaitGroup
}

// startAnswers opens the ports, in the namespace of the calling thread. What cannot
// be had is logged, and keeps nothing else from working.
func (d *daemon) startAnswers(ctx context.Context) *answers {
	ctx, cancel := context.WithCancel(ctx)
	a := &answers{cancel: cancel}
	flags := d.opts.answers
	families := []dataplane.Family{dataplane.IPv4}
	if hasIPv6() {
		families = append(families, dataplane.IPv6)
	}
	cfg := metrics.Config{Version: versionString(), GoVersion: runtime.Version(), Families: families}
	if a.meter = d.startMeter(ctx, a); a.meter != nil {
		cfg.Meter = a.meter
	}
	a.recorder = metrics.New(cfg)
	a.health = health.New(health.Config{Limit: healthLimit(d.opts.sync), Now: time.Now, Families: families,
		Asked: func(p health.Probe, code int) { a.recorder.Asked(string(p), code) }})
	a.ports = health.NewNodePorts(ctx, func() bool { return a.health.Status().Alive })
	d.answer(ctx, a, flags.metrics, a.recorder.Handler(a.health.Answer(health.Healthz)))
	d.answer(ctx, a, flags.healthz, a.health.Handler())
	return a
}

// healthLimit is how long changes may wait, and passes fail, with a sync period.
func healthLimit(sync time.Duration) time.Duration { return max(2*sync, leastHealthLimit) }

// observers are those of the answers, in the order they are told.
func (a *answers) observers() []agent.Observer {
	return []agent.Observer{a.health, a.recorder, a.ports}
}

// stop closes all ports and waits for those that answer.
func (a *answers) stop() {
	a.cancel()
	a.running.Wait()
	_ = a.ports.Close()
	if a.meter != nil {
		_ = a.meter.Close()
	}
}

// answer serves a handler on an address until the context ends. While the port is
// taken it is tried again.
func (d *daemon) answer(ctx context.Context, a *answers, addr string, h http.Handler) {
	if addr == "" {
		return
	}
	ln, err := serve.Listen(ctx, addr)
	if err != nil {
		d.log.Warn("port cannot be opened, it is tried again", "error", err.Error())
	}
	a.running.Go(func() {
		for ctx.Err() == nil {
			if ln == nil {
				if !sleep(ctx, answerRetry) {
					return
				}
				ln, _ = serve.Listen(ctx, addr)
				continue
			}
			if err := serve.Serve(ctx, ln, h); err != nil {
				d.log.Warn("port is tried again", "error", err.Error())
			}
			ln = nil
		}
	})
}

// startMeter begins to count what Services carry; nil where that is not wanted, or
// the kernel cannot.
func (d *daemon) startMeter(ctx context.Context, a *answers) *meter.Meter {
	if !d.opts.answers.counting {
		return nil
	}
	if err := countTraffic(ctx, d.sc); err != nil {
		d.log.Warn("packets and bytes of Services are not counted", "error", err.Error())
	}
	m, err := meter.Open()
	if err != nil {
		d.log.Warn("connections of Services are not counted", "error", err.Error())
		return nil
	}
	a.running.Go(func() {
		for ctx.Err() == nil {
			if err := m.Serve(ctx, countEvery); err != nil {
				d.log.Warn("counting of connections is tried again", "error", err.Error())
				sleep(ctx, answerRetry)
			}
		}
	})
	return m
}

// countTraffic makes the kernel count the packets and bytes of flows.
func countTraffic(ctx context.Context, sc scope) error {
	plan, err := meter.Accounting(sc.accountingJournal())
	if err != nil {
		return err
	}
	return plan.Apply(ctx)
}

// accountingJournal is the file that remembers whether the kernel counted before.
func (sc scope) accountingJournal() string {
	return filepath.Join(sc.rulesDir(), "sysctls-accounting.json")
}

// sleep waits; it returns false when the context has ended meanwhile.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
