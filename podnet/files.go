package podnet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	recordFile  = "podnet.json"
	lockFile    = "podnet.lock"
	journalFile = "podnet-sysctls.json"
	// lockPoll is how often a taken lock is tried again.
	lockPoll = 20 * time.Millisecond
	// fileMark begins the files below EtcNetnsDir that are ours.
	fileMark = "# Written by toyproxy"
)

func (n *Node) statePath(name string) string { return filepath.Join(n.cfg.StateDir, name) }

// load reads the record; false when there is none. A damaged one is none: what is
// alive is recognised by its marks.
func (n *Node) load() (rec record, exists bool, err error) {
	path := n.statePath(recordFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return record{}.clone(), false, nil
	}
	if err != nil && !errors.Is(err, unix.EISDIR) {
		return rec, true, fmt.Errorf("record of Pod networks: %w", err)
	}
	if err := json.Unmarshal(b, &rec); err != nil {
		return record{}.clone(), false, nil
	}
	return rec.clone(), true, nil
}

// save replaces the record by renaming.
func (n *Node) save(rec record) error {
	b, err := json.MarshalIndent(rec, "", "  ")
	if err != nil {
		return fmt.Errorf("record of Pod networks: %w", err)
	}
	return wrap(replaceFile(n.statePath(recordFile), string(b)+"\n"), "record of Pod networks")
}

// lock keeps other processes from applying at the same time. It waits until the
// context ends.
func (n *Node) lock(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(n.cfg.StateDir, 0o755); err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	path := n.statePath(lockFile)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock of Pod networks: %w", err)
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("lock of Pod networks %s, held by another process: %w", path, errors.Join(err, ctx.Err()))
		case <-time.After(lockPoll):
		}
	}
}

// readFile looks at what stands where a namespace should.
func readFile(path string) (fileKind, int64, error) {
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return absent, 0, nil
	}
	if err != nil {
		return plain, 0, fmt.Errorf("network namespace %s: %w", path, err)
	}
	var fsInfo unix.Statfs_t
	if err := unix.Statfs(path, &fsInfo); err != nil {
		return plain, 0, fmt.Errorf("network namespace %s: %w", path, err)
	}
	if fsInfo.Type == unix.NSFS_MAGIC {
		return namespace, 0, nil
	}
	return plain, st.Size(), nil
}

// mountNamespace gives the namespace of the calling thread a name. The file is
// made by O_EXCL: nobody else's is ever covered.
func mountNamespace(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDONLY, 0o444)
	if err != nil {
		return fmt.Errorf("network namespace: %w", err)
	}
	f.Close()
	if err := unix.Mount(threadNetns, path, "", unix.MS_BIND, ""); err != nil {
		return errors.Join(fmt.Errorf("mount of network namespace %s: %w", path, err), os.Remove(path))
	}
	return nil
}

// removeNamespace takes a name away. Processes inside keep the namespace itself.
// Mounts may lie on one another, so it goes on until none is left.
func removeNamespace(path string) error {
	for {
		err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			break
		}
		if err != nil {
			return fmt.Errorf("unmount of network namespace %s: %w", path, err)
		}
	}
	return wrap(ignore(os.Remove(path), fs.ErrNotExist), "network namespace")
}

// shareDir makes the namespaces' directory a shared mount of its own, as
// `ip netns add` does: otherwise a process with mounts of its own, such as one of
// `ip netns exec`, would keep every namespace that is unmounted here.
func shareDir(dir string) error {
	if err := unix.Mount(dir, dir, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount of %s: %w", dir, err)
	}
	return wrap(unix.Mount("", dir, "", unix.MS_SHARED|unix.MS_REC, ""), "sharing the mount "+dir)
}

// isShared reports whether a directory is a mount point with shared propagation.
func isShared(dir string) (bool, error) {
	b, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return false, fmt.Errorf("list of mounts: %w", err)
	}
	shared := false
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) > 6 && f[4] == dir {
			shared = strings.HasPrefix(f[6], "shared:") // the last one lies on top
		}
	}
	return shared, nil
}

