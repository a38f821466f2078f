package manifest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/toyproxy/toyproxy/cluster"
)

// raw is one object as written: a tree, not yet of a Go type.
type raw struct {
	file string
	// root is nil once it has been given up; tree has it in any case.
	root   *tree
	from   origin
	faults []fault // with paths within this object
	// kind and apiVersion are those of the manifest, or of the typed List
	// (ServiceList) that the object stood in without its own.
	kind, apiVersion string
}

// origin is where an object stands: its tree can be read from there again. The trees
// of all objects take several times as much memory as the objects and their text.
type origin struct {
	chunk chunk
	// document is its place among the documents of the chunk, and items are those in
	// the Lists around it, from the outside in.
	document int
	items    []int
	// at is where the tree begins.
	at place
}

// maxReread is the longest text, in bytes, that is read again for the sake of one
// position: some twenty objects. What stands in a longer one keeps its tree.
const maxReread = 16 << 10

// giveUp gives up the tree of an object that has been decoded: it is seldom needed
// again, and then read again.
func (r raw) giveUp() raw {
	if size := len(r.from.chunk.text); size > 0 && size <= maxReread {
		r.from.at, r.root = r.root.at, nil
	}
	return r
}

// tree returns the object as written.
func (r raw) tree() *tree {
	if r.root != nil {
		return r.root
	}
	docs, _ := r.from.chunk.parse()
	t := &docs[r.from.document].root
	for _, i := range r.from.items {
		t = &t.get("items").items[i]
	}
	return t
}

// place returns where a field stands, or what is left of it.
func (r raw) place(path string) place {
	if r.root == nil && path == "" {
		return r.from.at
	}
	return r.tree().find(path)
}

// named names the object as far as it can be read and printed, for problems.
func (r raw) named() cluster.Ref {
	meta := r.tree().get("metadata")
	if meta == nil || r.kind == "" || meta.textOf("name") == "" {
		return cluster.Ref{}
	}
	ns := meta.textOf("namespace")
	if whole := r.kind + ns + meta.textOf("name"); strconv.Quote(whole) != `"`+whole+`"` {
		return cluster.Ref{} // a newline would forge a line of output
	}
	if rules, ours := rulesOf(cluster.Kind(r.kind)); ns == "" && (rules.namespaced || !ours) {
		ns = defaultNamespace
	}
	return cluster.MakeRef(cluster.Kind(r.kind), ns, meta.textOf("name"))
}

// problem says what is wrong with a field of the object.
func (r raw) problem(path, message string) cluster.Problem {
	path = r.asWritten(path)
	return cluster.Problem{Position: r.place(path).in(r.file), Object: r.named(), Field: path, Message: message}
}

// asWritten turns a path within a list into that of the old singular field,
// when that is the one which the manifest sets.
func (r raw) asWritten(path string) string {
	for _, singular := range []string{"spec.clusterIP", "status.podIP", "spec.podCIDR"} {
		group, name, _ := strings.Cut(singular, ".")
		if !strings.HasPrefix(path, singular+"s") {
			continue
		}
		if part := r.tree().get(group); part != nil && part.get(name+"s") == nil && part.get(name) != nil {
			return singular
		}
	}
	return path
}

func (r raw) warning(path, message string) cluster.Problem {
	p := r.problem(path, message)
	p.Warning = true
	return p
}

func (r raw) faultProblems() []cluster.Problem {
	var out []cluster.Problem
	for _, f := range r.faults {
		out = append(out, cluster.Problem{Position: f.at.in(r.file), Object: r.named(), Field: f.path, Message: f.message})
	}
	return out
}

// maxListDepth bounds Lists within Lists.
const maxListDepth = 4

// flatten returns the objects of a document: itself, or the items of a List,
// with what makes it neither.
func flatten(r raw, depth int) ([]raw, []cluster.Problem) {
	if r.root.kind != mappingValue {
		if len(r.faults) > 0 {
			return nil, r.faultProblems()
		}
		return nil, []cluster.Problem{r.problem("", fmt.Sprintf("this is %s, not an object; an object has apiVersion, kind and metadata", r.root.kind))}
	}
	if v := r.root.textOf("kind"); v != "" {
		r.kind = v
	}
	if v := r.root.textOf("apiVersion"); v != "" {
		r.apiVersion = v
	}
	items := r.root.get("items")
	if !strings.HasSuffix(r.kind, "List") || items == nil {
		return []raw{r}, nil
	}
	if items.kind != listValue {
		return nil, []cluster.Problem{r.problem("items", fmt.Sprintf("want a list of objects, got %s", items.kind))}
	}
	if depth > maxListDepth {
		return nil, []cluster.Problem{r.problem("items", "Lists within Lists within Lists go too deep; put the objects into one List")}
	}
	var objs []raw
	var problems []cluster.Problem
	for i := range items.items {
		item, ps := flatten(r.item(i), depth+1)
		objs, problems = append(objs, item...), append(problems, ps...)
	}
	return objs, append(problems, r.ownFaults()...)
}

// item returns item i of a List, with the faults that lie in it.
func (r raw) item(i int) raw {
	prefix := "items[" + strconv.Itoa(i) + "]"
	item := raw{file: r.file, root: &r.root.get("items").items[i], from: r.from}
	item.from.items = append(slices.Clone(r.from.items), i)
	if kind := strings.TrimSuffix(r.kind, "List"); kind != "" {
		item.kind, item.apiVersion = kind, r.apiVersion
	}
	for _, f := range r.faults {
		if rest, ok := strings.CutPrefix(f.path, prefix); ok {
			f.path = strings.TrimPrefix(rest, ".")
			item.faults = append(item.faults, f)
		}
	}
	return item
}

// ownFaults are those of a List outside its items.
func (r raw) ownFaults() []cluster.Problem {
	var own []fault
	for _, f := range r.faults {
		if !strings.HasPrefix(f.path, "items[") {
			own = append(own, f)
		}
	}
	r.faults = own
	return r.faultProblems()
}
