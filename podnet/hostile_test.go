package podnet

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// mount puts a file system of its own under a test's directory.
func mount(t *testing.T, dir, options string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
}

// A disk that is full does not keep anybody from making room.
func TestRemoveOnAFullDisk(t *testing.T) {
	n := newNode(t)
	mount(t, n.cfg.StateDir, "size=64k")
	create(t, n, requests("a")...)
	sh(t, "cat /dev/zero >%s/fill 2>/dev/null || true", n.cfg.StateDir)
	if err := n.save(record{}); err == nil {
		t.Fatal("the disk is not full")
	}
	p, err := n.Remove(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Apply(t.Context()); err != nil {
		t.Error(err)
	}
	if left := sh(t, "ls %s; ip -o link show type bridge; ls %s 2>&1 || true", n.cfg.StateDir, n.cfg.NetnsDir); !strings.HasPrefix(left, "fill\nls: ") {
		t.Errorf("left: %s", left)
	}
}

// Where /etc takes no writes, Pods have a network all the same.
func TestReadOnlyEtc(t *testing.T) {
	for _, when := range []string{"before", "after"} {
		t.Run(when+" the Pod was made", func(t *testing.T) {
			n := newNode(t)
			etc := filepath.Join(t.TempDir(), "etc")
			mount(t, etc, "mode=755")
			n.cfg.EtcNetnsDir = filepath.Join(etc, "netns")
			if when == "after" {
				create(t, n, requests("a")...)
			}
			if err := unix.Mount("", etc, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
				t.Fatal(err)
			}
			p, err := n.Create(t.Context(), requests("a"))
			if err != nil {
				t.Fatal(err)
			}
			if notes := strings.Join(p.Remarks(), " "); !strings.Contains(notes, "read-only") {
				t.Errorf("notes: %q", notes)
			}
			create(t, n, requests("a")...)
			p, err = n.Remove(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Apply(t.Context()); err != nil {
				t.Error(err)
			}
			if notes := strings.Join(p.Remarks(), " "); strings.Contains(notes, "stays") != (when == "after") {
				t.Errorf("notes of Remove: %q", notes)
			}
		})
	}
}

// Where /proc/sys takes no writes, what needs no writing is left alone.
func TestRemoveWithReadOnlySysctls(t *testing.T) {
	n := newNode(t)
	sh(t, "echo 1 > /proc/sys/net/ipv4/ip_forward")
	create(t, n, requests("a")...)
	rec, _, err := n.load()
	if err != nil {
		t.Fatal(err)
	}
	rec.Redirects = readSysctl(redirectsKey) // as it is where forwarding was switched on before
	if err := n.save(rec); err != nil {
		t.Fatal(err)
	}
	journal := `[{"key":"net.ipv4.ip_forward","old":"1","set":"1"}]`
	if err := os.WriteFile(n.statePath(journalFile), []byte(journal), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("/proc/sys", "/proc/sys", "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount("/proc/sys", unix.MNT_DETACH) })
	if err := unix.Mount("", "/proc/sys", "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	p, err := n.Remove(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Apply(t.Context()); err != nil {
		t.Error(err)
	}
}

// A pass that was killed between its lock and its first record leaves the lock.
func TestRemoveTakesALoneLock(t *testing.T) {
	n := newNode(t)
	unlock, err := n.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	removeAll(n)
	if left := listDir(n.cfg.StateDir); left != "\n" {
		t.Errorf("left: %s", left)
	}
}
