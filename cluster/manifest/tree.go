package manifest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/toyproxy/toyproxy/cluster"
)

// valueKind is what a YAML value is, before any Go type is known.
type valueKind uint8

const (
	nullValue valueKind = iota
	boolValue
	intValue
	floatValue
	stringValue
	mappingValue
	listValue
)

// String names the kind as messages do, with its article.
func (k valueKind) String() string {
	return [...]string{"null", "a boolean", "an integer", "a number", "a string", "a mapping", "a list"}[k]
}

// place is a line and column within a file, both from 1.
type place struct{ line, column int32 }

func (p place) in(file string) cluster.Position {
	return cluster.Position{File: file, Line: int(p.line), Column: int(p.column)}
}

// tree is one value of a manifest with the place where it stands. Aliases and
// merge keys are resolved; an aliased value stands where its anchor does.
type tree struct {
	kind valueKind
	// text is the value of a scalar as JSON means it: 8080, true, web.
	text   string
	at     place
	fields []member // of a mapping, in the order of the file
	items  []tree   // of a list
}

// member is one entry of a mapping; at is where its key stands.
type member struct {
	name  string
	at    place
	value tree
}

// get returns the value of a mapping's field, or nil.
func (t *tree) get(name string) *tree {
	if f := t.member(name); f != nil {
		return &f.value
	}
	return nil
}

func (t *tree) member(name string) *member {
	for i := range t.fields {
		if t.fields[i].name == name {
			return &t.fields[i]
		}
	}
	return nil
}

// textOf returns the string value of a field, or "".
func (t *tree) textOf(name string) string {
	if v := t.get(name); v != nil && v.kind == stringValue {
		return v.text
	}
	return ""
}

// find returns the place of a field path such as spec.ports[0].port or
// metadata.labels[app]; when the manifest has no such field, the place of the
// deepest part of the path that it has.
func (t *tree) find(path string) place {
	at := t.at
	for path != "" {
		var step string
		step, path = nextStep(path)
		next, nextAt := t.child(step)
		if next == nil {
			return at
		}
		t, at = next, nextAt
	}
	return at
}

// child takes one step of a path. The place of a mapping's scalar is the value
// itself, because that is what is wrong with it; of anything bigger, its key.
func (t *tree) child(step string) (*tree, place) {
	if t.kind == listValue {
		var i int
		if _, err := fmt.Sscanf(step, "%d", &i); err != nil || i < 0 || i >= len(t.items) {
			return nil, place{}
		}
		return &t.items[i], t.items[i].at
	}
	f := t.member(step)
	switch {
	case f == nil:
		return nil, place{}
	case f.value.kind == mappingValue || f.value.kind == listValue || f.value.kind == nullValue:
		return &f.value, f.at
	}
	return &f.value, f.value.at
}

// nextStep splits the first name, index or key off a field path. Keys stand in
// brackets because label keys may hold dots.
func nextStep(path string) (step, rest string) {
	if key, ok := strings.CutPrefix(path, "["); ok {
		step, rest, _ = strings.Cut(key, "]")
		return step, strings.TrimPrefix(rest, ".")
	}
	end := strings.IndexAny(path, ".[")
	if end < 0 {
		return path, ""
	}
	return path[:end], strings.TrimPrefix(path[end:], ".")
}

// lacks returns the paths of the mappings' fields that are not there, for a path
// such as spec.from[].group, with its indices. What the last field would be part
// of may be missing.
func (t *tree) lacks(path, at string) (missing []string) {
	name, rest, more := strings.Cut(path, ".")
	name, each := strings.CutSuffix(name, "[]")
	if t.kind != mappingValue {
		return nil
	}
	v, at := t.get(name), join(at, name)
	switch {
	case (v == nil || v.kind == nullValue) && !more:
		return []string{at}
	case v == nil || !more:
		return nil
	case !each:
		return v.lacks(rest, at)
	}
	for i := range v.items {
		missing = append(missing, v.items[i].lacks(rest, at+"["+strconv.Itoa(i)+"]")...)
	}
	return missing
}
