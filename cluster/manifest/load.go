package manifest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
)

// Options says what to load and from which ranges to allocate.
type Options struct {
	// Paths are files, directories (read recursively for names that end in
	// .yaml, .yml or .json and do not begin with a dot), and "-" for Stdin.
	Paths []string
	// Stdin is read for the path "-".
	Stdin io.Reader
	// FS holds the files that Paths name; nil means the machine's own.
	FS fs.FS
	// ServiceCIDRs are the ranges of cluster IPs. The first of each family
	// counts and the first of all is the primary family; none means
	// DefaultServiceCIDRs.
	ServiceCIDRs []netip.Prefix
	// Earlier returns a Service as an earlier Load gave it, or nil, so that it
	// keeps its cluster IPs and node ports. Nil means that there were none.
	Earlier func(types.NamespacedName) *corev1.Service
}

// DefaultServiceCIDRs are the ranges that most clusters use: 10.96.0.0/12 and
// fd00:10:96::/112.
func DefaultServiceCIDRs() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("fd00:10:96::/112")}
}

// Result is what the manifests say.
type Result struct {
	// Objects are defaulted, valid, sorted, and free of duplicates. Services
	// have their cluster IPs and node ports.
	Objects cluster.Objects
	// Problems are sorted by position. An object with a problem that is not a
	// warning is left out of Objects.
	Problems []cluster.Problem

	items map[cluster.Ref]*item
}

// Locate returns the position of a field of an object that Load returned, such
// as spec.ports[0].targetPort; of the nearest enclosing part when the manifest
// does not set the field; or zero for an object that is not of this Result.
func (r Result) Locate(object cluster.Ref, field string) cluster.Position {
	it, ok := r.items[object]
	if !ok {
		return cluster.Position{}
	}
	return it.place(it.asWritten(field)).in(it.file)
}

// Load reads manifests. Whatever is wrong with their contents becomes a
// Problem and leaves the other objects alone; the error is for a path that
// cannot be read at all, or a context that ended.
func Load(ctx context.Context, opts Options) (Result, error) {
	files, problems, err := read(ctx, opts)
	if err != nil {
		return Result{}, err
	}
	if len(opts.ServiceCIDRs) == 0 {
		opts.ServiceCIDRs = DefaultServiceCIDRs()
	}
	l := loader{decoder: newDecoder(), support: newSupport(), problems: problems, items: map[cluster.Ref]*item{}}
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return Result{}, fmt.Errorf("load %s: %w", f.name, err)
		}
		l.file(f)
	}
	l.classes()
	l.services(allocator{makeAddresses(opts.ServiceCIDRs), nodePorts{}, opts.Earlier})
	return l.result(), nil
}

// loader gathers the objects of all files.
type loader struct {
	decoder  decoder
	support  support
	problems []cluster.Problem
	items    map[cluster.Ref]*item
}

func (l *loader) file(f file) {
	faults := f.parse(func(c chunk, docs []document) { l.documents(f.name, c, docs) })
	for _, fault := range faults {
		l.problems = append(l.problems, cluster.Problem{Position: fault.at.in(f.name), Field: fault.path, Message: fault.message})
	}
}

// documents takes the objects of the documents of one chunk.
func (l *loader) documents(file string, c chunk, docs []document) {
	for i := range docs {
		whole := raw{file: file, root: &docs[i].root, from: origin{chunk: c, document: i}, faults: docs[i].faults}
		raws, problems := flatten(whole, 0)
		l.problems = append(l.problems, problems...)
		for _, r := range raws {
			it, problems := l.decoder.object(r)
			l.problems = append(l.problems, problems...)
			if it != nil {
				l.add(it)
			}
		}
	}
}

// add keeps an object unless another has its name.
func (l *loader) add(it *item) {
	if first, twice := l.items[it.ref]; twice {
		l.problems = append(l.problems, it.problem("metadata.name",
			fmt.Sprintf("%s has this name already and is used; rename or remove one", first.place("metadata.name").in(first.file))))
		return
	}
	l.items[it.ref] = it
	l.problems = append(l.problems, l.support.warnings(it)...)
	l.problems = append(l.problems, it.strangers()...)
	it.raw = it.giveUp()
}

// services allocates for the Services and drops those that are refused.
func (l *loader) services(a allocator) {
	var services []*item
	for ref, it := range l.items {
		if ref.Kind == cluster.Service {
			services = append(services, it)
			delete(l.items, ref)
		}
	}
	kept, problems := a.settle(services)
	for _, it := range kept {
		l.items[it.ref] = it
	}
	l.problems = append(l.problems, problems...)
}

func (l *loader) result() Result {
	r := Result{Problems: l.problems, items: l.items}
	sorted := make([]*item, 0, len(l.items))
	for _, it := range l.items {
		sorted = append(sorted, it)
	}
	slices.SortFunc(sorted, byName)
	for _, it := range sorted {
		r.Objects.Add(it.obj)
	}
	slices.SortStableFunc(r.Problems, func(a, b cluster.Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Field, b.Field), cmp.Compare(a.Message, b.Message))
	})
	return r
}
