package pods

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// source is a mount that is attached nowhere yet, and where it is to go.
type source struct {
	fd       int
	target   string
	dir      bool
	readOnly bool
	// follows: what the node mounts below it later is seen as well.
	follows bool
	// own: it is the Pod's, so that mount points may be made in it.
	own bool
	// optional: without its mount point it is left out.
	optional bool
	// volume: it stands in volumeMounts.
	volume bool
}

// sources are what a container gets mounted, those of outer directories first.
type sources []source

func (s sources) close() {
	for _, m := range s {
		_ = unix.Close(m.fd)
	}
}

// cover tells whether a path lies in a volume.
func (s sources) cover(at string) bool {
	return slices.ContainsFunc(s, func(m source) bool { return below(at, m.target) && (m.volume || m.target == at) })
}

// mountShared makes the Pod's part of the mount table, in the mount namespace of
// the pause process: what the node mounts and unmounts is followed, and nothing of
// the Pod's is seen there.
func (w *world) mountShared() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("following mounts: %w", err)
	}
	dropNamespaces()
	w.dir = worldDir(w.stateDir)
	if err := os.MkdirAll(w.dir, 0o755); err != nil {
		return fmt.Errorf("directory of the Pod: %w", err)
	}
	if err := unix.Mount("tmpfs", w.dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
		return fmt.Errorf("file system of the Pod: %w", err)
	}
	for name, content := range etcFiles(w.pod, w.node) {
		if err := os.WriteFile(filepath.Join(w.dir, name), []byte(content), 0o644); err != nil {
			return fmt.Errorf("file of the Pod: %w", err)
		}
	}
	for _, dir := range []string{"shm", "mqueue", "volumes", "layers"} {
		if err := os.Mkdir(filepath.Join(w.dir, dir), 0o755); err != nil {
			return fmt.Errorf("file system of the Pod: %w", err)
		}
	}
	if w.owns("ipc") { // both show what lies in the namespace of whoever mounts them
		shm := filepath.Join(w.dir, "shm")
		if err := unix.Mount("shm", shm, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=1777,size=64m"); err != nil {
			return fmt.Errorf("shared memory of the Pod: %w", err)
		}
		_ = unix.Mount("mqueue", filepath.Join(w.dir, "mqueue"), "mqueue", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "") // not every kernel has it
	}
	return nil
}

// dropNamespaces unmounts named namespaces in the Pod's mount table: what is
// mounted in it lives as long as the Pod, and these are other Pods'.
func dropNamespaces() {
	table, err := mountTable()
	if err != nil {
		return
	}
	points := map[string]bool{}
	for _, m := range table {
		points[m.path] = true
	}
	for _, m := range table {
		if m.kind != "nsfs" {
			continue
		}
		if dir := filepath.Dir(m.path); points[dir] && dir != "/run" && dir != "/" {
			for unix.Unmount(dir, unix.MNT_DETACH) == nil { // with all that is in it, and those to come
			}
			points[dir] = false
			continue
		}
		_ = unix.Unmount(m.path, unix.MNT_DETACH)
	}
}

// openTree returns a mount of a directory or file, or of what a descriptor names
// when the path is empty.
func openTree(at int, name string, recursive bool) (int, error) {
	flags := uint(unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC)
	if recursive {
		flags |= unix.AT_RECURSIVE
	}
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	fd, err := unix.OpenTree(at, name, flags)
	if errors.Is(err, unix.ENOSYS) {
		return -1, errors.New("mounts for a container need Linux 5.2 or newer")
	}
	return fd, err
}

// sources opens all that a container gets mounted. They are made in the Pod's mount
// namespace, so that all its containers share them.
func (w *world) sources(c *corev1.Container, env []string) (out sources, err error) {
	defer func() {
		if err != nil {
			out.close()
			out = nil
		}
	}()
	if w.dir == "" && len(c.VolumeMounts) == 0 {
		return nil, nil
	}
	if w.dir == "" {
		return nil, errors.New("volumeMounts: this kernel gives the Pod no mount namespace")
	}
	for _, m := range w.fixed() {
		from := m.from
		if m.fd, err = openTree(unix.AT_FDCWD, filepath.Join(w.dir, from), false); err != nil {
			return out, fmt.Errorf("mount for %s: %w", m.target, err)
		}
		out = append(out, m.source)
	}
	if runsToyproxy(c) {
		m := source{target: w.stateDir, dir: true, volume: true}
		if m.fd, err = openTree(unix.AT_FDCWD, w.stateDir, false); err != nil {
			return out, fmt.Errorf("state directory: %w", err)
		}
		out = append(out, m)
	}
	for _, vm := range c.VolumeMounts {
		m, err := w.volumeSource(vm, env)
		if err != nil {
			return out, fmt.Errorf("volume %s: %w", vm.Name, err)
		}
		out = append(out, m)
	}
	slices.SortStableFunc(out, func(a, b source) int {
		return cmp.Compare(strings.Count(a.target, "/"), strings.Count(b.target, "/"))
	})
	return out, nil
}

// fixedSource is what every container gets.
type fixedSource struct {
	source
	from string
}

