package pods

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// mountPoint is one line of the mount table.
type mountPoint struct {
	path, kind string
	readOnly   bool
}

// mountTable returns the mounts that the calling thread sees, in their order.
func mountTable() ([]mountPoint, error) {
	b, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list of mounts: %w", err)
	}
	return parseMountTable(string(b)), nil
}

// parseMountTable reads /proc/PID/mountinfo, see proc(5). Pure.
func parseMountTable(text string) []mountPoint {
	var out []mountPoint
	for line := range strings.Lines(text) {
		own, fs, ok := strings.Cut(line, " - ")
		f, kind := strings.Fields(own), strings.Fields(fs)
		if !ok || len(f) < 6 || len(kind) < 1 {
			continue
		}
		out = append(out, mountPoint{unescape(f[4]), kind[0], slices.Contains(strings.Split(f[5], ","), "ro")})
	}
	return out
}

// unescape replaces \ooo by the byte of that octal number.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// below tells whether a path is a directory or lies in it.
func below(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// treatment is what becomes of a mount of the node in a container's root.
type treatment uint8

const (
	// leave: the container does not see it.
	leave treatment = iota
	// layer: the container sees it, and writes to a layer of its own.
	layer
	// pass: it is the same mount. What is below it comes along.
	pass
)

// layered are the file systems that hold what an image would: a container's
// changes to them are its own. All others are the kernel's or the network's.
func layered(kind string) bool {
	return slices.Contains([]string{"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "tmpfs", "overlay", "hostfs", "bcachefs"}, kind)
}

// rootPlan says what becomes of each mount of the node, the root left out. Nothing
// below /run is seen, where the node's own services answer and its state lies,
// nothing of our state directory, and not the insides of other container engines.
// Pure.
func rootPlan(table []mountPoint, stateDir string) []treatment {
	hidden := []string{"/run", stateDir, "/var/lib/docker", "/var/lib/containers", "/var/lib/containerd", "/var/lib/kubelet"}
	out := make([]treatment, len(table))
	var passed []string
	seen := map[string]bool{"/": true}
	for i, m := range table {
		within := func(dir string) bool { return below(m.path, dir) }
		// Of mounts on one another the first sees the last: it is looked up by name.
		if seen[m.path] || m.kind == "nsfs" || m.kind == "autofs" || slices.ContainsFunc(hidden, within) || slices.ContainsFunc(passed, within) {
			continue
		}
		seen[m.path] = true
		if layered(m.kind) && !m.readOnly {
			out[i] = layer
			continue
		}
		out[i] = pass
		passed = append(passed, m.path)
	}
	return out
}

// rootBuilder makes the root of one container, on a thread in a mount namespace
// that is the container's own.
type rootBuilder struct {
	world *world
	// dir holds the layers, root the new root while it is made.
	dir, root string
	layers    int
	// devices are the numbers of file systems that are the container's own, or the
	// Pod's: there directories may be made.
	devices map[uint64]bool
}

// enterRoot gives the calling thread, and so the container that it starts, a mount
// namespace with a root of its own: the node's files below a layer that takes
// the container's changes, its own /run, the Pod's files in /etc, and the volumes
// that it mounts. Nothing of it is seen outside.
func (w *world) enterRoot(c *corev1.Container, mounts sources) error {
	if w.dir == "" {
		if len(mounts) > 0 {
			return errors.New("volumeMounts: this kernel gives the Pod no mount namespace: leave them out, or use a kernel with namespaces")
		}
		return nil
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	b := &rootBuilder{world: w, dir: filepath.Join(w.dir, "layers", c.Name), devices: map[uint64]bool{}}
	if err := b.build(); err != nil {
		return fmt.Errorf("root of the container: %w", err)
	}
	if err := b.pivot(); err != nil {
		return fmt.Errorf("root of the container: %w", err)
	}
	if err := b.attach(mounts); err != nil {
		return err
	}
	if readOnlyRoot(c) {
		return b.makeReadOnly(mounts)
	}
	return nil
}

func readOnlyRoot(c *corev1.Container) bool {
	s := c.SecurityContext
	return s != nil && s.ReadOnlyRootFilesystem != nil && *s.ReadOnlyRootFilesystem
}

// build mounts everything but what the Pod brings.
func (b *rootBuilder) build() error {
	table, err := mountTable()
	if err != nil {
		return err
	}
	// The layer of the container's last run goes: each run begins anew.
	if err := errors.Join(os.RemoveAll(b.dir), os.MkdirAll(b.dir, 0o755)); err != nil {
		return fmt.Errorf("layer: %w", err)
	}
	b.root = filepath.Join(b.dir, "root")
	if err := os.Mkdir(b.root, 0o755); err != nil {
		return fmt.Errorf("layer: %w", err)
	}
	if err := b.overlay("/", b.root); err != nil {
		// Then all mounts come along with the directories that they lie in.
		b.world.remark("containers write to the node's files: no layer can lie over /: %v", err)
		if err := errors.Join(skeleton("/", b.root), b.owns(b.root)); err != nil {
			return err
		}
		return b.furnish()
	}
	for i, t := range rootPlan(table, b.world.stateDir) {
		b.bring(table[i], t)
	}
	return b.furnish()
}

// bring takes one mount of the node over. One that cannot be is left out: root may
// not see every mount of a user.
func (b *rootBuilder) bring(m mountPoint, t treatment) {
	at := filepath.Join(b.root, m.path)
	st, err := os.Lstat(at)
	if t == leave || err != nil || st.Mode()&fs.ModeSymlink != 0 {
		return
	}
	if t == layer && st.IsDir() && b.overlay(m.path, at) == nil {
		return
	}
	if err := unix.Mount(m.path, at, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		b.world.remark("container without %s: %v", m.path, err)
	}
}

// overlay mounts a layer over a directory of the node.
func (b *rootBuilder) overlay(lower, at string) error {
	if strings.ContainsAny(lower, `:,\`) {
		return fmt.Errorf("%s: a name with a colon, a comma or a backslash", lower)
	}
	b.layers++
	dir := filepath.Join(b.dir, strconv.Itoa(b.layers))
	upper, work := dir+"-upper", dir+"-work"
	if err := errors.Join(os.Mkdir(upper, 0o755), os.Mkdir(work, 0o755), likeDirectory(lower, upper)); err != nil {
		return err
	}
	if err := unix.Mount("overlay", at, "overlay", 0, "lowerdir="+lower+",upperdir="+upper+",workdir="+work); err != nil {
		return err
	}
	return b.owns(at)
}

// likeDirectory gives a directory mode and owner of another: the upper one shows.
func likeDirectory(from, to string) error {
	var st unix.Stat_t
	if err := unix.Stat(from, &st); err != nil {
		return err
	}
	return errors.Join(unix.Chown(to, int(st.Uid), int(st.Gid)), unix.Chmod(to, st.Mode&0o7777))
}

// owns notes that the file system of a directory is the container's own.
func (b *rootBuilder) owns(dir string) error {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return err
	}
	b.devices[st.Dev] = true
	return nil
}

// furnish mounts what each container has for itself: /run, and a /sys that shows
// the Pod's network. Our state directory is hidden: Secrets of others lie there. Who
// runs toyproxy itself gets it back, see sources.
func (b *rootBuilder) furnish() error {
	run := filepath.Join(b.root, "run")
	if isDir(run) {
		if err := unix.Mount("tmpfs", run, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
			return fmt.Errorf("mount of /run: %w", err)
		}
		lock := filepath.Join(run, "lock")
		if err := errors.Join(b.owns(run), os.Mkdir(lock, 0o755), os.Chmod(lock, 0o777|fs.ModeSticky)); err != nil {
			return fmt.Errorf("/run: %w", err)
		}
	}
	if state := filepath.Join(b.root, b.world.stateDir); isDir(state) {
		if err := unix.Mount("tmpfs", state, "tmpfs", unix.MS_RDONLY, "mode=700,size=4k"); err != nil {
			return fmt.Errorf("hiding %s: %w", b.world.stateDir, err)
		}
	}
	b.freshSys()
	return nil
}

// freshSys mounts /sys anew: it shows the network of whoever mounted it. Where
// that is refused, the node's stays.
func (b *rootBuilder) freshSys() {
	sys := filepath.Join(b.root, "sys")
	if !isDir(sys) || unix.Mount("sysfs", sys, "sysfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "") != nil {
		return
	}
	if isDir("/sys/fs/cgroup") {
		_ = unix.Mount("/sys/fs/cgroup", filepath.Join(sys, "fs/cgroup"), "", unix.MS_BIND|unix.MS_REC, "")
	}
}

// pivot makes the new root the root, and lets go of the node's mounts.
func (b *rootBuilder) pivot() error {
	if err := unix.Chdir(b.root); err != nil {
		return fmt.Errorf("new root: %w", err)
	}
	// The old root comes to lie on the new one, and is taken off again.
	err := unix.PivotRoot(".", ".")
	if err == nil {
		return errors.Join(unix.Unmount(".", unix.MNT_DETACH), unix.Chdir("/"))
	}
	// The first root of a machine that runs from its initramfs cannot be moved.
	if err := errors.Join(unix.Mount(".", "/", "", unix.MS_MOVE, ""), unix.Chroot("."), unix.Chdir("/")); err != nil {
		return fmt.Errorf("new root: %w", err)
	}
	return nil
}

// makeReadOnly makes what an image would hold read-only; the volumes are left as
// they are.
func (b *rootBuilder) makeReadOnly(mounts sources) error {
	table, err := mountTable()
	if err != nil {
		return err
	}
	for _, m := range table {
		var st unix.Stat_t
		if unix.Stat(m.path, &st) != nil || !b.devices[st.Dev] || mounts.cover(m.path) {
			continue
		}
		err := unix.Mount("", m.path, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
		// EINVAL: another mount lies over it, so that nobody sees it by this path.
		if err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("readOnlyRootFilesystem: %s: %w", m.path, err)
		}
	}
	return nil
}

func isDir(path string) bool {
	st, err := os.Lstat(path)
	return err == nil && st.IsDir()
}
