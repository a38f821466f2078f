package manifest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Bounds that no real manifest meets and no alias bomb passes.
const (
	// maxObjectBytes is what kube-apiserver takes in one request, as JSON.
	maxObjectBytes = 3 << 20
	maxDepth       = 100
	// sparedNodes is how many values a document may hold by aliases beyond
	// four times those that are written in it.
	sparedNodes = 1 << 18
)

// fault is one thing wrong with a document, before its object is known.
type fault struct {
	at      place
	path    string
	message string
}

// expander turns the YAML nodes of one document into a tree, resolving aliases
// and merge keys. Faults of the parts are collected; only a document that is
// too big or too deep ends it.
type expander struct {
	lineOffset int
	left       int // values that may still be visited
	faults     []fault
}

// expand returns the tree of one document whose first line is line offset+1.
func expand(doc *yaml.Node, lineOffset int) (tree, []fault) {
	e := expander{lineOffset: lineOffset, left: 4*countNodes(doc) + sparedNodes}
	t := e.value(doc, "", 0)
	return t, e.faults
}

func countNodes(n *yaml.Node) int {
	sum := 1
	for _, c := range n.Content {
		sum += countNodes(c)
	}
	return sum
}

func (e *expander) place(n *yaml.Node) place {
	return place{int32(n.Line + e.lineOffset), int32(n.Column)}
}

func (e *expander) fault(n *yaml.Node, path, format string, args ...any) {
	e.faults = append(e.faults, fault{e.place(n), path, fmt.Sprintf(format, args...)})
}

func (e *expander) value(n *yaml.Node, path string, depth int) tree {
	if e.left--; e.left < 0 || depth > maxDepth {
		// Said once: everything after it is too much as well.
		if e.left >= -1 {
			e.fault(n, path[:min(len(path), 80)], "aliases or nesting make this document too big; write the values out")
		}
		e.left = min(e.left, -2)
		return tree{at: e.place(n)}
	}
	switch n.Kind {
	case yaml.DocumentNode:
		return e.value(n.Content[0], path, depth)
	case yaml.AliasNode:
		return e.value(n.Alias, path, depth+1)
	case yaml.MappingNode:
		return e.mapping(n, path, depth)
	case yaml.SequenceNode:
		t := tree{kind: listValue, at: e.place(n), items: make([]tree, len(n.Content))}
		for i, c := range n.Content {
			t.items[i] = e.value(c, path+"["+strconv.Itoa(i)+"]", depth+1)
		}
		return t
	}
	return e.scalar(n, path)
}

// mapping reads the entries of a mapping. An entry of its own wins over one
// that a merge key brings in; of merged mappings the first wins.
func (e *expander) mapping(n *yaml.Node, path string, depth int) tree {
	t := tree{kind: mappingValue, at: e.place(n), fields: make([]member, 0, len(n.Content)/2)}
	seen := make(map[string]place, len(n.Content)/2)
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Tag == "!!merge" {
			merged = append(merged, value)
			continue
		}
		name, ok := e.key(key, path)
		if !ok {
			continue
		}
		if first, twice := seen[name]; twice {
			e.fault(key, join(path, name), "key %q stands twice in this mapping, first in line %d; keep one", name, first.line)
			continue
		}
		seen[name] = e.place(key)
		t.fields = append(t.fields, member{name, e.place(key), e.value(value, join(path, name), depth+1)})
	}
	for _, m := range merged {
		e.merge(&t, m, seen, depth+1)
	}
	return t
}

// merge adds the fields of a merge key's mapping, or list of mappings.
func (e *expander) merge(t *tree, n *yaml.Node, seen map[string]place, depth int) {
	from := e.value(n, "", depth)
	sources := []tree{from}
	if from.kind == listValue {
		sources = from.items
	}
	for _, s := range sources {
		if s.kind != mappingValue {
			e.fault(n, "", "a merge key (<<) takes a mapping or a list of mappings, not %s", s.kind)
			return
		}
		for _, f := range s.fields {
			if _, there := seen[f.name]; !there {
				seen[f.name] = f.at
				t.fields = append(t.fields, f)
			}
		}
	}
}

// key returns the name of a mapping entry. Numbers and booleans are taken as
// the text they are, as kubectl does.
func (e *expander) key(n *yaml.Node, path string) (string, bool) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.ScalarNode {
		e.fault(n, path, "the key of a mapping must be a string; {{ }} of a template must be rendered or quoted")
		return "", false
	}
	t := e.scalar(n, path)
	if t.kind == nullValue {
		e.fault(n, path, "a key of this mapping is null; give it a name, or quote it")
		return "", false
	}
	return t.text, true
}

func (e *expander) scalar(n *yaml.Node, path string) tree {
	t := tree{at: e.place(n), kind: stringValue, text: n.Value}
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		if n.Style == 0 && n.Tag == "!!str" {
			t.kind, t.text = oldBoolean(n.Value)
		}
	case "!!null":
		t.kind, t.text = nullValue, ""
	case "!!bool":
		t.kind, t.text = boolValue, strings.ToLower(n.Value)
	case "!!int":
		t.kind, t.text = e.integer(n, path)
	case "!!float":
		t.kind, t.text = e.float(n, path)
	case "!!binary":
		data, err := base64.StdEncoding.DecodeString(n.Value)
		if err != nil {
			e.fault(n, path, "!!binary value is not base64: %v", err)
		}
		t.text = string(data)
	default:
		e.fault(n, path, "YAML tag %s means nothing in a manifest; remove it", n.Tag)
	}
	return t
}

// oldBoolean gives the plain words of YAML 1.1 the meaning that kubectl gives
// them, so that a manifest means here what it means there.
func oldBoolean(word string) (valueKind, string) {
	switch word {
	case "y", "Y", "yes", "Yes", "YES", "on", "On", "ON":
		return boolValue, "true"
	case "n", "N", "no", "No", "NO", "off", "Off", "OFF":
		return boolValue, "false"
	}
	return stringValue, word
}

func (e *expander) integer(n *yaml.Node, path string) (valueKind, string) {
	plain := strings.ReplaceAll(n.Value, "_", "")
	if i, err := strconv.ParseInt(plain, 0, 64); err == nil {
		return intValue, strconv.FormatInt(i, 10)
	}
	if u, err := strconv.ParseUint(plain, 0, 64); err == nil {
		return intValue, strconv.FormatUint(u, 10)
	}
	return e.float(n, path)
}

func (e *expander) float(n *yaml.Node, path string) (valueKind, string) {
	f, err := strconv.ParseFloat(strings.ReplaceAll(n.Value, "_", ""), 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		e.fault(n, path, "%s is not a number that JSON has", n.Value)
		return nullValue, ""
	}
	text, _ := json.Marshal(f) // finite, so it marshals
	return floatValue, string(text)
}

// join appends a mapping key to a field path; a key that is not a plain field
// name goes into brackets.
func join(path, name string) string {
	if strings.ContainsAny(name, "./[]") {
		return path + "[" + name + "]"
	}
	if path == "" {
		return name
	}
	return path + "." + name
}
