package main

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/toyproxy/toyproxy/cluster"
)

// noteViews are those of what was noted about objects.
func noteViews() []view {
	return []view{
		{[]string{"events", "event", "ev"}, "events",
			[]string{"LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"}, []string{"SOURCE", "FIRST SEEN", "COUNT", "NAME"}, eventRows},
		{[]string{"problems", "problem"}, "problems",
			[]string{"WHERE", "SEVERITY", "OBJECT", "FIELD", "MESSAGE"}, nil, problemRows},
	}
}

func eventRows(d look) []row {
	var rows []row
	for _, e := range d.events {
		rows = append(rows, row{"event", e.Namespace, e.Name, e.Labels,
			[]string{age(e.LastTimestamp), e.Type, e.Reason, involved(e), strings.TrimSpace(e.Message)},
			[]string{orNone(e.Source.Component), age(e.FirstTimestamp), number(e.Count), e.Name}, typed(e, "v1", "Event")})
	}
	return rows
}

// involved is the object that an event is about: pod/web-1.
func involved(e *corev1.Event) string {
	return strings.ToLower(e.InvolvedObject.Kind) + "/" + e.InvolvedObject.Name
}

// lastSeen is how long ago an event was, and how often it was: "5s (x3 over 2m)".
func lastSeen(e *corev1.Event) string {
	last := age(e.LastTimestamp)
	if e.Count <= 1 {
		return last
	}
	return fmt.Sprintf("%s (x%d over %s)", last, e.Count, duration.HumanDuration(time.Since(e.FirstTimestamp.Time)))
}

func problemRows(d look) []row {
	shown := problemsJSON(d.noted)
	rows := make([]row, len(shown))
	for i, p := range shown {
		o := d.noted[i].Object
		rows[i] = row{"problem", o.Namespace, o.Name, nil,
			[]string{orNone(p.Position.String()), p.Severity, orNone(shortRef(o)), orNone(p.Field), p.Message}, nil, p}
	}
	return rows
}

// shortRef is an object as people type it: deployment/web.
func shortRef(o cluster.Ref) string {
	if o.Name == "" {
		return ""
	}
	return strings.ToLower(string(o.Kind)) + "/" + o.Name
}
