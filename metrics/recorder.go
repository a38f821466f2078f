package metrics

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/meter"
)

var _ agent.Waiter = (*Recorder)(nil)

// Meter counts what Service ports carry, as *meter.Meter does.
type Meter interface {
	// Set makes it know the Services of a whole table, Change those of a change.
	Set(dataplane.Table)
	Change(dataplane.Delta)
	Lines() []meter.Line
	Stats() meter.Stats
}

// Config says what there is to tell.
type Config struct {
	// Version is that of the program, GoVersion that of the language.
	Version, GoVersion string
	// Families are those that the node serves. Passes serve all at once.
	Families []dataplane.Family
	// Meter is told the tables, and asked when somebody reads the metrics; nil where
	// nothing counts.
	Meter Meter
}

// Recorder turns reports into metrics. It is safe for concurrent use.
type Recorder struct {
	config   Config
	registry *prometheus.Registry
	passes   passes
	beyond   beyond

	mu      sync.Mutex
	local   *localPorts
	backend string
	// current: the meter and local were told the table that is in force.
	current bool
	// owed is drift that a pass has failed to repair: a later one does, and finds
	// nothing new.
	owed []dataplane.Change
	// seen are the labels of problems that were set last.
	problems map[[2]string]int
}

// New returns a recorder with a registry of its own.
func New(c Config) *Recorder {
	r := &Recorder{config: c, registry: prometheus.NewRegistry(), local: newLocalPorts()}
	r.passes, r.beyond = newPasses(r.registry), newBeyond(r.registry)
	r.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	r.beyond.build.WithLabelValues(c.Version, c.GoVersion).Set(1)
	if c.Meter != nil {
		r.registry.MustRegister(newTraffic(c.Meter))
	}
	return r
}

// eachFamily sets something for each family that the node serves: kube-proxy has a
// pass for each, and its dashboards ask for one.
func (r *Recorder) eachFamily(f func(family string)) {
	for _, family := range r.config.Families {
		f(family.String())
	}
}

// Waiting takes note of a change that waits for its pass.
func (r *Recorder) Waiting(since time.Time) {
	r.eachFamily(func(f string) { r.passes.lastQueued.WithLabelValues(f).Set(seconds(since)) })
}

// Asked takes note of an answer of /healthz or /livez.
func (r *Recorder) Asked(probe string, code int) {
	v := r.passes.healthz
	if probe == "livez" {
		v = r.passes.livez
	}
	v.WithLabelValues(strconv.Itoa(code)).Inc()
}

// Backend returns the name of the backend in use; empty before the first pass.
func (r *Recorder) Backend() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.backend
}

// Observe turns a pass into metrics.
func (r *Recorder) Observe(p agent.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.observePass(p)
	r.observeChanges(p)
	r.observeNode(p)
	r.observeProblems(p.Problems)
	r.follow(p)
}

// observePass tells what kube-proxy tells of a pass.
func (r *Recorder) observePass(p agent.Report) {
	for _, c := range p.Causes {
		r.beyond.passes.WithLabelValues(string(c)).Inc()
		if p.Err != nil {
			r.beyond.failures.WithLabelValues(string(c)).Inc()
		}
	}
	r.passes.servicesTotal.Add(float64(p.ServiceChanges))
	r.passes.endpointsTotal.Add(float64(p.EndpointChanges))
	r.passes.flowsDeleted.Add(float64(p.Flows))
	if !p.Settled {
		r.passes.servicesPending.Add(float64(p.ServiceChanges))
		r.passes.endpointsPending.Add(float64(p.EndpointChanges))
		r.eachFamily(func(f string) { r.fail(p, f) })
		return
	}
	r.passes.servicesPending.Set(0)
	r.passes.endpointsPending.Set(0)
	end := p.Started.Add(p.Took)
	if p.Whole {
		r.beyond.audited.Set(seconds(end))
	}
	r.eachFamily(func(f string) {
		r.passes.took.WithLabelValues(f).Observe(p.Took.Seconds())
		r.passes.last.WithLabelValues(f).Set(seconds(end))
		if p.Whole {
			r.passes.tookWhole.WithLabelValues(f).Observe(p.Took.Seconds())
		} else {
			r.passes.tookChange.WithLabelValues(f).Observe(p.Took.Seconds())
		}
		if !p.Oldest.IsZero() {
			r.passes.programming.WithLabelValues(f).Observe(end.Sub(p.Oldest).Seconds())
		}
	})
}

