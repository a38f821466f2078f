package pods

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/toyproxy/toyproxy/podnet"
)

// nodeEnv carries a surrounding to the pause process. Containers do not get it:
// their environment is made from nothing.
const nodeEnv = "TOYPROXY_SURROUNDING"

// surrounding is what the node knows of a Pod beyond its object, as a pause
// process is told when it is started.
type surrounding struct {
	// DNS is what the Pod's resolv.conf says; without servers it is the host's.
	DNS podnet.DNS `json:"dns"`
	// Domain is the zone of cluster DNS.
	Domain string `json:"domain,omitempty"`
	// Own are the kinds of namespaces that the process was started in alone.
	Own []string `json:"own,omitempty"`
}

// cloneFlags are the kinds of namespaces that a pause process makes, beside that
// of the network, by their file below /proc/PID/ns.
func cloneFlags() map[string]uintptr {
	return map[string]uintptr{"mnt": unix.CLONE_NEWNS, "uts": unix.CLONE_NEWUTS, "ipc": unix.CLONE_NEWIPC}
}

// ownNamespaces are the kinds that a Pod gets and this kernel has. A Pod in the
// node's network has the node's host name as well, as in Kubernetes.
func ownNamespaces(p *corev1.Pod) (kinds []string, flags uintptr) {
	for _, kind := range []string{"mnt", "uts", "ipc"} {
		if kind == "ipc" && p.Spec.HostIPC || kind == "uts" && p.Spec.HostNetwork {
			continue
		}
		if _, err := os.Stat("/proc/self/ns/" + kind); err == nil {
			kinds = append(kinds, kind)
			flags |= cloneFlags()[kind]
		}
	}
	return kinds, flags
}

// surround has the command of a pause process start in namespaces of its own, and
// tells it what the node knows.
func (r *Runtime) surround(cmd *exec.Cmd, p *corev1.Pod) error {
	s := surrounding{DNS: r.request(p, false).DNS, Domain: r.cfg.ClusterDomain}
	s.Own, cmd.SysProcAttr.Cloneflags = ownNamespaces(p)
	b, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("surrounding of a pause process: %w", err)
	}
	cmd.Env = append(os.Environ(), nodeEnv+"="+string(b))
	return nil
}

// world is what the containers of one Pod see and share. It lies in namespaces of
// the pause process, so that it ends with it, whatever ends that.
type world struct {
	pod      *corev1.Pod
	stateDir string
	node     surrounding
	// dir is where the Pod's own file system in memory is mounted, for the Pod
	// alone: volumes, files for /etc, and the layers that containers write to.
	// Empty without a mount namespace.
	dir string
	// init is the first process of the Pod's process namespace, 0 without one.
	init int
	// mu guards volumes, which are made when the first container wants them and
	// followed by a goroutine.
	mu      sync.Mutex
	volumes map[string]*volume
	// following: a goroutine keeps volumes as their objects are.
	following bool
}

// openWorld makes what all containers of a Pod share. It is called once, by the
// pause process, before the first container.
func openWorld(p *corev1.Pod, stateDir string) (*world, error) {
	w := &world{pod: p, stateDir: stateDir, volumes: map[string]*volume{}}
	if s := os.Getenv(nodeEnv); s != "" {
		if err := json.Unmarshal([]byte(s), &w.node); err != nil {
			return nil, fmt.Errorf("surrounding of the Pod: %w", err)
		}
	}
	w.tellMissing()
	if w.owns("uts") {
		if err := unix.Sethostname([]byte(kernelHostname(p, w.node.Domain))); err != nil {
			return nil, fmt.Errorf("host name: %w", err)
		}
	}
	if w.owns("mnt") {
		if err := w.mountShared(); err != nil {
			return nil, err
		}
	}
	w.setSysctls()
	if p.Spec.ShareProcessNamespace != nil && *p.Spec.ShareProcessNamespace {
		return w, w.startInit()
	}
	return w, nil
}

// tellMissing tells which kinds of namespaces this kernel lacks.
func (w *world) tellMissing() {
	for _, missing := range [][2]string{{"mnt", "files"}, {"uts", "host name"}, {"ipc", "shared memory"}} {
		if _, err := os.Stat("/proc/self/ns/" + missing[0]); err != nil {
			w.remark("this kernel has no %s namespaces: the Pod has the node's %s", missing[0], missing[1])
		}
	}
}

func (w *world) owns(kind string) bool { return slices.Contains(w.node.Own, kind) }

// remark tells, in the pause process's log, what this kernel or node lacks.
func (w *world) remark(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "pause: "+format+"\n", args...)
}

