package sysctl

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/toyproxy/toyproxy/dataplane"
)

// Setting is one kernel parameter and the value it has to have.
type Setting struct {
	// Key is the dotted name: "net.ipv4.vs.conntrack". When a part has a dot of
	// its own, as a VLAN link's name has, all separators are slashes, as
	// sysctl(8) takes it: "net/ipv4/conf/eth0.100/rp_filter".
	Key string
	// Want is the value. White space counts as one blank.
	Want string
	// Why is the reason, for people: "replies must be rewritten on the way back".
	Why string
	// Optional: a kernel that does not know the key needs no such setting.
	// Without it a missing key is an error.
	Optional bool
}

// record is one line of the journal: what a key held before we first touched
// it, and what we set it to last.
type record struct {
	Key string `json:"key"`
	Old string `json:"old"`
	Set string `json:"set"`
}

// write is one value to be written, and what people are told about it.
type write struct {
	record
	change dataplane.Change
}

// setPlan writes values, recording the old ones first.
type setPlan struct {
	writes  []write
	journal string
}

// restorePlan writes recorded values back and forgets them. Records without a
// value to write are only forgotten.
type restorePlan struct {
	writes  []write
	changes []dataplane.Change
	journal string
	remarks []string
	// damaged: the journal cannot be read and is set aside.
	damaged bool
}

// Remarks tells which values cannot be put back.
func (p *restorePlan) Remarks() []string { return p.remarks }

// Plan compares settings with the kernel and returns what has to be written, in
// the order of the settings. An optional key that the kernel lacks is passed
// over; a required one gives an error that wraps dataplane.ErrUnsupported. The
// journal is the path of the file that remembers old values; its folder is made
// when needed.
func Plan(settings []Setting, journal string) (dataplane.Plan, error) {
	plan := &setPlan{journal: journal}
	for _, s := range settings {
		now, exists, err := read(s.Key)
		switch {
		case err != nil:
			return nil, err
		case !exists && s.Optional:
			continue
		case !exists:
			return nil, missing(s)
		}
		if now != squeeze(s.Want) {
			plan.writes = append(plan.writes, setting(s, now))
		}
	}
	return plan, nil
}

// Restore returns the plan that puts back what the journal recorded, last change
// first, and removes the journal. A value that is no longer the one we set was
// changed by somebody else: it stays, and the plan says so. Without a journal
// there is nothing to do.
func Restore(journal string) (dataplane.Plan, error) {
	records, exists, err := readJournal(journal)
	if errors.Is(err, errDamaged) {
		return setAsidePlan(journal, err), nil
	}
	if err != nil {
		return nil, err
	}
	plan := &restorePlan{}
	if exists {
		plan.journal = journal
	}
	for i := len(records) - 1; i >= 0; i-- {
		now, known, err := read(records[i].Key)
		if err != nil {
			return nil, err
		}
		plan.add(records[i], now, known)
	}
	return plan, nil
}

// setAsidePlan is for a journal that cannot be read: what it held is lost.
func setAsidePlan(journal string, err error) *restorePlan {
	why := fmt.Sprintf("%v: the values from before are not known, so kernel parameters stay as they are; it is kept as %s.damaged", err, journal)
	return &restorePlan{journal: journal, damaged: true, remarks: []string{why},
		changes: []dataplane.Change{{Op: dataplane.Remove, Object: "sysctl journal " + journal, Reason: why}}}
}

// setting is the write that turns the value now into the one wanted.
func setting(s Setting, now string) write {
	want := squeeze(s.Want)
	return write{
		record: record{Key: s.Key, Old: now, Set: want},
		change: dataplane.Change{
			Op:     dataplane.Update,
			Object: "sysctl " + s.Key,
			Reason: fmt.Sprintf("is %s, want %s: %s", quote(now), quote(want), s.Why),
			Lines:  []string{fmt.Sprintf("- %s = %s", s.Key, now), fmt.Sprintf("+ %s = %s", s.Key, want)},
		},
	}
}

