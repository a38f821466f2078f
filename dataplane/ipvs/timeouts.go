package ipvs

import (
	"context"
	"fmt"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
)

// Timeouts are how long IPVS keeps a silent connection: an open TCP connection,
// one that has seen a FIN, and what it takes for one in UDP. The kernel counts in
// seconds; parts of one count as a whole. Zero leaves a timeout as it is.
type Timeouts struct {
	TCP, TCPFin, UDP time.Duration
}

// seconds are the timeouts as the kernel holds them, in the order of Timeouts.
type seconds [3]uint32

func (t Timeouts) seconds() (out seconds, err error) {
	for i, d := range [3]time.Duration{t.TCP, t.TCPFin, t.UDP} {
		if d < 0 || d > mostTimeout {
			return out, fmt.Errorf("IPVS timeout %s: %s is out of range, want 0 to %s", timeoutName(i), d, mostTimeout)
		}
		out[i] = wholeSeconds(d)
	}
	return out, nil
}

// mostTimeout is the longest timeout that all kernels take.
const mostTimeout = 24 * 24 * time.Hour

func timeoutName(i int) string { return [3]string{"tcp", "tcpfin", "udp"}[i] }

// timeoutRecord is what a file remembers: what the timeouts were before we changed
// them, and what we set. Zero stands for one that we left alone.
type timeoutRecord struct {
	Old seconds `json:"old"`
	Set seconds `json:"set"`
}

// timeoutPlan sets timeouts, after it has recorded what they were. It implements
// dataplane.Plan.
type timeoutPlan struct {
	// set are the values to write; zero leaves one as it is.
	set     seconds
	record  timeoutRecord
	journal string
	// forget: nothing is left to remember.
	forget  bool
	changes []dataplane.Change
	remarks []string
}

// planTimeouts compares what is asked for with the kernel. What was set earlier and
// is no longer asked for is put back, unless somebody else has changed it since.
func planTimeouts(want, now seconds, past timeoutRecord, journal string) *timeoutPlan {
	p := &timeoutPlan{record: past, journal: journal}
	for i := range want {
		switch old := past.Old[i]; {
		case want[i] != 0:
			if old == 0 && want[i] != now[i] {
				p.record.Old[i] = now[i]
			}
			if p.record.Old[i] != 0 {
				p.record.Set[i] = want[i]
			}
			p.change(i, now[i], want[i], "")
		case old != 0 && now[i] == past.Set[i]:
			p.record.Old[i], p.record.Set[i] = 0, 0
			p.change(i, now[i], old, ", as before")
		case old != 0:
			p.record.Old[i], p.record.Set[i] = 0, 0
			p.remarks = append(p.remarks, fmt.Sprintf("IPVS timeout %s is %d s and not the %d s that were set: somebody else has changed it, it stays",
				timeoutName(i), now[i], past.Set[i]))
		}
	}
	p.forget = p.record == timeoutRecord{} && past != timeoutRecord{}
	return p
}

func (p *timeoutPlan) change(i int, now, want uint32, why string) {
	if now == want {
		return
	}
	p.set[i] = want
	p.changes = append(p.changes, dataplane.Change{Op: dataplane.Update, Object: "IPVS timeout " + timeoutName(i),
		Reason: fmt.Sprintf("is %d s, want %d s%s", now, want, why)})
}

// Changes lists the timeouts that change, or that a record of them goes.
func (p *timeoutPlan) Changes() []dataplane.Change {
	if len(p.changes) == 0 && p.forget {
		return []dataplane.Change{{Op: dataplane.Remove, Object: "record of IPVS timeouts", Reason: "nothing is left to put back"}}
	}
	return p.changes
}

// Remarks tells which timeouts cannot be put back.
func (p *timeoutPlan) Remarks() []string { return p.remarks }

// Apply records, and then sets. The record goes last.
func (p *timeoutPlan) Apply(context.Context) error {
	if len(p.Changes()) == 0 {
		return nil
	}
	if !p.forget && p.record != (timeoutRecord{}) {
		if err := writeTimeouts(p.journal, p.record); err != nil {
			return err
		}
	}
	if p.set != (seconds{}) {
		if err := setTimeouts(p.set); err != nil {
			return err
		}
	}
	if p.forget {
		return forgetTimeouts(p.journal)
	}
	return nil
}
