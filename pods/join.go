package pods

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// InitName is the hidden command that is the first process of a Pod whose
// containers share their processes: it does nothing but reap.
const InitName = "pause-init"

// onOwnThread calls f on a thread that ends with it: whatever f does to the thread's
// namespaces, nobody else sees. It is never the process's first, whose namespaces
// stand for those of the process in /proc.
func onOwnThread(f func()) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != os.Getpid() {
			f()
			return
		}
		taken := make(chan struct{})
		go func() { // on another one, as this one is held
			runtime.LockOSThread()
			close(taken)
			f()
		}()
		<-taken
		runtime.UnlockOSThread()
	}()
}

// joinContainer brings the calling thread, which is locked and never used for
// anything else again, into all namespaces of a process. Children that it starts
// are among that process's.
func joinContainer(pid int) error {
	// All are opened before any is joined: /proc may be another one afterwards.
	files, err := openNamespaces(pid)
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	if err != nil {
		return err
	}
	root, err := os.Open(fmt.Sprintf("/proc/%d/root", pid))
	if err != nil {
		return fmt.Errorf("root of process %d: %w", pid, err)
	}
	defer root.Close()
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("a root of the thread's own: %w", err)
	}
	for _, f := range files {
		if err := unix.Setns(int(f.Fd()), 0); err != nil {
			return fmt.Errorf("entering %s: %w", f.Name(), err)
		}
	}
	if err := errors.Join(unix.Fchdir(int(root.Fd())), unix.Chroot("."), unix.Chdir("/")); err != nil {
		return fmt.Errorf("entering %s: %w", root.Name(), err)
	}
	return nil
}

// openNamespaces opens the namespaces of a process, of the kinds that this kernel
// has, but for those that the thread is in already; the mount namespace last. What it has opened is returned with an error too.
func openNamespaces(pid int) (files []*os.File, err error) {
	for _, kind := range []string{"net", "uts", "ipc", "pid", "mnt"} {
		path := fmt.Sprintf("/proc/%d/ns/%s", pid, kind)
		if mine := inodeOf("/proc/thread-self/ns/" + kind); mine == 0 || mine == inodeOf(path) {
			continue
		}
		f, err := os.Open(path)
		if err != nil {
			return files, fmt.Errorf("namespaces of process %d: %w", pid, err)
		}
		files = append(files, f)
	}
	return files, nil
}

// startInit starts the first process of the Pod's process namespace, which also
// mounts its /proc.
func (w *world) startInit() error {
	if _, err := os.Stat("/proc/self/ns/pid_for_children"); err != nil {
		w.remark("shareProcessNamespace: this kernel has no process namespaces: containers see the node's processes")
		return nil
	}
	proc := ""
	if w.dir != "" {
		proc = w.dir + "/proc"
		if err := os.MkdirAll(proc, 0o755); err != nil {
			return fmt.Errorf("process namespace: %w", err)
		}
	}
	r, ready, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("process namespace: %w", err)
	}
	defer r.Close()
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: []string{"toyproxy", InitName, proc}, Dir: "/", Stderr: os.Stderr, ExtraFiles: []*os.File{ready}}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID, Setpgid: true, Pdeathsig: syscall.SIGKILL}
	err = cmd.Start()
	ready.Close()
	if err != nil {
		return fmt.Errorf("process namespace: %w", err)
	}
	w.init = cmd.Process.Pid
	if n, _ := r.Read(make([]byte, 1)); n == 0 {
		return errors.New("process namespace: its first process has ended; its message stands above")
	}
	return cmd.Process.Release()
}

// joinProcesses has the children of the calling thread be in the Pod's process
// namespace, if it has one.
func (w *world) joinProcesses() error {
	if w.init == 0 {
		return nil
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/pid", w.init))
	if err != nil {
		return fmt.Errorf("process namespace of the Pod: %w", err)
	}
	defer f.Close()
	if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWPID); err != nil {
		return fmt.Errorf("entering the process namespace of the Pod: %w", err)
	}
	return nil
}

// PauseInit is the body of the hidden command InitName, with the directory to
// mount /proc at, for the containers, or "". It ends by KILL alone, and all
// processes of its namespace with it.
func PauseInit(_ context.Context, args []string) error {
	if len(args) != 1 || os.Getpid() != 1 {
		return fmt.Errorf("%s: want one directory, as the first process of its namespace: toyproxy starts it itself", InitName)
	}
	// What ignores CHLD leaves no dead children; no other signal gets through to
	// the first process of a namespace that asks for none.
	signal.Ignore(syscall.SIGCHLD)
	if args[0] != "" {
		if err := unix.Mount("proc", args[0], "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
			return fmt.Errorf("mount of /proc for the Pod: %w", err)
		}
	}
	ready := os.NewFile(readyFD, "ready")
	if _, err := ready.WriteString("1"); err != nil {
		return fmt.Errorf("word to the pause process: %w", err)
	}
	ready.Close()
	for {
		if err := unix.Pause(); err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("waiting: %w", err)
		}
	}
}
