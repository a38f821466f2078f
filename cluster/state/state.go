package state

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Dir keeps objects of one kind. T is a pointer type such as *corev1.Service.
type Dir[T metav1.Object] struct {
	path string
	make func() T
	// private: only the owner may read the files.
	private bool
}

// Open returns the directory of one kind: resource is its plural, in lower
// case ("services"). Nothing is made until something is saved. The function
// returns a new empty object.
func Open[T metav1.Object](stateDir, resource string, empty func() T) Dir[T] {
	return Dir[T]{path: filepath.Join(stateDir, resource), make: empty}
}

// Path is where the files are: whoever follows changes watches it. It may not exist.
func (d Dir[T]) Path() string { return d.path }

// Private makes the directory write files that only the owner may read.
func (d Dir[T]) Private() Dir[T] {
	d.private = true
	return d
}

// CorruptError names a file that holds no object; it is skipped, and
// overwritten by the next Save of that object.
type CorruptError struct {
	Path string
	Err  error
}

// Error names the file and what is wrong with it.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("state file %s is damaged and was skipped (the next sync writes it anew): %v", e.Path, e.Err)
}

// Unwrap returns what the decoder said.
func (e *CorruptError) Unwrap() error { return e.Err }

// Save writes the object, and tells whether the file changed.
func (d Dir[T]) Save(obj T) (changed bool, err error) {
	data, err := json.MarshalIndent(obj, "", "  ")
	if err != nil {
		return false, fmt.Errorf("JSON of %s/%s: %w", filepath.Base(d.path), obj.GetName(), err)
	}
	path := d.file(types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()})
	old, err := os.ReadFile(path)
	switch {
	case err == nil && bytes.Equal(old, data):
		return false, nil
	case errors.Is(err, syscall.EISDIR): // damage: no file can be renamed to it
		if err := os.RemoveAll(path); err != nil {
			return false, fmt.Errorf("state file: %w", err)
		}
	}
	if d.private {
		return true, writeFile(path, data, 0o600)
	}
	return true, WriteFile(path, data)
}

// Update reads the object of that name, changes it by a function, and
// saves what it returns, if it says so: nobody else who uses Update comes between.
// Without an object, or with a damaged one, exists is false and old is empty.
func (d Dir[T]) Update(name types.NamespacedName, change func(old T, exists bool) (next T, write bool)) error {
	if err := os.MkdirAll(d.path, 0o755); err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	unlock, err := d.lock()
	if err != nil {
		return err
	}
	defer unlock()
	obj, err := d.Load(name)
	exists := err == nil
	var corrupt *CorruptError
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.As(err, &corrupt) {
		return err
	}
	next, write := change(obj, exists)
	if !write {
		return nil
	}
	_, err = d.Save(next)
	return err
}

// Load returns the object of that name. A missing one gives an error that
// satisfies errors.Is(err, fs.ErrNotExist); a damaged one a *CorruptError.
func (d Dir[T]) Load(name types.NamespacedName) (T, error) { return d.read(d.file(name)) }

// List returns all objects, sorted by namespace and name. Damaged files are
// skipped and named by *CorruptErrors in the joined error; the objects are
// good all the same. A directory that does not exist is empty.
func (d Dir[T]) List() ([]T, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	var out []T
	var problems []error
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		obj, err := d.read(filepath.Join(d.path, e.Name()))
		var corrupt *CorruptError
		switch {
		case err == nil:
			out = append(out, obj)
		case errors.Is(err, fs.ErrNotExist): // deleted meanwhile
		case errors.As(err, &corrupt):
			problems = append(problems, err)
		default:
			return nil, err
		}
	}
	slices.SortFunc(out, func(a, b T) int {
		return strings.Compare(a.GetNamespace()+"\x00"+a.GetName(), b.GetNamespace()+"\x00"+b.GetName())
	})
	return out, errors.Join(problems...)
}

// lock keeps others from changing objects of this kind, but by Save.
func (d Dir[T]) lock() (unlock func(), err error) {
	f, err := os.Open(d.path)
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock of the state directory %s: %w", d.path, err)
	}
	return func() { _ = f.Close() }, nil
}

// Delete removes the object of that name; one that does not exist is no error. It
// waits for who is in an Update, which would make the object anew.
func (d Dir[T]) Delete(name types.NamespacedName) error {
	unlock, err := d.lock()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	if err := os.RemoveAll(d.file(name)); err != nil {
		return fmt.Errorf("state file: %w", err)
	}
	return nil
}

// Replace makes the directory hold exactly these objects.
func (d Dir[T]) Replace(objs []T) error {
	keep := map[string]bool{}
	for _, obj := range objs {
		keep[d.file(types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()})] = true
		if _, err := d.Save(obj); err != nil {
			return err
		}
	}
	files, err := filepath.Glob(filepath.Join(d.path, "*.json"))
	if err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	for _, f := range files {
		if keep[f] {
			continue
		}
		if err := os.Remove(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("state file: %w", err)
		}
	}
	return nil
}

func (d Dir[T]) read(path string) (T, error) {
	obj := d.make()
	data, err := readFile(path)
	if err != nil {
		return obj, err
	}
	if err := json.Unmarshal(data, obj); err != nil {
		return obj, &CorruptError{path, err}
	}
	return obj, nil
}

func readFile(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, syscall.EISDIR):
		return nil, &CorruptError{path, err}
	case err != nil:
		return nil, fmt.Errorf("state file: %w", err)
	}
	return data, nil
}

// file is the path of an object. An underscore occurs in no Kubernetes name. What
// is too long for the name of a file ends in a hash.
func (d Dir[T]) file(name types.NamespacedName) string {
	const longest = 255 - len(".json")
	base := name.Name
	if name.Namespace != "" {
		base = name.Namespace + "_" + base
	}
	if len(base) > longest {
		sum := sha256.Sum256([]byte(base))
		hash := "-" + hex.EncodeToString(sum[:8])
		base = base[:longest-len(hash)] + hash
	}
	return filepath.Join(d.path, base+".json")
}

// WriteFile writes a file so that readers see the old or the new content whole:
// under another name in the same directory, which it makes, and renamed.
func WriteFile(path string, data []byte) error { return writeFile(path, data, 0o644) }

func writeFile(path string, data []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return fmt.Errorf("state file %s: %w", path, err)
	}
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Chmod(mode), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
		return fmt.Errorf("state file %s: %w", path, err)
	}
	return nil
}
