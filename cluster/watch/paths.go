package watch

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// mostLinks bounds how many symbolic links a path may lead through.
const mostLinks = 40

// names are the entries of a directory that matter: those named, and perhaps all
// that do not begin with a dot.
type names struct {
	all   bool
	named map[string]bool
}

// places are the directories whose entries decide what is read below some paths.
type places map[string]*names

// at returns the names of a directory.
func (ps places) at(dir string) *names {
	if ps[dir] == nil {
		ps[dir] = &names{named: map[string]bool{}}
	}
	return ps[dir]
}

// find returns the places of some paths: of a directory, itself and all below it;
// of a file, its directory; and those of every link on the way.
func find(paths []string) places {
	out := places{}
	for _, p := range paths {
		abs, err := filepath.Abs(p)
		if err != nil {
			continue
		}
		out.way(abs, 0)
		out.below(abs, 0)
	}
	return out
}

// matters tells whether something that happened at a path does.
func (ps places) matters(path string) bool {
	dir, name := filepath.Split(path)
	n, watched := ps[filepath.Clean(dir)]
	if _, itself := ps[path]; itself || !watched {
		return true
	}
	return n.named[name] || n.all && !strings.HasPrefix(name, ".")
}

// way adds the entry of the path's last part, and those of links in the path and of
// what they point to. Of what does not exist it adds the first part that is missing.
func (ps places) way(path string, links int) {
	if links > mostLinks {
		return
	}
	ps.entry(path)
	for p := path; p != filepath.Dir(p); p = filepath.Dir(p) {
		target, err := os.Readlink(p)
		if err != nil {
			continue
		}
		ps.entry(p)
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(p), target)
		}
		ps.way(filepath.Join(target, strings.TrimPrefix(path, p)), links+1)
		return
	}
}

// entry adds one entry of a directory; where the directory does not exist, the part
// of the path that is missing first.
func (ps places) entry(path string) {
	dir := filepath.Dir(path)
	for !isDir(dir) && dir != filepath.Dir(dir) {
		path, dir = dir, filepath.Dir(dir)
	}
	ps.at(dir).named[filepath.Base(path)] = true
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// below adds a directory and all below it, but for names that begin with a dot.
// Links to directories are followed, a few deep: they may go round in circles.
func (ps places) below(path string, links int) {
	if !isDir(path) || links > 5 {
		return
	}
	ps.at(path).all = true
	entries, err := os.ReadDir(path)
	if err != nil {
		return
	}
	for _, e := range entries {
		full := filepath.Join(path, e.Name())
		hidden := strings.HasPrefix(e.Name(), ".")
		switch {
		case e.Type()&fs.ModeSymlink != 0 && !hidden:
			ps.way(full, 0)
			ps.below(full, links+1)
		case e.IsDir() && !hidden:
			ps.below(full, links)
		}
	}
}
