package manifest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/toyproxy/toyproxy/cluster"
)

// standing is what a field of a manifest gets done.
type standing uint8

const (
	// honoured: the field does what Kubernetes says.
	honoured standing = iota + 1
	// kept: the field is passed on and asks for nothing.
	kept
	// later: accepted, reported; a later version acts on it.
	later
	// ignored: accepted, reported; nothing here can act on it.
	ignored
)

// String is the word that docs/support.md uses.
func (s standing) String() string {
	return [...]string{"", "honoured", "kept", "comes later", "ignored"}[s]
}

// entry is one row of the support table. It speaks of the field and of all
// fields below it that have no entry of their own.
type entry struct {
	// kind is empty in rows about all kinds.
	kind cluster.Kind
	// path has no indices: spec.ports.nodePort.
	path     string
	standing standing
	// unless are the values, the default mostly, that need no report because
	// they ask for what is done anyway.
	unless []string
	note   string
}

// support finds the entry of a field, by kind.
type support map[cluster.Kind]*supportNode

// supportNode is a field with an entry, or on the way to one.
type supportNode struct {
	entry    *entry
	children map[string]*supportNode
}

func newSupport() support {
	s := support{}
	for _, kind := range supportedKinds() {
		root := &supportNode{}
		for _, e := range supportTable() {
			if e.kind == "" || e.kind == kind {
				root.add(e)
				root.add(e.ofInit())
			}
			if makesPods(kind) && e.kind == cluster.Pod && strings.HasPrefix(e.path, "spec.") {
				e.path = "spec.template." + e.path
				root.add(e)
				root.add(e.ofInit())
			}
		}
		s[kind] = root
	}
	return s
}

// makesPods tells whether objects of a kind hold the template of a Pod.
func makesPods(kind cluster.Kind) bool {
	_, ok := workloadRules(kind)
	return ok
}

func supportedKinds() []cluster.Kind {
	return []cluster.Kind{cluster.Service, cluster.EndpointSlice, cluster.Pod, cluster.Deployment, cluster.ReplicaSet, cluster.StatefulSet,
		cluster.DaemonSet, cluster.ConfigMap, cluster.Secret, cluster.Ingress, cluster.IngressClass, cluster.GatewayClass, cluster.Gateway,
		cluster.HTTPRoute, cluster.ReferenceGrant, cluster.Node, cluster.Namespace}
}

// ofInit is the row of an init container for a row of a container: the same. Other
// rows stay what they are.
func (e entry) ofInit() entry {
	e.path = strings.Replace(e.path, "spec.containers.", "spec.initContainers.", 1)
	return e
}

func (n *supportNode) add(e entry) {
	for name := range strings.SplitSeq(e.path, ".") {
		if n.children == nil {
			n.children = map[string]*supportNode{}
		}
		if n.children[name] == nil {
			n.children[name] = &supportNode{}
		}
		n = n.children[name]
	}
	n.entry = &e
}

// warnings reports the fields that a manifest sets and nothing acts on, each
// once however many list items set it.
func (s support) warnings(it *item) []cluster.Problem {
	w := supportWarner{it: it, said: map[*entry]bool{}}
	w.value(it.root, s[it.ref.Kind], "")
	return w.problems
}

type supportWarner struct {
	it       *item
	said     map[*entry]bool
	problems []cluster.Problem
}

func (w *supportWarner) value(t *tree, n *supportNode, path string) {
	e := n.entry
	idle := e != nil && e.standing >= later
	if len(n.children) == 0 {
		if idle {
			w.report(t, e, path)
		}
		return
	}
	for i := range t.items {
		w.value(&t.items[i], n, path+"["+strconv.Itoa(i)+"]")
	}
	for i := range t.fields {
		f := &t.fields[i]
		if child := n.children[f.name]; child != nil {
			w.value(&f.value, child, join(path, f.name))
		} else if idle { // the entry speaks of what has none of its own
			w.report(&f.value, e, join(path, f.name))
		}
	}
}

func (w *supportWarner) report(t *tree, e *entry, path string) {
	if w.said[e] || t.empty() || slices.Contains(e.unless, t.text) && t.kind < mappingValue {
		return
	}
	w.said[e] = true
	what := ""
	if len(e.unless) > 0 && t.kind < mappingValue {
		what = t.text + " is "
	}
	yet := ""
	if e.standing == later {
		yet = " yet"
	}
	why := ""
	if e.note != "" {
		why = ": " + strings.ReplaceAll(e.note, "`", "")
	}
	w.problems = append(w.problems, w.it.warning(path, fmt.Sprintf("%saccepted, not acted on%s%s", what, yet, why)))
}

// empty reports whether a value sets nothing.
func (t *tree) empty() bool {
	switch t.kind {
	case mappingValue:
		return len(t.fields) == 0
	case listValue:
		return len(t.items) == 0
	case boolValue:
		return t.text == "false"
	case stringValue:
		return t.text == ""
	case intValue:
		return t.text == "0"
	}
	return t.kind == nullValue
}

// SupportDocument returns docs/support.md: what is done with each field.
func SupportDocument() string {
	var b strings.Builder
	b.WriteString(supportIntroduction)
	section := func(title string, kind cluster.Kind) {
		fmt.Fprintf(&b, "\n## %s\n\n| field | support | note |\n|---|---|---|\n", title)
		for _, e := range supportTable() {
			if e.kind != kind {
				continue
			}
			note := e.note
			if len(e.unless) > 0 && e.standing >= later {
				note = strings.TrimPrefix(note+"; `"+strings.Join(e.unless, "`, `")+"` needs no report", "; ")
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", e.path, e.standing, note)
		}
	}
	section("All objects", "")
	for _, kind := range supportedKinds() {
		section(string(kind), kind)
		if kind == cluster.Ingress {
			writeAnnotations(&b)
		}
	}
	return b.String()
}

// writeAnnotations writes the table of the annotations of an Ingress.
func writeAnnotations(b *strings.Builder) {
	fmt.Fprintf(b, "\nAnnotations of an Ingress that begin with `%s`, those of ingress-nginx: these are honoured, any other gets a warning.\n", annotationPrefix)
	b.WriteString("\n| annotation | note |\n|---|---|\n")
	for _, a := range annotationSupport() {
		fmt.Fprintf(b, "| `%s` | %s |\n", a.name, a.note)
	}
	fmt.Fprintf(b, "\nThese keep requests out, which is not supported: an Ingress with one of them is answered with 500. `%s`.\n", strings.Join(guardAnnotations(), "`, `"))
}

const supportIntroduction = `# Which fields do what

<!-- Generated from cluster/manifest/support_table.go: go test ./cluster/manifest -update -->

A row speaks of the field and of all fields below it that have no row of their own.

- **honoured**: does what Kubernetes says.
- **kept**: passed on as it is; it asks for nothing.
- **comes later**: accepted and checked, but not acted on yet; each object that sets it gets a warning.
- **ignored**: accepted and checked, never acted on, because there is nothing here that could; a warning too.

Fields that are not in the Kubernetes API are refused. Objects of other kinds are skipped with a warning.
`
