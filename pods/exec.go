package pods

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster/state"
)

// Container is a container that runs on this node.
type Container struct {
	pod     *corev1.Pod
	spec    *corev1.Container
	process process
	dir     string
}

// lookEvery is how often a command's container is looked for.
const lookEvery = 200 * time.Millisecond

// Streams are what a command reads and writes. Nil files are /dev/null.
type Streams struct {
	In, Out, Err *os.File
	// Terminal: In is the terminal that the command is to be controlled by.
	Terminal bool
}

// give sets a command's streams. A nil file must not become one that is there.
func (s Streams) give(cmd *exec.Cmd) {
	if s.In != nil {
		cmd.Stdin = s.In
	}
	if s.Out != nil {
		cmd.Stdout = s.Out
	}
	if s.Err != nil {
		cmd.Stderr = s.Err
	}
}

// absentPod says that there is no Pod of a name. It is fs.ErrNotExist.
type absentPod types.NamespacedName

func (e absentPod) Error() string {
	return fmt.Sprintf("pods %q not found in namespace %s: `toyproxy get pods` lists those there are", e.Name, e.Namespace)
}

func (absentPod) Is(target error) bool { return target == fs.ErrNotExist }

// LoadPod returns the object of a Pod that the node runs, as it is kept. Without it
// the error is fs.ErrNotExist.
func LoadPod(stateDir string, id types.NamespacedName) (*corev1.Pod, error) {
	p, err := state.OpenPods(stateDir).Load(id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, absentPod(id)
	}
	if err != nil {
		return nil, fmt.Errorf("Pod %s: %w", id, err)
	}
	return p, nil
}

// ContainerSpec returns a container of a Pod by its name; without a name the one
// that annotation kubectl.kubernetes.io/default-container names, or the first.
// defaulted tells that others might have been meant.
func ContainerSpec(p *corev1.Pod, name string) (c *corev1.Container, defaulted bool, err error) {
	if name == "" {
		name = p.Annotations["kubectl.kubernetes.io/default-container"]
		if name == "" && len(p.Spec.Containers) > 0 {
			name = p.Spec.Containers[0].Name
			defaulted = len(p.Spec.Containers)+len(p.Spec.InitContainers) > 1
		}
	}
	var names []string
	for _, list := range [][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i], defaulted, nil
			}
			names = append(names, list[i].Name)
		}
	}
	return nil, false, fmt.Errorf("container %s is not valid for pod %s: it has %s", name, p.Name, strings.Join(names, ", "))
}

// Find returns a running container of a Pod, by its name or as ContainerSpec chooses.
func Find(stateDir string, id types.NamespacedName, name string) (*Container, error) {
	dir, err := filepath.Abs(stateDir)
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	p, err := LoadPod(dir, id)
	if err != nil {
		return nil, err
	}
	spec, _, err := ContainerSpec(p, name)
	if err != nil {
		return nil, err
	}
	rep, exists, err := readReport(reportPath(dir, id.Namespace, id.Name))
	if err != nil {
		return nil, err
	}
	if !exists || !rep.process.alive() {
		return nil, fmt.Errorf("Pod %s does not run: its pause process is gone; run `toyproxy sync` to have it replaced", id)
	}
	i := slices.IndexFunc(rep.Containers, func(c containerReport) bool { return c.Name == spec.Name })
	if i < 0 || rep.Containers[i].Phase != running {
		return nil, fmt.Errorf("container %s of Pod %s does not run: `toyproxy describe pod %s -n %s` tells why", spec.Name, id, id.Name, id.Namespace)
	}
	// Its number is its own as long as it is the pause process's child.
	pid := rep.Containers[i].Pid
	s, err := readStat(pid)
	if err != nil || s.parent != rep.process.Pid || s.dead() {
		return nil, fmt.Errorf("container %s of Pod %s has just ended: try again", spec.Name, id)
	}
	return &Container{p, spec, process{pid, s.start}, dir}, nil
}

// Run runs a command inside the container: in its namespaces and its root, with its
// environment, user and directory. It returns the command's exit status, 128 and
// the signal's number when one ended it. The end of the context kills it.
func (c *Container) Run(ctx context.Context, args []string, s Streams) (int, error) {
	w := &world{pod: c.pod, stateDir: c.dir}
	env, err := containerEnv(c.pod, c.spec, w.objects(), standardPath)
	if err != nil {
		return 0, err
	}
	if s.Terminal {
		env = append(env, "TERM="+terminal())
	}
	cmd := &exec.Cmd{Args: args, Env: env}
	s.give(cmd)
	// A terminal controls the session that it is the first of.
	if inodeOf(fmt.Sprintf("/proc/%d/ns/pid", c.process.Pid)) != inodeOf("/proc/self/ns/pid") {
		w.init = c.process.Pid
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: s.Terminal, Pdeathsig: w.deathSignal()}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	// The command is killed when the thread ends that started it.
	onOwnThread(func() { done <- c.run(ctx, w, cmd) })
	err = c.await(done, cancel)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		status, _ := exit.Sys().(syscall.WaitStatus)
		if status.Signaled() {
			return 128 + int(status.Signal()), nil
		}
		return exit.ExitCode(), nil
	}
	return 0, err
}

// await waits for a command, and ends it with the container.
func (c *Container) await(done <-chan error, end func()) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			if !c.process.alive() {
				end()
			}
		}
	}
}

func (c *Container) run(ctx context.Context, w *world, cmd *exec.Cmd) error {
	if err := joinContainer(c.process.Pid); err != nil {
		return err
	}
	if err := w.start(c.spec, cmd, false); err != nil {
		return err
	}
	// Until Wait has returned, the number is the command's own.
	stop := context.AfterFunc(ctx, func() { _ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) })
	defer stop()
	return cmd.Wait()
}

// terminal is the kind of terminal that this process has.
func terminal() string {
	if s := os.Getenv("TERM"); s != "" {
		return s
	}
	return "xterm"
}