// missingDirs returns those of the directory and its parents that do not exist,
// outermost first.
func missingDirs(dir string) []string {
	if _, err := os.Stat(dir); err == nil || dir == "/" || dir == "." {
		return nil
	}
	return append(missingDirs(filepath.Dir(dir)), dir)
}

// isReadOnly reports whether a directory, which need not exist, lies on a file
// system that takes no writes.
func isReadOnly(dir string) bool {
	for {
		err := unix.Access(dir, unix.W_OK)
		if !errors.Is(err, unix.ENOENT) || dir == filepath.Dir(dir) {
			return errors.Is(err, unix.EROFS)
		}
		dir = filepath.Dir(dir)
	}
}

// replaceFile writes a file by renaming: nobody reads half of it.
func replaceFile(path, content string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	next := path + ".new"
	if err := ignore(os.Remove(next), fs.ErrNotExist); err != nil {
		return err // what a kill has left
	}
	f, err := os.OpenFile(next, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644) // no link is followed
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		_ = os.Remove(next)
	}
	return err
}

// readEtc returns the files of a namespace's directory below EtcNetnsDir.
func (n *Node) readEtc(name string) (map[string]string, error) {
	files := map[string]string{}
	for _, file := range []string{"hosts", "resolv.conf"} {
		b, err := os.ReadFile(n.etcPath(name, file))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("file of network namespace %s: %w", name, err)
		}
		files[file] = string(b)
	}
	return files, nil
}

func (n *Node) etcPath(name, file string) string { return filepath.Join(n.cfg.EtcNetnsDir, name, file) }

// removeEtc removes a file of ours, and its directory when nothing is left in it.
func (n *Node) removeEtc(name, file string) error {
	path := n.etcPath(name, file)
	if err := ignore(os.Remove(path), fs.ErrNotExist); err != nil {
		return fmt.Errorf("file of network namespace %s: %w", name, err)
	}
	return removeEmpty(filepath.Dir(path))
}

// removeEmpty removes a directory unless it holds something, or is gone.
func removeEmpty(dir string) error {
	err := unix.Rmdir(dir)
	for _, expected := range []error{unix.ENOTEMPTY, unix.EEXIST, unix.ENOENT, unix.EBUSY} {
		err = ignore(err, expected)
	}
	return wrap(err, "directory "+dir)
}

// writeSysctl sets a parameter of the thread's namespace; a kernel without the
// key has no need of it.
func writeSysctl(key, value string) error {
	f, err := os.OpenFile("/proc/sys/"+key, os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("sysctl %s: %w", key, err)
	}
	_, err = f.WriteString(value)
	return wrap(errors.Join(err, f.Close()), "sysctl "+key)
}

// readSysctl returns a parameter of the thread's namespace, "" when there is none.
func readSysctl(key string) string {
	b, err := os.ReadFile("/proc/sys/" + key)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// setLinkSysctls prepares a link for IPv6 addresses that are usable at once.
func setLinkSysctls(name string) error {
	dir := "net/ipv6/conf/" + name + "/"
	return errors.Join(writeSysctl(dir+"disable_ipv6", "0"), writeSysctl(dir+"accept_dad", "0"), writeSysctl(dir+"accept_ra", "0"))
}

// setPodSysctls prepares the thread's new namespace, before it has links. A Pod
// listens to no router but its gateway, and no redirect may lead it past that.
func setPodSysctls() error {
	var errs []error
	for _, scope := range []string{"all", "default"} {
		errs = append(errs, setLinkSysctls(scope),
			writeSysctl("net/ipv6/conf/"+scope+"/accept_redirects", "0"),
			writeSysctl("net/ipv4/conf/"+scope+"/accept_redirects", "0"))
	}
	return errors.Join(errs...)
}

// makeShared makes the directory if need be, and shares it.
func makeShared(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("directory of network namespaces: %w", err)
	}
	if shared, err := isShared(dir); err != nil || shared {
		return err
	}
	return shareDir(dir)
}

// unshareDir undoes shareDir unless the directory holds something.
func unshareDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 0 {
		return wrap(ignore(err, fs.ErrNotExist), "directory of network namespaces")
	}
	return wrap(ignore(unix.Unmount(dir, unix.UMOUNT_NOFOLLOW), unix.EINVAL), "unmount of "+dir)
}