// add plans the fate of one record, given what the key holds now.
func (p *restorePlan) add(r record, now string, known bool) {
	c := dataplane.Change{Op: dataplane.Remove, Object: "record of sysctl " + r.Key}
	switch {
	case !known:
		c.Reason = "the kernel no longer has this key"
	case now == r.Old:
		c.Reason = fmt.Sprintf("holds its old value %s already", quote(now))
	case now != r.Set:
		c.Reason = fmt.Sprintf("is %s, not the %s that was set: somebody else changed it, so it stays; it was %s before",
			quote(now), quote(r.Set), quote(r.Old))
		p.remarks = append(p.remarks, "sysctl "+r.Key+" "+c.Reason)
	default:
		c.Op, c.Object = dataplane.Update, "sysctl "+r.Key
		c.Reason = "was " + quote(r.Old) + " before"
		c.Lines = []string{fmt.Sprintf("- %s = %s", r.Key, now), fmt.Sprintf("+ %s = %s", r.Key, r.Old)}
		p.writes = append(p.writes, write{record: r, change: c})
	}
	p.changes = append(p.changes, c)
}

// Changes lists the values to be written.
func (p *setPlan) Changes() []dataplane.Change {
	var out []dataplane.Change
	for _, w := range p.writes {
		out = append(out, w.change)
	}
	return out
}

// Apply records every old value, then writes the new ones. It stops at the
// first that fails; what was recorded stays recorded.
func (p *setPlan) Apply(ctx context.Context) error {
	if len(p.writes) == 0 {
		return nil
	}
	if err := p.remember(); err != nil {
		return err
	}
	for _, w := range p.writes {
		if err := put(ctx, w.Key, w.Set); err != nil {
			return err
		}
	}
	return nil
}

// remember adds the writes to the journal. A key that is recorded already keeps
// its first old value: what it holds now is our own earlier value, or drift.
func (p *setPlan) remember() error {
	records, _, err := readJournal(p.journal)
	if errors.Is(err, errDamaged) {
		err = setAside(p.journal)
	}
	if err != nil {
		return err
	}
	return writeJournal(p.journal, merge(records, p.writes))
}

func merge(records []record, writes []write) []record {
	at := make(map[string]int, len(records))
	for i, r := range records {
		at[r.Key] = i
	}
	for _, w := range writes {
		if i, ok := at[w.Key]; ok {
			records[i].Set = w.Set
			continue
		}
		at[w.Key] = len(records)
		records = append(records, w.record)
	}
	return records
}

// Changes lists what is put back, what is left, and why.
func (p *restorePlan) Changes() []dataplane.Change { return p.changes }

// Apply puts the values back, then removes the journal. After a failure the
// journal stays, so that the next Restore goes on.
func (p *restorePlan) Apply(ctx context.Context) error {
	for _, w := range p.writes {
		if err := put(ctx, w.Key, w.Old); err != nil {
			return err
		}
	}
	switch {
	case p.journal == "":
		return nil
	case p.damaged:
		return setAside(p.journal)
	}
	return removeJournal(p.journal)
}

func missing(s Setting) error {
	return &dataplane.Unsupported{
		Feature: "sysctl " + s.Key,
		Missing: path(s.Key),
		Mend:    fmt.Sprintf("load the module that brings it, or use a kernel that has it (needed: %s)", s.Why),
	}
}

// squeeze turns every run of white space into one blank: the kernel prints
// triples with tabs, people write them with blanks.
func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }

// quote shows an empty value and one of several words as one thing.
func quote(s string) string {
	if s == "" || strings.Contains(s, " ") {
		return fmt.Sprintf("%q", s)
	}
	return s
}

// path returns the file of a key. Like sysctl(8) it takes the first separator
// as the one that separates.
func path(key string) string {
	if i := strings.IndexAny(key, "./"); i >= 0 && key[i] == '.' {
		key = strings.ReplaceAll(key, ".", "/")
	}
	return "/proc/sys/" + key
}
