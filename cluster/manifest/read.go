package manifest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/toyproxy/toyproxy/cluster"
)

// This file does all the I/O of the package.

// maxFileBytes bounds what one file may hold: some 100,000 objects.
const maxFileBytes = 64 << 20

// reader collects the files that the options name.
type reader struct {
	opts     Options
	files    []file
	problems []cluster.Problem
	seen     map[string]bool
}

// read returns the files in the order of the paths, those of a directory by
// name. A path that does not work is an error, a file within a directory that
// does not work is a problem.
func read(ctx context.Context, opts Options) ([]file, []cluster.Problem, error) {
	r := reader{opts: opts, seen: map[string]bool{}}
	for _, p := range opts.Paths {
		if err := r.path(ctx, p); err != nil {
			return nil, nil, fmt.Errorf("read manifests %s: %w", p, err)
		}
	}
	return r.files, r.problems, nil
}

func (r *reader) path(ctx context.Context, p string) error {
	if p == "-" && r.opts.FS == nil {
		if r.opts.Stdin == nil {
			return errors.New("no standard input")
		}
		return r.take("-", r.opts.Stdin)
	}
	info, err := r.stat(p)
	if err != nil {
		return reason(err)
	}
	if info.IsDir() {
		return r.directory(ctx, p)
	}
	return reason(r.file(p, func() (fs.File, error) {
		if r.opts.FS != nil {
			return r.opts.FS.Open(path.Clean(p))
		}
		return os.Open(p)
	}))
}

func (r *reader) stat(p string) (fs.FileInfo, error) {
	if r.opts.FS != nil {
		return fs.Stat(r.opts.FS, path.Clean(p))
	}
	return os.Stat(p)
}

// reason drops the operation and path of a file error, which are said already.
func reason(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}

// directory reads the manifests below a directory. Symbolic links to files are
// followed, as mounted ConfigMaps consist of them; those to directories are not.
func (r *reader) directory(ctx context.Context, dir string) error {
	fsys := os.DirFS(dir)
	if r.opts.FS != nil {
		sub, err := fs.Sub(r.opts.FS, path.Clean(dir))
		if err != nil {
			return err
		}
		fsys = sub
	}
	found := false
	err := fs.WalkDir(fsys, ".", func(p string, entry fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && p == "." {
			return reason(err)
		}
		found = found || err != nil || !entry.IsDir() && isManifest(entry.Name())
		return r.entry(fsys, p, filepath.Join(dir, p), entry, err)
	})
	if err == nil && !found {
		r.problem(dir, "no .yaml, .yml or .json file in this directory")
		r.problems[len(r.problems)-1].Warning = true
	}
	return err
}

func isManifest(name string) bool {
	switch path.Ext(name) {
	case ".yaml", ".yml", ".json":
		return name[0] != '.'
	}
	return false
}

// entry takes one entry of a walk. Hidden directories are not entered, and
// what does not work is a problem of that entry alone.
func (r *reader) entry(fsys fs.FS, p, name string, entry fs.DirEntry, err error) error {
	switch {
	case err == nil && entry.IsDir():
		if p != "." && entry.Name()[0] == '.' {
			return fs.SkipDir
		}
		return nil
	case err == nil && !isManifest(entry.Name()):
		return nil
	case err == nil:
		err = r.manifest(fsys, p, name)
	}
	if err != nil {
		r.problem(name, fmt.Sprintf("cannot be read: %v", reason(err)))
	}
	return nil
}

// manifest reads one file of a directory; anything but a file could block.
func (r *reader) manifest(fsys fs.FS, p, name string) error {
	info, err := fs.Stat(fsys, p)
	switch {
	case err != nil:
		return err
	case info.IsDir(): // by a symbolic link
		return nil
	case !info.Mode().IsRegular():
		return errors.New("not a regular file; name it with -f to read it all the same")
	}
	return r.file(name, func() (fs.File, error) { return fsys.Open(p) })
}

// file reads one file, once however often it is named.
func (r *reader) file(name string, open func() (fs.File, error)) error {
	clean := filepath.Clean(name)
	if r.seen[clean] {
		return nil
	}
	r.seen[clean] = true
	f, err := open()
	if err != nil {
		return err
	}
	defer f.Close()
	return r.take(name, f)
}

func (r *reader) take(name string, from io.Reader) error {
	data, err := io.ReadAll(io.LimitReader(from, maxFileBytes+1))
	if err != nil {
		return err
	}
	if len(data) > maxFileBytes {
		r.problem(name, fmt.Sprintf("bigger than %d MiB; split it into several files", maxFileBytes>>20))
		return nil
	}
	r.files = append(r.files, file{name, data})
	return nil
}

func (r *reader) problem(name, message string) {
	r.problems = append(r.problems, cluster.Problem{Position: cluster.Position{File: strings.TrimSuffix(name, "/")}, Message: message})
}