// setSysctls sets securityContext.sysctls: those of the Pod's own namespaces,
// which end with it.
func (w *world) setSysctls() {
	if w.pod.Spec.SecurityContext == nil {
		return
	}
	for _, s := range w.pod.Spec.SecurityContext.Sysctls {
		key := strings.ReplaceAll(s.Name, ".", "/")
		own := strings.HasPrefix(key, "net/") && !w.pod.Spec.HostNetwork ||
			w.owns("ipc") && (strings.HasPrefix(key, "kernel/shm") || strings.HasPrefix(key, "kernel/msg") || key == "kernel/sem" || strings.HasPrefix(key, "fs/mqueue/"))
		if !own || strings.Contains(key, "..") {
			w.remark("sysctl %s is not set: it is the node's, not the Pod's", s.Name)
			continue
		}
		if err := os.WriteFile("/proc/sys/"+key, []byte(s.Value), 0); err != nil {
			w.remark("sysctl %s=%s: %v", s.Name, s.Value, err)
		}
	}
}

// launch starts the process of a container in a mount namespace of its own, with
// a root of its own, and returns its number. out takes what it prints; ready is
// given to a stand-in as descriptor 3, and is nil otherwise. The container may be
// started any number of times; each start sees a fresh root and the same volumes.
// Whoever reaps children learns of its end. KILL follows the end of this process.
func (w *world) launch(c *corev1.Container, out, ready *os.File) (int, error) {
	env, err := containerEnv(w.pod, c, w.objects(), os.Getenv("PATH"))
	if err != nil {
		return 0, err
	}
	mounts, err := w.sources(c, env)
	if err != nil {
		return 0, err
	}
	cmd := &exec.Cmd{Args: argv(*c, env), Env: env, Stdout: out, Stderr: out}
	if len(c.Command) == 0 {
		cmd.Args = standInArgs(w.pod, *c)
	}
	if ready != nil {
		cmd.ExtraFiles = []*os.File{ready}
	}
	return w.onThread(func() error {
		defer mounts.close()
		if err := w.joinProcesses(); err != nil {
			return err
		}
		if err := w.enterRoot(c, mounts); err != nil {
			return err
		}
		return w.start(c, cmd, len(c.Command) == 0)
	}, cmd)
}

// enter starts a command inside a container that runs as process pid, as one more
// process of it: with its environment, user and directory. stdin may be nil. The
// command is a child of this process, and ends by KILL with it.
func (w *world) enter(c *corev1.Container, pid int, args []string, stdin, out *os.File) (int, error) {
	env, err := containerEnv(w.pod, c, w.objects(), os.Getenv("PATH"))
	if err != nil {
		return 0, err
	}
	cmd := &exec.Cmd{Args: args, Env: env, Stdout: out, Stderr: out}
	if stdin != nil {
		cmd.Stdin = stdin
	}
	return w.onThread(func() error {
		if err := joinContainer(pid); err != nil {
			return err
		}
		return w.start(c, cmd, false)
	}, cmd)
}

// onThread calls f, which starts a command, on a thread that is thrown away when
// the command has ended: the thread's namespaces are no longer those of others,
// and the command is killed with the thread that started it.
func (w *world) onThread(f func() error, cmd *exec.Cmd) (int, error) {
	type outcome struct {
		pid int
		err error
	}
	started := make(chan outcome, 1)
	onOwnThread(func() {
		pidfd := -1
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: w.deathSignal(), PidFD: &pidfd}
		if err := f(); err != nil {
			started <- outcome{err: err}
			return
		}
		pid := cmd.Process.Pid
		_ = cmd.Process.Release() // the pause process reaps all its children
		started <- outcome{pid: pid}
		awaitEnd(pid, pidfd)
	})
	o := <-started
	return o.pid, o.err
}

// deathSignal is what a command gets when the thread that started it ends. One in
// another process namespace, which cannot see its parent, would take it for dead;
// it ends with the first process there, which gets that signal.
func (w *world) deathSignal() syscall.Signal {
	if w.init != 0 {
		return 0
	}
	return syscall.SIGKILL
}

// start starts a command on a thread that is in the container's namespaces.
func (w *world) start(c *corev1.Container, cmd *exec.Cmd, standIn bool) error {
	if err := become(w.pod, c, cmd); err != nil {
		return err
	}
	cmd.Dir = "/"
	if c.WorkingDir != "" {
		cmd.Dir = c.WorkingDir
	}
	if err := checkWorkingDir(cmd.Dir); err != nil {
		return err
	}
	// The link leads to the program that runs here, were its file replaced since, or
	// in no PATH, or where this user may not look.
	if cmd.Path = "/proc/self/exe"; !standIn && cmd.Args[0] != ProgramName {
		program, err := lookUp(cmd.Args[0], cmd.Env, cmd.Dir)
		if err != nil {
			return err
		}
		cmd.Path = program
	}
	if err := cmd.Start(); err != nil {
		return startError(cmd, err)
	}
	return nil
}

// awaitEnd waits until a child has ended, reaped or not.
func awaitEnd(pid, pidfd int) {
	if pidfd < 0 { // before Linux 5.2
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return // it has ended
		}
		pidfd = fd
	}
	defer unix.Close(pidfd)
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, -1)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// worldDir is where each Pod mounts what it has in memory: each in a mount
// namespace of its own, so that one directory does for all.
func worldDir(stateDir string) string { return filepath.Join(stateDir, "world") }
