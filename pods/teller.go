package pods

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/cluster/state"
)

// maxNotes is how long the log of a pause process may grow, in bytes.
const maxNotes = 256 << 10

// mostNotes bounds how many wait to be made events.
const mostNotes = 50

// teller writes down how the containers of a Pod are. A goroutine of its own
// writes, so that no lock and no disk keeps the Pod from being supervised: what
// it is behind with is left out, but for the last.
type teller struct {
	dir    state.Dir[*corev1.Pod]
	events state.Events
	uid    types.UID
	path   string
	id     types.NamespacedName
	me     process
	last   []byte
	latest chan news
	done   chan struct{}
	log    io.Writer
}

// news is what is to be written.
type news struct {
	report report
	// notes are new, at a time.
	notes []note
	at    time.Time
}

func newTeller(pod *corev1.Pod, stateDir string, me process) *teller {
	id := idOf(pod)
	t := &teller{dir: state.OpenPods(stateDir), events: state.OpenEvents(stateDir), uid: pod.UID, path: reportPath(stateDir, id.Namespace, id.Name), id: id, me: me,
		latest: make(chan news, 1), done: make(chan struct{}), log: os.Stderr}
	if log, err := openBoundedLog(LogPath(stateDir, id.Namespace, id.Name, "pause"), maxNotes); err == nil {
		t.log = log
	}
	go t.run()
	return t
}

// tell hands over the state of the containers, if it is another one, and what was
// done to them.
func (t *teller) tell(s *supervisor, now time.Time) {
	for _, n := range s.notes {
		fmt.Fprintf(t.log, "%s %s: %s: %s\n", now.UTC().Format(time.RFC3339), n.container, n.reason, n.message)
	}
	next := news{report: report{process: t.me, Expired: s.expired}, notes: s.notes, at: now}
	s.notes = nil
	for _, u := range s.units {
		next.report.Containers = append(next.report.Containers, u.tell())
	}
	text, err := json.Marshal(next.report)
	if err == nil && bytes.Equal(text, t.last) && len(next.notes) == 0 {
		return
	}
	t.last, next.report.Changed = text, now
	select {
	case old := <-t.latest: // it was not written yet
		next.notes = append(old.notes, next.notes...)
		next.notes = next.notes[max(0, len(next.notes)-mostNotes):]
	default:
	}
	t.latest <- next
}

// close waits for what is being written, but not for ever.
func (t *teller) close() {
	close(t.latest)
	select {
	case <-t.done:
	case <-time.After(time.Second):
	}
}

func (t *teller) run() {
	defer close(t.done)
	for n := range t.latest {
		if err := errors.Join(t.save(n.report), t.note(n)); err != nil {
			// There is nobody to tell but the log.
			fmt.Fprintf(os.Stderr, "pause: %v\n", err)
		}
	}
}

// note makes events of what was done.
func (t *teller) note(n news) error {
	var errs []error
	for _, one := range n.notes {
		errs = append(errs, t.events.Note(state.Happening{
			Object: cluster.MakeRef(cluster.Pod, t.id.Namespace, t.id.Name), UID: t.uid, APIVersion: "v1",
			Warning: one.warning, Reason: one.reason, Message: "container " + one.container + ": " + one.message, Component: "pause",
		}, n.at))
	}
	return errors.Join(errs...)
}

// save writes the report for those who started us, and the status for everybody.
func (t *teller) save(rep report) error {
	data, err := json.MarshalIndent(rep, "", "  ")
	if err != nil {
		return fmt.Errorf("JSON of the report: %w", err)
	}
	return errors.Join(
		// The status first: who has read the report finds it.
		saveStatus(t.dir, t.id, rep),
		state.WriteFile(t.path, data))
}

// saveStatus writes a report into the kept Pod, so that other processes see it,
// and leaves all else of it as others have written it. A Pod that is no longer
// kept is being deleted, and stays so.
func saveStatus(dir state.Dir[*corev1.Pod], name types.NamespacedName, rep report) error {
	return dir.Update(name, func(p *corev1.Pod, exists bool) (*corev1.Pod, bool) {
		if exists {
			setStatus(p, rep)
		}
		return p, exists
	})
}
