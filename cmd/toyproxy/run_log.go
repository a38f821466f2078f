package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/cluster/state"
	"github.com/toyproxy/toyproxy/cluster/workload"
	"github.com/toyproxy/toyproxy/controller"
	"github.com/toyproxy/toyproxy/dataplane"
)

// newLogger writes one line a message. A journal notes the time by itself.
func newLogger(w io.Writer) *slog.Logger {
	opts := &slog.HandlerOptions{}
	if os.Getenv("JOURNAL_STREAM") != "" {
		opts.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey && len(groups) == 0 {
				return slog.Attr{}
			}
			return a
		}
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

// diary implements agent.Observer: it logs what passes did.
type diary struct {
	log *slog.Logger
	sc  scope
	// told are the problems that have been told, noted the notes, failure the last
	// failure.
	told    map[string]bool
	noted   map[string]bool
	failure string
	// grown: more memory was needed than will be for long.
	grown  bool
	rested time.Time
	// unwritable: that problems cannot be written down has been told.
	unwritable bool
}

func newDiary(log *slog.Logger, sc scope) *diary {
	return &diary{log: log, sc: sc, told: map[string]bool{}, noted: map[string]bool{}}
}

// mostLines is how many changes of one kind are logged one by one.
const mostLines = 20

// Observe logs a pass that did something.
func (d *diary) Observe(r agent.Report) {
	d.problems(r.Problems)
	d.notes(r.Notes)
	d.each(slog.LevelWarn, "drift repaired", r.Drift)
	switch {
	case r.Err != nil && r.Err.Error() != d.failure:
		d.failure = r.Err.Error()
		d.log.Error("pass failed, it is tried again", "error", strings.ReplaceAll(d.failure, "\n", "; "))
	case r.Err == nil && d.failure != "":
		d.failure = ""
		d.log.Info("what failed has succeeded")
	}
	if len(r.Changes)+len(r.Drift)+r.Flows+r.PodsMade+r.PodsEnded == 0 && !has(r.Causes, agent.Started) {
		d.rest(r)
		return
	}
	d.grown = true
	add, update, remove := countChanges(r.Changes)
	d.log.Info("pass", "causes", causes(r.Causes), "took", r.Took.Round(100*time.Microsecond),
		"changes", fmt.Sprintf("+%d ~%d -%d", add, update, remove), "drift", len(r.Drift), "flows", r.Flows,
		"made", r.PodsMade, "ended", r.PodsEnded, "services", r.Services, "frontends", r.Frontends,
		"endpoints", r.Endpoints, "pods", r.Pods)
}

// restEvery is how often memory is given back to the system at least.
const restEvery = 30 * time.Second

// rest gives memory back to the system in the first pass that has nothing to do,
// and now and then.
func (d *diary) rest(r agent.Report) {
	if has(r.Causes, agent.AuditDue) && (d.grown || r.Started.Sub(d.rested) >= restEvery) {
		d.grown, d.rested = false, r.Started
		debug.FreeOSMemory()
	}
}

func has(causes []agent.Cause, c agent.Cause) bool {
	for _, have := range causes {
		if have == c {
			return true
		}
	}
	return false
}

func causes(cs []agent.Cause) string {
	var out []string
	for _, c := range cs {
		out = append(out, string(c))
	}
	return strings.Join(out, ",")
}

// each logs changes one by one, up to a number.
func (d *diary) each(level slog.Level, what string, changes []dataplane.Change) {
	for i, c := range changes {
		if i == mostLines {
			d.log.Log(context.Background(), level, what, "more", len(changes)-i)
			break
		}
		d.log.Log(context.Background(), level, what, "change", c.String(), "lines", strings.Join(c.Lines, " | "))
	}
}

// mostNotes is how many notes are remembered.
const mostNotes = 500

// notes logs each note once.
func (d *diary) notes(notes []string) {
	if len(d.noted) > mostNotes {
		clear(d.noted)
	}
	for _, n := range notes {
		if !d.noted[n] {
			d.noted[n] = true
			d.log.Info("note", "what", n)
		}
	}
}

// problems logs each problem once, and once that it is gone; other commands are told
// too, and events say so.
func (d *diary) problems(now []cluster.Problem) {
	if !d.sc.pod {
		if err := state.WriteProblems(d.sc.stateDir, now); err != nil && !d.unwritable {
			d.log.Warn("problems cannot be written down", "error", err.Error())
			d.unwritable = true
		}
	}
	present := map[string]bool{}
	for _, p := range now {
		text := p.String()
		present[text] = true
		if d.told[text] {
			continue
		}
		d.told[text] = true
		level := slog.LevelError
		if p.Warning {
			level = slog.LevelWarn
		}
		d.log.Log(context.Background(), level, "problem", "what", text)
		d.event(p)
	}
	for text := range d.told {
		if !present[text] {
			delete(d.told, text)
			d.log.Info("problem is gone", "what", text)
		}
	}
}

// event notes a problem of an object as its event.
func (d *diary) event(p cluster.Problem) {
	if d.sc.pod || p.Object.Name == "" {
		return
	}
	place := ""
	if at := p.Position.String(); at != "" {
		place = " (" + at + ")"
	}
	e := controller.Event{Object: p.Object, Warning: true, Reason: "Problem", Message: strings.TrimPrefix(p.Field+": "+p.Message, ": ") + place}
	_ = workload.Open(d.sc.stateDir).Note(e, "toyproxy") // the log has it
}
