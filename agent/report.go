package agent

import (
	"time"

	"github.com/toyproxy/toyproxy/balance"
	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/dataplane"
)

// Cause is what made a pass of Run necessary.
type Cause string

// The causes of a pass.
const (
	// Started: the first pass of a process.
	Started Cause = "start"
	// ObjectsChanged: manifests, or objects that a command changed.
	ObjectsChanged Cause = "objects"
	// PodsChanged: a Pod came, went, or has another status.
	PodsChanged Cause = "pods"
	// KernelChanged: the kernel told that somebody changed it.
	KernelChanged Cause = "kernel"
	// AuditDue: the sync period is over.
	AuditDue Cause = "audit"
	// Retried: an earlier pass failed.
	Retried Cause = "retry"
	// Reloaded: SIGHUP, or the configuration changed.
	Reloaded Cause = "reload"
)

// tellsOfChange says whether objects are, or may be, others than before.
func (c Cause) tellsOfChange() bool {
	return c == Started || c == ObjectsChanged || c == PodsChanged || c == Reloaded
}

// Report is what one pass of Run did: a value for those who count and tell.
type Report struct {
	Started time.Time
	Took    time.Duration
	Causes  []Cause
	// Whole says that the kernel was compared with all of the table.
	Whole bool
	// Changes are those written to the kernel for changed objects.
	Changes []dataplane.Change
	// Drift is what an audit found wrong in the kernel: what others had changed.
	Drift []dataplane.Change
	// Notes are what plans have to tell beside their changes: what stays as it is, and
	// why.
	Notes []string
	// Flows is how many tracked flows were stale.
	Flows int
	// Err says what failed; it is tried again. Nil: the kernel is as it is to be,
	// Drift repaired.
	Err error
	// Settled says that the rules are those that the objects want, as far as the last
	// look at the kernel tells: what failed, if anything, was something else.
	Settled bool
	// Unrepaired is how many of Drift could not be put right.
	Unrepaired int
	// Oldest is when the oldest change of objects was noticed that this pass put
	// in force; zero when there was none.
	Oldest time.Time
	// Services, Frontends, Endpoints and Pods are how many there are.
	Services, Frontends, Endpoints, Pods int
	// Restarts is how often containers of living Pods were started again, in all.
	Restarts int
	// Backend is the name of the one in use: "nftables".
	Backend string
	// Table is the whole table that the pass put in force when it was Whole and did
	// not fail, and Delta the change of it when it was not Whole. They are shared:
	// read only.
	Table dataplane.Table
	Delta dataplane.Delta
	// ServiceChanges and EndpointChanges are how many changes of Services, and of
	// EndpointSlices or Pods, were noticed since the pass before.
	ServiceChanges, EndpointChanges int
	// PodsMade and PodsEnded are how many Pods the pass made and ended.
	PodsMade, PodsEnded int
	// Rolling is how many workloads have Pods of an older revision, or new ones that
	// are not available yet.
	Rolling int
	// Leaving says why load balancers are to send this node nothing more: it is
	// being deleted, or a taint announces that. Empty: they may.
	Leaving string
	// Checks are what load balancers are to be told, Problems all that is wrong with
	// the input now.
	Checks   []balance.HealthCheck
	Problems []cluster.Problem
}

// Observer is told of every pass of Run, by the goroutine that made it: it must
// not block.
type Observer interface {
	Observe(Report)
}

// Waiter is an Observer that is also told, by the same goroutine and before a pass,
// since when there are changes that the pass is to put in force.
type Waiter interface {
	Observer
	Waiting(since time.Time)
}
