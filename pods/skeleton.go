package pods

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// skeleton mounts a file system in memory at a directory, in which every entry of
// another directory stands for itself: where no layer can lie over it (a kernel
// without overlayfs, an ordinary user's namespaces, one layer too many), entries can
// be added this way, and no other. from and at may be the same.
func skeleton(from, at string) error {
	dir, err := os.Open(from)
	if err != nil {
		return err
	}
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return err
	}
	st, err := dir.Stat()
	if err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", at, "tmpfs", 0, fmt.Sprintf("mode=%o", st.Mode().Perm())); err != nil {
		return fmt.Errorf("file system over %s: %w", at, err)
	}
	for _, e := range entries {
		if err := standFor(dir, e, filepath.Join(at, e.Name())); err != nil {
			return fmt.Errorf("%s in a file system over %s: %w", e.Name(), at, err)
		}
	}
	return nil
}

// standFor makes an entry of a directory appear in another place.
func standFor(dir *os.File, e fs.DirEntry, at string) error {
	if e.Type()&fs.ModeSymlink != 0 {
		target := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(int(dir.Fd()), e.Name(), target)
		if err != nil {
			return err
		}
		return os.Symlink(string(target[:n]), at)
	}
	fd, err := openTree(int(dir.Fd()), e.Name(), true)
	if err != nil {
		return nil // it has gone, or is not to be seen by this user
	}
	defer unix.Close(fd)
	if e.IsDir() {
		err = os.Mkdir(at, 0o755)
	} else {
		err = makeFile(at)
	}
	if err != nil {
		return err
	}
	return unix.MoveMount(fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH)
}