func (w *world) fixed() []fixedSource {
	out := []fixedSource{
		{source{target: "/etc/hosts"}, "hosts"},
		{source{target: "/etc/hostname"}, "hostname"},
		{source{target: "/etc/resolv.conf"}, "resolv.conf"},
	}
	if w.owns("ipc") {
		out = append(out, fixedSource{source{target: "/dev/shm", dir: true, optional: true}, "shm"},
			fixedSource{source{target: "/dev/mqueue", dir: true, optional: true}, "mqueue"})
	}
	if w.init != 0 {
		out = append(out, fixedSource{source{target: "/proc", dir: true, optional: true}, "proc"})
	}
	return out
}

// volumeSource opens one of a container's volumeMounts.
func (w *world) volumeSource(vm corev1.VolumeMount, env []string) (source, error) {
	v, err := w.volume(vm.Name)
	if err != nil {
		return source{}, err
	}
	m := source{target: path.Clean("/" + vm.MountPath), readOnly: vm.ReadOnly || v.readOnly, own: !v.host, volume: true}
	m.follows = vm.MountPropagation != nil && *vm.MountPropagation != corev1.MountPropagationNone
	sub := vm.SubPath
	if vm.SubPathExpr != "" {
		sub = expand(vm.SubPathExpr, envMap(env))
	}
	st, err := os.Stat(v.path)
	if err != nil {
		return source{}, err
	}
	m.dir = st.IsDir()
	if sub == "" {
		m.fd, err = openTree(unix.AT_FDCWD, v.path, v.host)
		return m, err
	}
	m.fd, m.dir, err = openSubPath(v, sub)
	return m, err
}

// openSubPath opens a mount of what lies in a volume. Another container may write
// to the volume: no link leads out of it.
func openSubPath(v *volume, sub string) (fd int, dir bool, err error) {
	root, err := os.OpenRoot(v.path)
	if err != nil {
		return -1, false, fmt.Errorf("subPath %s: %w", sub, err)
	}
	defer root.Close()
	st, err := root.Stat(sub)
	if errors.Is(err, fs.ErrNotExist) && !v.api {
		if err = root.MkdirAll(sub, 0o750); err == nil {
			st, err = root.Stat(sub)
		}
	}
	if err != nil {
		return -1, false, fmt.Errorf("subPath %s: %w", sub, err)
	}
	at, err := unix.Open(v.path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, false, fmt.Errorf("subPath %s: %w", sub, err)
	}
	defer unix.Close(at)
	f, err := unix.Openat2(at, sub, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return -1, false, fmt.Errorf("subPath %s: %w", sub, err)
	}
	defer unix.Close(f)
	fd, err = openTree(f, "", true)
	return fd, st.IsDir(), err
}

// attach mounts what the Pod brings, in the container's root.
func (b *rootBuilder) attach(mounts sources) error {
	for _, m := range mounts {
		err := b.point(m)
		if errors.Is(err, fs.ErrNotExist) && m.optional {
			continue
		}
		if err == nil {
			err = b.attachOne(m)
		}
		if err != nil {
			return fmt.Errorf("mountPath %s: %w", m.target, err)
		}
	}
	return nil
}

func (b *rootBuilder) attachOne(m source) error {
	if err := unix.MoveMount(m.fd, "", unix.AT_FDCWD, m.target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	if !m.follows {
		if err := unix.Mount("", m.target, "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return fmt.Errorf("private mount: %w", err)
		}
	}
	if m.readOnly {
		if err := unix.Mount("", m.target, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
			return fmt.Errorf("read-only mount: %w", err)
		}
	}
	if m.own && m.dir {
		return b.owns(m.target)
	}
	return nil
}

// point makes the mount point of a source, if need be and if the place is the
// container's own.
func (b *rootBuilder) point(m source) error {
	if !m.volume && !m.dir {
		if err := b.unlink(m.target); err != nil {
			return err
		}
	}
	st, err := os.Stat(m.target)
	switch {
	case err == nil && st.IsDir() != m.dir:
		return fmt.Errorf("is %s, and what is to be mounted is %s", fileOrDir(st.IsDir()), fileOrDir(m.dir))
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist) || m.optional:
		return err
	}
	if err := b.own(filepath.Dir(m.target)); err != nil {
		return err
	}
	if m.dir {
		return os.MkdirAll(m.target, 0o755)
	}
	return makeFile(m.target)
}

// unlink removes a link in the place of a file in /etc, if that is the container's
// own: mostly it leads to /run, which is another one than the node's.
func (b *rootBuilder) unlink(path string) error {
	st, err := os.Lstat(path)
	if err != nil || st.Mode()&fs.ModeSymlink == 0 || b.own(filepath.Dir(path)) != nil {
		return nil
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("link in its place: %w", err)
	}
	return nil
}

// makeFile makes an empty file, and the directories above it.
func makeFile(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// own makes a place the container's own, in which something is to be made: a
// directory that need not exist.
func (b *rootBuilder) own(dir string) error {
	for {
		var st unix.Stat_t
		err := unix.Stat(dir, &st)
		switch {
		case err == nil && b.devices[st.Dev]:
			return nil
		case err == nil && dir == "/":
			return errors.New("is not there, and / is the host's: make the mount point with mkdir, or choose another")
		case err == nil:
			if err := skeleton(dir, dir); err != nil {
				return fmt.Errorf("is not there, and cannot be made, as %s is the host's: make the mount point with mkdir, or choose another: %w", dir, err)
			}
			return b.owns(dir)
		case !errors.Is(err, unix.ENOENT) || dir == "/":
			return err
		}
		dir = filepath.Dir(dir)
	}
}

func fileOrDir(dir bool) string {
	if dir {
		return "a directory"
	}
	return "a file"
}