// fail counts a pass that failed where kube-proxy counts it.
func (r *Recorder) fail(p agent.Report, family string) {
	switch p.Backend {
	case "nftables":
		r.passes.nftablesFailed.WithLabelValues(family).Inc()
	case "iptables":
		if !p.Whole {
			r.passes.partFailed.WithLabelValues(family).Inc()
		}
		r.passes.restoreFailed.WithLabelValues(family).Inc()
	case "ipvs":
		r.passes.restoreFailed.WithLabelValues(family).Inc()
	}
}

// observeChanges counts what was written. What failed is not known to have been.
func (r *Recorder) observeChanges(p agent.Report) {
	if p.Settled {
		for _, c := range p.Changes {
			r.beyond.changes.WithLabelValues(objectKind(c), operation(c.Op)).Inc()
		}
	}
	repaired := p.Drift
	switch {
	case p.Unrepaired > 0:
		r.owed = p.Drift
		return
	case !p.Settled:
		return
	case len(repaired) == 0:
		repaired = r.owed
	}
	r.owed = nil
	for _, c := range repaired {
		r.beyond.drift.WithLabelValues(objectKind(c)).Inc()
	}
}

// observeNode tells what there is on the node.
func (r *Recorder) observeNode(p agent.Report) {
	if p.Backend != r.backend {
		r.beyond.backend.Reset()
		r.beyond.backend.WithLabelValues(p.Backend).Set(1)
		r.backend = p.Backend
	}
	for kind, n := range map[string]int{"services": p.Services, "frontends": p.Frontends, "endpoints": p.Endpoints, "pods": p.Pods} {
		r.beyond.objects.WithLabelValues(kind).Set(float64(n))
	}
	r.beyond.restarts.Set(float64(p.Restarts))
	r.beyond.rolling.Set(float64(p.Rolling))
	r.beyond.podsCreated.Add(float64(p.PodsMade))
	r.beyond.podsDeleted.Add(float64(p.PodsEnded))
}

// observeProblems tells how many problems there are of each kind. A kind that has
// none any more goes on as zero, so that an alert sees its end.
func (r *Recorder) observeProblems(list []cluster.Problem) {
	now := map[[2]string]int{}
	for k := range r.problems {
		now[k] = 0
	}
	for _, p := range list {
		severity := "error"
		if p.Warning {
			severity = "warning"
		}
		now[[2]string{string(p.Object.Kind), severity}]++
	}
	for k, n := range now {
		r.beyond.problems.WithLabelValues(k[0], k[1]).Set(float64(n))
	}
	r.problems = now
}

// follow hands the table on once its rules stand. An audit that found the same table
// as before is no news.
func (r *Recorder) follow(p agent.Report) {
	switch {
	case !p.Settled:
		r.current = false
		return
	case p.Whole && r.current && auditOnly(p):
		return
	}
	if p.Whole {
		r.current = true
		r.local.set(p.Table)
		if r.config.Meter != nil {
			r.config.Meter.Set(p.Table)
		}
	}
	// A pass that first repaired and then changed has both, and the change may be in
	// the table already: to follow it once more changes nothing.
	if !p.Delta.Empty() {
		r.local.change(p.Delta)
		if r.config.Meter != nil {
			r.config.Meter.Change(p.Delta)
		}
	}
	r.eachFamily(func(f string) {
		for _, policy := range []string{policyInternal, policyExternal} {
			r.passes.noLocal.WithLabelValues(policy, f).Set(float64(r.local.count(policy, f)))
		}
	})
}

// auditOnly tells whether nothing but the time, or somebody else, made the pass
// necessary.
func auditOnly(p agent.Report) bool {
	for _, c := range p.Causes {
		if c != agent.AuditDue && c != agent.KernelChanged {
			return false
		}
	}
	return true
}

func seconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }
