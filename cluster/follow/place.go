package follow

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

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
	lean  bool
	// seed is for digests.
	seed maphash.Seed
	// files are those that hold objects, by their names.
	files map[string]file
	// fresh are the objects that a lean place has read since the last events.
	fresh map[string]metav1.Object
	// dirty are the files to read; anew means all.
	dirty map[string]struct{}
	anew  bool
}

// file is a file that holds an object, as it was read last.
type file struct {
	object types.NamespacedName
	version
}

func newPlace(kind cluster.Kind, path string, lean bool, seed maphash.Seed) *place {
	return &place{kind: kind, path: path, lean: lean, watch: none, seed: seed, anew: true,
		files: map[string]file{}, fresh: map[string]metav1.Object{}, dirty: map[string]struct{}{}}
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
	wd, err := q.watch(p.path, contents)
	if wd != p.watch || err != nil {
		if wd != p.watch {
			q.forget(p.watch)
		}
		p.watch, p.anew = wd, true
	}
	return err
}

// refresh reads files that have changed, as many as are left to be read now, and adds
// the names of objects that may have. What cannot be read stays as it was, and is named
// in the error.
func (p *place) refresh(touched map[cluster.Ref]struct{}, left *int) error {
	if err := p.list(); err != nil {
		return err
	}
	names := p.take(left)
	var errs []error
	for i, c := range readAll(p.kind, p.path, names) {
		if err := p.put(names[i], c, touched); err != nil {
			errs = append(errs, err)
			if passing(err) {
				p.dirty[names[i]] = struct{}{}
			}
		}
	}
	return errors.Join(errs...)
}

// take returns names of files to read, as many as are left, which are dirty no more.
func (p *place) take(left *int) []string {
	names := make([]string, 0, min(*left, len(p.dirty)))
	for name := range p.dirty {
		if len(names) == cap(names) {
			break
		}
		names = append(names, name)
		delete(p.dirty, name)
	}
	*left -= len(names)
	return names
}

// content is what reading a file gave.
type content struct {
	object metav1.Object
	text   []byte
	err    error
}

// alone is how many files one goroutine reads before it is worth to have another.
const alone = 64

// readAll reads files of a directory, many of them on all processors.
func readAll(kind cluster.Kind, dir string, names []string) []content {
	out := make([]content, len(names))
	var next atomic.Int64
	read := func() {
		for i := int(next.Add(1)) - 1; i < len(names); i = int(next.Add(1)) - 1 {
			c := &out[i]
			c.object, c.text, c.err = state.Decode(kind, filepath.Join(dir, names[i]))
		}
	}
	var others sync.WaitGroup
	for range min(len(names)/alone, runtime.GOMAXPROCS(0)-1) {
		others.Go(read)
	}
	read()
	others.Wait()
	return out
}

// put takes in what reading a file gave.
func (p *place) put(name string, c content, touched map[cluster.Ref]struct{}) error {
	f, known := p.files[name]
	switch {
	case c.err == nil:
		f.object = types.NamespacedName{Namespace: c.object.GetNamespace(), Name: c.object.GetName()}
		f.version = version{digest: maphash.Bytes(p.seed, c.text), object: c.object}
		if p.lean {
			p.fresh[name] = c.object
			f.version.object = nil
		}
		p.files[name] = f
	case errors.Is(c.err, fs.ErrNotExist) && known:
		delete(p.files, name)
		delete(p.fresh, name)
	case errors.Is(c.err, fs.ErrNotExist):
		return nil
	default:
		return c.err
	}
	touched[cluster.Ref{Kind: p.kind, NamespacedName: f.object}] = struct{}{}
	return nil
}

// newest returns the object of a file, if there is one. A lean place may have to read
// it again; where that fails it is as if it were not there, until the event comes that
// says why.
func (p *place) newest(name string) (version, bool) {
	f, ok := p.files[name]
	if !ok || !p.lean {
		return f.version, ok
	}
	if obj := p.fresh[name]; obj != nil {
		return version{f.digest, obj}, true
	}
	obj, text, err := state.Decode(p.kind, filepath.Join(p.path, name))
	return version{maphash.Bytes(p.seed, text), obj}, err == nil
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
	for name := range p.files {
		p.dirty[name] = struct{}{}
	}
	for _, e := range now {
		if isObject(e.Name()) {
			p.dirty[e.Name()] = struct{}{}
		}
	}
	p.anew = false
	return nil
}
