package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// sandboxEnv tells the re-executed binary that it is inside.
const sandboxEnv = "TOYPROXY_SANDBOX"

// InSandbox tells whether this process was started by Sandbox.
func InSandbox() bool { return os.Getenv(sandboxEnv) != "" }

// Sandbox runs this binary again with the same arguments in network, mount and
// process namespaces of its own and returns the exit code. Whatever the child
// makes ends with it: nothing of the host changes.
func Sandbox(ctx context.Context, args []string) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 1, fmt.Errorf("path of this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), sandboxEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL,
	}
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil // -1: ended by a signal
	}
	if err != nil {
		return 1, fmt.Errorf("namespaces for the demo: %w", err)
	}
	return 0, nil
}

// Furnish makes the inside of a sandbox usable: /run and /etc/netns of its
// own, its own processes in /proc, loopback up. It returns a directory for the
// scenario's files.
func Furnish() (string, error) {
	for _, m := range []struct {
		source, target, fstype string
		flags                  uintptr
		data                   string
	}{
		{"none", "/", "", unix.MS_REC | unix.MS_PRIVATE, ""},
		{"proc", "/proc", "proc", 0, ""},
		{"run", "/run", "tmpfs", 0, "mode=755"},
	} {
		if err := unix.Mount(m.source, m.target, m.fstype, m.flags, m.data); err != nil {
			return "", fmt.Errorf("mount of %s: %w", m.target, err)
		}
	}
	const dir = "/run/demo"
	for _, d := range []string{dir, "/run/etc/upper", "/run/etc/work", "/run/netns", "/run/lock"} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return "", fmt.Errorf("directory of the demo: %w", err)
		}
	}
	if err := unix.Mount("etc", "/etc", "overlay", 0, "lowerdir=/etc,upperdir=/run/etc/upper,workdir=/run/etc/work"); err != nil {
		return "", fmt.Errorf("overlay on /etc: %w", err)
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return "", fmt.Errorf("loopback: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return "", fmt.Errorf("loopback up: %w", err)
	}
	return dir, nil
}
