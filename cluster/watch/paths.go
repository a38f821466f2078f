package watch

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// mostLinks bounds how many symbolic links a path may lead through.
const mostLinks = 40

// places are the directories whose entries decide what is read below some paths.
type places map[string]bool

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

// way adds the directory of the path's last part, and those of links in the path
// and of what they point to. Of what does not exist it adds the nearest directory
// that does.
func (ps places) way(path string, links int) {
	if links > mostLinks {
		return
	}
	ps.add(nearest(filepath.Dir(path)))
	for p := path; p != filepath.Dir(p); p = filepath.Dir(p) {
		target, err := os.Readlink(p)
		if err != nil {
			continue
		}
		ps.add(nearest(filepath.Dir(p)))
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(p), target)
		}
		ps.way(filepath.Join(target, strings.TrimPrefix(path, p)), links+1)
		return
	}
}

// nearest is the directory itself, or the first above it that exists.
func nearest(dir string) string {
	for dir != filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	return dir
}

// below adds a directory and all below it, but for names that begin with a dot.
// Links to directories are followed, a few deep: they may go round in circles.
func (ps places) below(path string, links int) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() || links > 5 {
		return
	}
	ps.add(path)
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

func (ps places) add(dir string) { ps[dir] = true }
