package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/toyproxy/toyproxy/cluster/state"
)

// eventsFlags are those of kubectl events.
type eventsFlags struct {
	place     placeFlags
	all       bool
	about     string
	types     []string
	watch     bool
	noHeaders bool
	out       outputFlag
}

func eventsCommand() *cobra.Command {
	var f eventsFlags
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Show what happened to objects in the last hour",
		Example: `  toyproxy events
  toyproxy events --for deploy/web -w
  toyproxy events -A --types Warning`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			keep, err := f.filter()
			if err != nil {
				return exit(exitUsage, err)
			}
			return f.run(cmd, keep)
		},
	}
	f.place.register(cmd)
	fl := cmd.Flags()
	fl.BoolVarP(&f.all, "all-namespaces", "A", false, "events of all namespaces")
	fl.StringVar(&f.about, "for", "", "only events about this object: KIND/NAME")
	fl.StringSliceVar(&f.types, "types", nil, "only events of these types: Normal, Warning")
	fl.BoolVarP(&f.watch, "watch", "w", false, "go on and print events as they happen")
	fl.BoolVar(&f.noHeaders, "no-headers", false, "leave out the header line")
	f.out.register(cmd, "json", "yaml", "name")
	return cmd
}

// filter returns which events are asked for.
func (f *eventsFlags) filter() (func(*corev1.Event) bool, error) {
	for _, t := range f.types {
		if !slices.ContainsFunc([]string{corev1.EventTypeNormal, corev1.EventTypeWarning}, sameWord(t)) {
			return nil, fmt.Errorf("there is no type %q: use Normal or Warning", t)
		}
	}
	var about *target
	if f.about != "" {
		_, targets, err := liveKinds().parse([]string{f.about}, f.place.namespace)
		if err != nil {
			return nil, err
		}
		if len(targets) != 1 {
			return nil, fmt.Errorf("--for %s: want KIND/NAME", f.about)
		}
		about = &targets[0]
	}
	return func(e *corev1.Event) bool {
		ofType := len(f.types) == 0 || slices.ContainsFunc(f.types, sameWord(e.Type))
		ofObject := about == nil || e.InvolvedObject.Name == about.Name && e.InvolvedObject.Kind == string(about.Kind)
		return ofType && ofObject && (f.all || e.Namespace == f.place.namespace)
	}, nil
}

// sameWord tells whether a word is another one, whatever its case.
func sameWord(word string) func(string) bool {
	return func(other string) bool { return strings.EqualFold(word, other) }
}

func (f *eventsFlags) run(cmd *cobra.Command, keep func(*corev1.Event) bool) error {
	kept := state.OpenEvents(f.place.stateDir())
	read := func() ([]*corev1.Event, error) {
		all, err := kept.List(time.Now())
		return slices.DeleteFunc(all, func(e *corev1.Event) bool { return !keep(e) }), err
	}
	if !f.watch {
		events, err := read()
		if err != nil {
			return err
		}
		return f.print(cmd, events)
	}
	counts := map[types.NamespacedName]int32{}
	begun := false
	return eachChange(cmd.Context(), f.place.stateDir(), nil, func() (bool, error) {
		events, err := read()
		events = slices.DeleteFunc(events, func(e *corev1.Event) bool {
			name := types.NamespacedName{Namespace: e.Namespace, Name: e.Name}
			known := counts[name] == e.Count
			counts[name] = e.Count
			return known
		})
		if err != nil || len(events) == 0 {
			return false, err
		}
		header := !begun && !f.noHeaders
		begun = true
		if f.out.value == "" {
			return false, f.table(cmd.OutOrStdout(), events, header)
		}
		return false, f.print(cmd, events)
	})
}

func (f *eventsFlags) print(cmd *cobra.Command, events []*corev1.Event) error {
	w := cmd.OutOrStdout()
	switch f.out.value {
	case "json", "yaml":
		items := make([]any, len(events))
		for i, e := range events {
			items[i] = typed(e, "v1", "Event")
		}
		value := list{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "List"}, Items: items}
		if f.out.isJSON() {
			return printJSON(w, value)
		}
		text, err := yaml.Marshal(value)
		if err != nil {
			return fmt.Errorf("YAML of the events: %w", err)
		}
		_, err = w.Write(text)
		return err
	case "name":
		for _, e := range events {
			fmt.Fprintf(w, "event/%s\n", e.Name)
		}
		return nil
	}
	if len(events) == 0 {
		where := f.place.namespace + " namespace"
		if f.all {
			where = "any namespace"
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "No events found in %s.\n", where)
		return nil
	}
	return f.table(w, events, !f.noHeaders)
}

func (f *eventsFlags) table(w io.Writer, events []*corev1.Event, header bool) error {
	c := newColumns(w)
	row := func(namespace string, cells ...string) {
		if f.all {
			cells = append([]string{namespace}, cells...)
		}
		c.row(cells...)
	}
	if header {
		row("NAMESPACE", "LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE")
	}
	for _, e := range events {
		row(e.Namespace, lastSeen(e), e.Type, e.Reason, e.InvolvedObject.Kind+"/"+e.InvolvedObject.Name, strings.TrimSpace(e.Message))
	}
	return c.flush()
}
