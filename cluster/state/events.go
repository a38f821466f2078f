package state

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
)

const (
	// eventsKept is how many events there may be, eventAge how old they may grow.
	eventsKept = 1000
	eventAge   = time.Hour
	// pruneEvery is how many events are noted between two looks for old ones.
	pruneEvery = 64
)

// Happening is something that happened to an object, to be noted as an event.
type Happening struct {
	Object cluster.Ref
	// UID and APIVersion are those of the object; both may be empty.
	UID        types.UID
	APIVersion string
	// Warning: the event is of type Warning, else Normal.
	Warning bool
	// Reason is one word ("Unhealthy"), Message a sentence.
	Reason, Message string
	// Component says who noticed: "pause", "deployment-controller".
	Component string
}

// Events are what happened to the objects of a node, as kubectl get events shows
// it: one file each, at most a thousand, for an hour. What happens again counts
// up. Any number of processes may note events.
type Events struct {
	dir Dir[*corev1.Event]
	// noted counts what this process has noted, to look for old ones now and then.
	noted *atomic.Int64
}

// OpenEvents returns the events below a state directory.
func OpenEvents(stateDir string) Events {
	return Events{Open(stateDir, "events", func() *corev1.Event { return &corev1.Event{} }), new(atomic.Int64)}
}

// Path is where the files are. It may not exist.
func (e Events) Path() string { return e.dir.Path() }

// Note writes down what happened at a time; what has happened before is counted.
func (e Events) Note(h Happening, now time.Time) error {
	at := metav1.NewTime(now.Truncate(time.Second))
	name := types.NamespacedName{Namespace: cmp.Or(h.Object.Namespace, "default"), Name: h.name()}
	err := e.dir.Update(name, func(old *corev1.Event, exists bool) (*corev1.Event, bool) {
		if exists && now.Sub(old.LastTimestamp.Time) < eventAge {
			old.Count++
			old.LastTimestamp = at
			old.Series = &corev1.EventSeries{Count: old.Count, LastObservedTime: metav1.NewMicroTime(now)}
			return old, true
		}
		return h.event(name, now), true
	})
	if e.noted.Add(1)%pruneEvery == 1 {
		err = errors.Join(err, e.prune(now))
	}
	return err
}

// name is the same for what counts as the same event.
func (h Happening) name() string {
	kind := "n"
	if h.Warning {
		kind = "w"
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{h.Object.String(), string(h.UID), kind, h.Reason, h.Message, h.Component}, "\x00")))
	return h.Object.Name + "." + hex.EncodeToString(sum[:8])
}

func (h Happening) event(name types.NamespacedName, now time.Time) *corev1.Event {
	at := metav1.NewTime(now.Truncate(time.Second))
	ev := &corev1.Event{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name, CreationTimestamp: at},
		InvolvedObject: corev1.ObjectReference{APIVersion: h.APIVersion, Kind: string(h.Object.Kind), Namespace: h.Object.Namespace,
			Name: h.Object.Name, UID: h.UID},
		Reason: h.Reason, Message: h.Message, Source: corev1.EventSource{Component: h.Component},
		FirstTimestamp: at, LastTimestamp: at, EventTime: metav1.NewMicroTime(now), Count: 1, Type: corev1.EventTypeNormal,
	}
	if h.Warning {
		ev.Type = corev1.EventTypeWarning
	}
	return ev
}

// List returns the events that are younger than an hour, in the order in which they
// happened last.
func (e Events) List(now time.Time) ([]*corev1.Event, error) {
	all, err := e.dir.List()
	var corrupt *CorruptError
	if errors.As(err, &corrupt) {
		err = nil // an event that cannot be read is no loss
	}
	all = slices.DeleteFunc(all, func(ev *corev1.Event) bool { return now.Sub(ev.LastTimestamp.Time) >= eventAge })
	slices.SortStableFunc(all, func(a, b *corev1.Event) int { return lastTime(a).Compare(lastTime(b)) })
	return all, err
}

// lastTime is when an event happened last, to the microsecond.
func lastTime(ev *corev1.Event) time.Time {
	if ev.Series != nil {
		return ev.Series.LastObservedTime.Time
	}
	return ev.EventTime.Time
}

// prune removes what is too old, and the oldest of too many.
func (e Events) prune(now time.Time) error {
	entries, err := os.ReadDir(e.dir.path)
	if err != nil {
		return err
	}
	type aged struct {
		path string
		at   time.Time
	}
	var files []aged
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && strings.HasSuffix(entry.Name(), ".json") {
			files = append(files, aged{filepath.Join(e.dir.path, entry.Name()), info.ModTime()})
		}
	}
	slices.SortFunc(files, func(a, b aged) int { return a.at.Compare(b.at) })
	for i, f := range files {
		if len(files)-i <= eventsKept && now.Sub(f.at) < eventAge {
			break
		}
		if err := os.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
