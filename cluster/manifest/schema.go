package manifest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// explain says where a tree does not fit a Go type of the API, after the
// strict decoder has refused it: the decoder's own errors carry no position,
// stop at the first, and speak of Go types.
func explain(t *tree, want reflect.Type) []fault {
	var c schemaCheck
	c.value(t, want, "", t.at)
	return c.faults
}

type schemaCheck struct{ faults []fault }

func (c *schemaCheck) fault(at place, path, format string, args ...any) {
	c.faults = append(c.faults, fault{at, path, fmt.Sprintf(format, args...)})
}

func (c *schemaCheck) value(t *tree, want reflect.Type, path string, at place) {
	for want.Kind() == reflect.Pointer {
		want = want.Elem()
	}
	if t.kind == nullValue {
		return
	}
	if parse, ok := specialType(want); ok {
		if err := parse(t); err != nil {
			c.fault(t.at, path, "%v", err)
		}
		return
	}
	switch want.Kind() {
	case reflect.Struct:
		c.mapping(t, want, path, at)
	case reflect.Map:
		c.keyed(t, want, path, at)
	case reflect.Slice:
		c.list(t, want, path, at)
	default:
		c.scalar(t, want, path, at)
	}
}

func (c *schemaCheck) keyed(t *tree, want reflect.Type, path string, at place) {
	if !c.is(t, mappingValue, path, at, "a mapping (key: value)") {
		return
	}
	for i := range t.fields {
		f := &t.fields[i]
		c.value(&f.value, want.Elem(), path+"["+f.name+"]", f.at)
	}
}

func (c *schemaCheck) list(t *tree, want reflect.Type, path string, at place) {
	if want.Elem().Kind() == reflect.Uint8 {
		c.bytes(t, path)
		return
	}
	if !c.is(t, listValue, path, at, "a list (lines that begin with -)") {
		return
	}
	for i := range t.items {
		c.value(&t.items[i], want.Elem(), path+"["+strconv.Itoa(i)+"]", t.items[i].at)
	}
}

// is reports whether the tree is of a kind, and says so when it is not.
func (c *schemaCheck) is(t *tree, want valueKind, path string, at place, wanted string) bool {
	if t.kind == want {
		return true
	}
	if t.kind != mappingValue && t.kind != listValue {
		at = t.at
	}
	c.fault(at, path, "want %s, got %s", wanted, t.describe())
	return false
}

// describe names a value in a message: `the string "web"`.
func (t *tree) describe() string {
	switch t.kind {
	case stringValue:
		return "the string " + strconv.Quote(t.text)
	case boolValue, intValue, floatValue:
		return strings.Replace(strings.Replace(t.kind.String(), "an ", "the ", 1), "a ", "the ", 1) + " " + t.text
	}
	return t.kind.String()
}

func (c *schemaCheck) mapping(t *tree, want reflect.Type, path string, at place) {
	if !c.is(t, mappingValue, path, at, "a mapping (key: value)") {
		return
	}
	known := jsonFields(want)
	for i := range t.fields {
		f := &t.fields[i]
		if ft, ok := known[f.name]; ok {
			c.value(&f.value, ft, join(path, f.name), f.at)
			continue
		}
		message := "unknown field; remove it"
		if near := nearest(f.name, known); near != "" {
			message = fmt.Sprintf("unknown field; did you mean %q?", near)
		}
		c.fault(f.at, join(path, f.name), "%s", message)
	}
}

// jsonFields returns the fields of an API struct by their names in a manifest.
func jsonFields(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" || options == "inline" {
			for n, ft := range jsonFields(f.Type) {
				fields[n] = ft
			}
		} else if name != "" && name != "-" {
			fields[name] = f.Type
		}
	}
	return fields
}

func (c *schemaCheck) bytes(t *tree, path string) {
	if !c.is(t, stringValue, path, t.at, "a base64 string") {
		return
	}
	if _, err := base64.StdEncoding.DecodeString(t.text); err != nil {
		c.fault(t.at, path, "not base64: %v", err)
	}
}

func (c *schemaCheck) scalar(t *tree, want reflect.Type, path string, at place) {
	switch want.Kind() {
	case reflect.String:
		wanted := "a string"
		if t.kind == intValue || t.kind == boolValue || t.kind == floatValue {
			wanted = "a string (put it in quotes)"
		}
		c.is(t, stringValue, path, at, wanted)
	case reflect.Bool:
		c.is(t, boolValue, path, at, "true or false")
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint16:
		c.integer(t, want, path, at)
	}
}

func (c *schemaCheck) integer(t *tree, want reflect.Type, path string, at place) {
	if !c.is(t, intValue, path, at, "an integer") {
		return
	}
	_, err := strconv.ParseInt(t.text, 10, want.Bits())
	most := int64(math.MaxInt64) >> (64 - want.Bits())
	if want.Kind() == reflect.Uint16 {
		_, err = strconv.ParseUint(t.text, 10, 16)
		most = math.MaxUint16
	}
	if err != nil {
		c.fault(t.at, path, "%s is out of range: want an integer of at most %d", t.text, most)
	}
}

// specialType returns how the types that read themselves from JSON do it.
func specialType(t reflect.Type) (func(*tree) error, bool) {
	switch reflect.New(t).Interface().(type) {
	case *intstr.IntOrString:
		return func(t *tree) error { return unmarshal[intstr.IntOrString](t, "an integer or a string") }, true
	case *resource.Quantity:
		return func(t *tree) error { return unmarshal[resource.Quantity](t, "a quantity such as 100m or 64Mi") }, true
	case *metav1.Time:
		return func(t *tree) error { return unmarshal[metav1.Time](t, "a time such as 2026-01-31T12:00:00Z") }, true
	case *metav1.MicroTime:
		return func(t *tree) error {
			return unmarshal[metav1.MicroTime](t, "a time such as 2026-01-31T12:00:00.000000Z")
		}, true
	case *metav1.Duration:
		return func(t *tree) error { return unmarshal[metav1.Duration](t, "a duration such as 30s") }, true
	case *metav1.FieldsV1:
		return func(*tree) error { return nil }, true // free form
	}
	return nil, false
}

func unmarshal[T any](t *tree, wanted string) error {
	var v T
	if err := json.Unmarshal(t.appendJSON(nil), &v); err != nil {
		return fmt.Errorf("want %s, got %s", wanted, t.describe())
	}
	return nil
}

// nearest returns the known field that a misspelt one most likely means: equal
// but for case, or one or two letters away.
func nearest(name string, known map[string]reflect.Type) string {
	best, bestDistance := "", 3
	names := make([]string, 0, len(known))
	for n := range known {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		if d := distance(strings.ToLower(name), strings.ToLower(n)); d < bestDistance && d < len(n)/2 {
			best, bestDistance = n, d
		}
	}
	return best
}

// distance is the Levenshtein distance of two short words.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := last
			if a[i] != b[j] {
				cost++
			}
			last = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
