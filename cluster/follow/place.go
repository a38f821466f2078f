package follow

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/cluster/state"
)

// place is a directory that holds objects of one kind.
type place struct {
	kind  cluster.Kind
	path  string
	watch int
	// objects are those of the files, by name of the file.
	objects map[string]metav1.Object
	// dirty are the files to read; anew means all.
	dirty map[string]struct{}
	anew  bool
}

func newPlace(kind cluster.Kind, path string) *place {
	return &place{kind: kind, path: path, watch: none, objects: map[string]metav1.Object{}, dirty: map[string]struct{}{}, anew: true}
}

// note takes note of an event, and tells whether it concerns the directory itself.
func (p *place) note(h happening) (itself bool) {
	switch {
	case h.mask&unix.IN_IGNORED != 0:
		p.watch = none
		return true
	case h.name == "":
		return true
	case isObject(h.name):
		p.dirty[h.name] = struct{}{}
	}
	return false
}

// isObject tells whether a file of that name holds an object: not one that is still
// being written.
func isObject(file string) bool {
	return strings.HasSuffix(file, ".json") && !strings.HasPrefix(file, ".")
}

// settle watches the directory if it is there; one that was not watched before is to
// be read as a whole.
func (p *place) settle(q queue) error {
	wd, err := q.watch(p.path, files)
	if wd != p.watch || err != nil {
		if wd != p.watch {
			q.forget(p.watch)
		}
		p.watch, p.anew = wd, true
	}
	return err
}

// refresh reads the files that have changed, and adds the names of objects that may
// have. What cannot be read stays as it was, and is named in the error.
func (p *place) refresh(touched map[cluster.Ref]struct{}) error {
	if err := p.list(); err != nil {
		return err
	}
	var errs []error
	again := map[string]struct{}{}
	for file := range p.dirty {
		obj, err := state.Decode(p.kind, filepath.Join(p.path, file))
		switch {
		case err == nil:
			touched[p.ref(obj)] = struct{}{}
			p.objects[file] = obj
		case errors.Is(err, fs.ErrNotExist):
			if old := p.objects[file]; old != nil {
				touched[p.ref(old)] = struct{}{}
				delete(p.objects, file)
			}
		default:
			errs = append(errs, err)
			if passing(err) {
				again[file] = struct{}{}
			}
		}
	}
	p.dirty = again
	return errors.Join(errs...)
}

// passing tells whether a file that could not be read may be readable the next time
// without a change: not one that is damaged, or that this user may not read.
func passing(err error) bool {
	var corrupt *state.CorruptError
	return !errors.As(err, &corrupt) && !errors.Is(err, fs.ErrPermission)
}

// list makes all files dirty when the directory is to be read as a whole, those that
// were there and those that are.
func (p *place) list() error {
	if !p.anew {
		return nil
	}
	now, err := os.ReadDir(p.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
		return fmt.Errorf("state directory: %w", err)
	}
	for file := range p.objects {
		p.dirty[file] = struct{}{}
	}
	for _, e := range now {
		if isObject(e.Name()) {
			p.dirty[e.Name()] = struct{}{}
		}
	}
	p.anew = false
	return nil
}

func (p *place) ref(obj metav1.Object) cluster.Ref {
	return cluster.Ref{Kind: p.kind, NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}}
}
