package gateway

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// inside says that the process has a network namespace of its own.
const inside = "TOYPROXY_GATEWAY_INSIDE"

// TestMain runs the tests in a network namespace of their own, as they take ports such
// as 80 and 443 on many addresses: in a child, since a running process cannot move.
func TestMain(m *testing.M) {
	if os.Getenv(inside) != "" {
		if err := exec.Command("ip", "link", "set", "lo", "up").Run(); err != nil {
			fmt.Fprintln(os.Stderr, "loopback of the tests' namespace:", err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	child := exec.Command(os.Args[0], os.Args[1:]...)
	child.Env = append(os.Environ(), inside+"=1")
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	child.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		child.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		child.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		child.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	err := child.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		os.Exit(exit.ExitCode())
	case err != nil:
		fmt.Fprintln(os.Stderr, "tests in a namespace of their own:", err)
		os.Exit(1)
	}
}
