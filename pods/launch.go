package pods

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// ownHostname gives the Pod a host name of its own. A kernel without UTS
// namespaces leaves it the node's: the name must not be set there.
func ownHostname(name string) error {
	if err := unix.Unshare(unix.CLONE_NEWUTS); errors.Is(err, unix.EINVAL) {
		return nil
	} else if err != nil {
		return err
	}
	return unix.Sethostname([]byte(name))
}

// launch starts a container as a child in a process group of its own.
func (p *pause) launch(c *corev1.Container, out, ready *os.File) (int, error) {
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: standInArgs(p.pod, *c)}
	if ready != nil {
		cmd.ExtraFiles = []*os.File{ready}
	}
	return p.spawn(c, cmd, c.Command, out)
}

// enter starts a command inside a container that runs.
func (p *pause) enter(u *unit, args []string, out *os.File) (int, error) {
	return p.spawn(u.spec, &exec.Cmd{}, args, out)
}

func (p *pause) spawn(c *corev1.Container, cmd *exec.Cmd, args []string, out *os.File) (int, error) {
	path := standardPath
	if s := os.Getenv("PATH"); s != "" {
		path = s
	}
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = cmp.Or(c.WorkingDir, "/"), environ(p.pod, *c, path), out, out
	if err := checkWorkingDir(cmd.Dir); err != nil {
		return 0, err
	}
	if len(args) > 0 {
		cmd.Args = args
		if len(c.Command) > 0 && &args[0] == &c.Command[0] {
			cmd.Args = argv(*c, cmd.Env)
		}
		program, err := lookUp(cmd.Args[0], cmd.Env, cmd.Dir)
		if err != nil {
			return 0, err
		}
		cmd.Path = program
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return 0, startError(cmd, err)
	}
	// Whoever reaps children learns of its end.
	pid := cmd.Process.Pid
	return pid, cmd.Process.Release()
}
