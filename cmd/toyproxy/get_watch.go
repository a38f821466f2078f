package main

import (
	"io"
	"maps"
	"slices"
	"strings"
)

// watcher prints what changes, one line a change, as kubectl get -w does.
type watcher struct {
	g   *getFlags
	req request
	out io.Writer
	// shown are the objects of the last look.
	shown map[string]row
	// widths are those of the columns so far; begun tells whether a line was printed.
	widths []int
	begun  bool
}

// see looks at the objects anew and prints what is new, changed or gone.
func (w *watcher) see(read func() (look, error)) error {
	d, err := read()
	if err != nil {
		return err
	}
	next := map[string]row{}
	for _, v := range w.req.views {
		rows, _ := w.g.pick(w.req, v, d)
		if !w.begun { // what is there already stands in columns, its header too
			w.widen(w.header(v))
			for _, r := range rows {
				w.widen(w.cells(v, r))
			}
		}
		for _, r := range rows {
			key := v.plural + " " + r.namespace + "/" + r.name
			next[key] = r
			if old, ok := w.shown[key]; !ok || v.fingerprint(old) != v.fingerprint(r) {
				if err := w.print(v, r); err != nil {
					return err
				}
			}
		}
		if err := w.gone(v, next); err != nil {
			return err
		}
	}
	w.shown = next
	return nil
}

// gone prints a last time what is no longer there.
func (w *watcher) gone(v view, next map[string]row) error {
	for _, key := range slices.Sorted(maps.Keys(w.shown)) {
		if _, still := next[key]; still || !strings.HasPrefix(key, v.plural+" ") {
			continue
		}
		if err := w.print(v, w.shown[key]); err != nil {
			return err
		}
	}
	return nil
}

// print writes one object in the form that was asked for.
func (w *watcher) print(v view, r row) error {
	switch w.g.out.value {
	case "json", "yaml":
		one := w.req
		one.names = []string{r.name}
		return w.g.encode(w.out, one, []row{r})
	case "name":
		_, err := io.WriteString(w.out, r.resource+"/"+r.name+"\n")
		return err
	}
	if !w.begun && !w.g.noHeaders {
		if err := w.line(w.header(v)); err != nil {
			return err
		}
	}
	w.begun = true
	return w.line(w.cells(v, r))
}

func (w *watcher) header(v view) []string {
	return w.g.cells("NAMESPACE", v.header, v.wide, "LABELS")
}

// cells are the columns of an object.
func (w *watcher) cells(v view, r row) []string {
	cells := slices.Clone(r.cells)
	if len(w.req.views) > 1 {
		v.addKind(cells, r)
	}
	return w.g.cells(r.namespace, cells, r.wide, orNone(joinLabels(r.labels)))
}

// widen makes columns wide enough for these cells.
func (w *watcher) widen(cells []string) {
	for i, c := range cells {
		if i == len(w.widths) {
			w.widths = append(w.widths, 6)
		}
		w.widths[i] = max(w.widths[i], len(printable(c))+3)
	}
}

// line writes cells below those before: no column becomes narrower.
func (w *watcher) line(cells []string) error {
	var b strings.Builder
	w.widen(cells)
	for i, c := range cells {
		c = printable(c)
		if i == len(cells)-1 {
			b.WriteString(c)
		} else {
			b.WriteString(c + strings.Repeat(" ", w.widths[i]-len(c)))
		}
	}
	_, err := io.WriteString(w.out, b.String()+"\n")
	return err
}

// fingerprint is what a watcher compares: everything but what only time changes.
func (v view) fingerprint(r row) string {
	parts := pairs(r.labels, "=")
	for i, c := range r.cells {
		switch v.header[i] {
		case "AGE":
			continue
		case "LAST SEEN":
			c = "" // the count, among the wide columns, tells
		case "RESTARTS":
			c, _, _ = strings.Cut(c, " ")
		}
		parts = append(parts, c)
	}
	for i, c := range r.wide {
		if v.wide[i] != "FIRST SEEN" {
			parts = append(parts, c)
		}
	}
	return strings.Join(parts, "\x00")
}
