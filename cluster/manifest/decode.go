package manifest

import (
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/toyproxy/toyproxy/cluster"
)

// item is an object with where it came from.
type item struct {
	raw
	obj object
	ref cluster.Ref
}

// refusals turns the errors of a check into problems.
func (it item) refusals(errs field.ErrorList) []cluster.Problem {
	var out []cluster.Problem
	for _, e := range errs {
		out = append(out, it.problem(e.Field, e.ErrorBody()))
	}
	return out
}

// decoder makes typed objects of raw ones.
type decoder struct {
	strict *json.Serializer
	pool   pool
}

func newDecoder() decoder {
	s := scheme()
	return decoder{json.NewSerializerWithOptions(json.DefaultMetaFactory, s, s, json.SerializerOptions{Strict: true}), newPool()}
}

// object decodes, defaults and checks one object. It is nil when the problems
// leave nothing to use.
func (d decoder) object(r raw) (*item, []cluster.Problem) {
	if len(r.faults) > 0 {
		return nil, r.faultProblems()
	}
	rules, p := pick(r)
	if p != nil {
		return nil, []cluster.Problem{*p}
	}
	obj := rules.empty()
	gvk := schema.FromAPIVersionAndKind(rules.apiVersion, r.kind)
	if problems := d.decode(r, gvk, obj); len(problems) > 0 {
		return nil, problems
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk) // items of a typed List have none
	if rules.namespaced && obj.GetNamespace() == "" {
		obj.SetNamespace(defaultNamespace)
	}
	it := &item{r, obj, cluster.MakeRef(cluster.Kind(r.kind), obj.GetNamespace(), obj.GetName())}
	rules.settle(obj)
	if problems := append(r.unstated(rules.stated), it.refusals(rules.check(obj))...); len(problems) > 0 {
		return nil, problems
	}
	it.noteApplied()
	d.pool.compact(obj)
	return it, nil
}

// unstated says which of the fields that must be written are not, where what they
// are part of is.
func (r raw) unstated(fields []string) (out []cluster.Problem) {
	for _, f := range fields {
		for _, path := range r.root.lacks(f, "") {
			out = append(out, r.problem(path, field.Required(nil, "write it even where it is empty or 0").ErrorBody()))
		}
	}
	return out
}

func (d decoder) decode(r raw, gvk schema.GroupVersionKind, into object) []cluster.Problem {
	data := r.root.appendJSON(nil)
	if len(data) > maxObjectBytes {
		return []cluster.Problem{r.problem("", "object is bigger than the 3 MiB that an API server takes; split it, or write out its aliases")}
	}
	_, _, err := d.strict.Decode(data, &gvk, into)
	if err == nil {
		return nil
	}
	var out []cluster.Problem
	for _, f := range explain(r.root, reflect.TypeOf(into)) {
		if r.kind == string(cluster.Secret) { // what it got instead may be the secret
			f.message, _, _ = strings.Cut(f.message, ", got ")
		}
		out = append(out, cluster.Problem{Position: f.at.in(r.file), Object: r.named(), Field: f.path, Message: f.message})
	}
	if len(out) > 0 {
		return out
	}
	// What the decoder knows and explain does not is still said, unplaced.
	errs := []error{err}
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		errs = strict.Errors()
	}
	for _, e := range errs {
		out = append(out, r.problem("", e.Error()))
	}
	return out
}
