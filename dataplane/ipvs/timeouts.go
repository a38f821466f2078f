package ipvs

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

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
		if err := os.Remove(p.journal); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("record of IPVS timeouts: %w", err)
		}
	}
	return nil
}

// The commands and attributes for timeouts, from linux/ip_vs.h. The attributes are
// in the order of Timeouts.
const (
	setConfigCommand = 12
	getConfigCommand = 13
	timeoutAttribute = 4
)

// setTimeouts sets those that are not zero.
func setTimeouts(s seconds) error {
	k, err := openKernel()
	if err != nil {
		return err
	}
	defer k.close()
	var attributes []*nl.RtAttr
	for i, n := range s {
		attributes = append(attributes, nl.NewRtAttr(timeoutAttribute+i, nl.Uint32Attr(n)))
	}
	_, err = k.config(setConfigCommand, attributes...)
	return err
}

// timeouts reads what the kernel holds.
func (k *kernel) timeouts() (out seconds, err error) {
	answers, err := k.config(getConfigCommand)
	if err != nil {
		return out, err
	}
	for _, m := range answers {
		if len(m) < nl.SizeofGenlmsg {
			return out, fmt.Errorf("IPVS timeouts: message of %d bytes is too short", len(m))
		}
		err := eachAttribute(m[nl.SizeofGenlmsg:], func(typ int, value []byte) error {
			if i := typ - timeoutAttribute; i >= 0 && i < len(out) && len(value) == 4 {
				out[i] = binary.NativeEndian.Uint32(value)
			}
			return nil
		})
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// config makes a request about what all connections have in common.
func (k *kernel) config(command uint8, attributes ...*nl.RtAttr) ([][]byte, error) {
	req := nl.NewNetlinkRequest(int(k.family), unix.NLM_F_ACK)
	req.AddData(&nl.Genlmsg{Command: command, Version: ipvsVersion})
	for _, a := range attributes {
		req.AddData(a)
	}
	out, err := req.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil {
		return nil, fmt.Errorf("IPVS timeouts: %w", err)
	}
	return out, nil
}

func readTimeouts(path string) (r timeoutRecord, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		return r, fmt.Errorf("record of IPVS timeouts %s (delete it to leave them as they are): %w", path, err)
	}
	return r, nil
}

// writeTimeouts replaces the record by renaming: whoever comes after a kill reads
// the old one or the new one.
func writeTimeouts(path string, r timeoutRecord) error {
	b, err := json.Marshal(r)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err == nil {
		err = os.WriteFile(path+".new", append(b, '\n'), 0o644)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("record of IPVS timeouts: %w", err)
	}
	return nil
}
