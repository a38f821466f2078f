package pods

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster/state"
)

const (
	// settleAfter is how long a program without ports has to run to be ready.
	settleAfter = 100 * time.Millisecond
	// listenWithin is how long a program may take to listen on its ports before
	// it counts as ready all the same: it may never do so.
	listenWithin = 5 * time.Second
	// readyFD is where a stand-in says that it listens.
	readyFD = 3
	// standardPath is the PATH of containers when the pause process has none.
	standardPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
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

// Pause is the body of the hidden command "pause NAMESPACE/NAME --state-dir DIR":
// it holds the Pod of that name, in whose network namespace it was started, and
// returns when TERM, INT or the end of the context has ended its containers.
func Pause(ctx context.Context, args []string) error {
	if len(args) != 3 || args[1] != "--state-dir" || strings.Count(args[0], "/") != 1 {
		return fmt.Errorf("pause: want NAMESPACE/NAME --state-dir DIR, got %q: toyproxy starts it itself", args)
	}
	// Containers are told of the death of this thread, not of the process, so it
	// has to last; and the host name below is that of this thread's children.
	runtime.LockOSThread()
	ns, name, _ := strings.Cut(args[0], "/")
	dir := state.OpenPods(args[2])
	pod, err := dir.Load(types.NamespacedName{Namespace: ns, Name: name})
	if err != nil {
		return fmt.Errorf("pause: Pod %s: %w", args[0], err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("pause: becoming the reaper of orphans: %w", err)
	}
	if err := ownHostname(hostname(pod)); err != nil {
		return fmt.Errorf("pause: host name: %w", err)
	}
	_ = os.WriteFile("/proc/self/comm", []byte("toyproxy-pause"), 0) // for top(1) only
	// All signals: those that are not asked for end a process, and an ignored one
	// would be ignored by every container too.
	signals := make(chan os.Signal, 64)
	signal.Notify(signals)
	me, err := self()
	if err != nil {
		return fmt.Errorf("pause: %w", err)
	}
	p := &pause{pod: pod, dir: dir, stateDir: args[2], report: report{process: me},
		ready: make(chan string), outlets: map[string]*outlet{}}
	p.startAll()
	return p.loop(ctx, signals)
}

// pause is the state of a pause process. One goroutine owns it; others only wait
// for a stand-in's word.
type pause struct {
	pod      *corev1.Pod
	dir      state.Dir[*corev1.Pod]
	stateDir string
	report   report
	// ready passes the names of containers whose stand-in listens.
	ready chan string
	// outlets lead what the containers print into their logs, by container.
	outlets map[string]*outlet
	// ending: TERM was sent. killAt is when KILL follows.
	ending bool
	killAt time.Time
}

// loop lives until the containers have been ended.
func (p *pause) loop(ctx context.Context, signals <-chan os.Signal) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	done := ctx.Done()
	for {
		children := p.reap()
		if p.ending && !children {
			return nil
		}
		if p.ending && !slices.ContainsFunc(p.report.Containers, func(c containerReport) bool { return c.Phase == running }) {
			p.kill() // only orphans are left: they end with their containers
		}
		p.settle(tick)
		select {
		case s := <-signals:
			if s == syscall.SIGTERM || s == syscall.SIGINT {
				p.end()
			}
		case <-done:
			done = nil
			p.end()
		case name := <-p.ready:
			p.change(name, func(c *containerReport) { c.Ready = c.Phase == running })
		case now := <-tick.C:
			if p.ending && now.After(p.killAt) {
				p.kill()
			}
		}
		if p.ending {
			tick.Reset(20 * time.Millisecond)
		}
	}
}

// startAll starts the containers in their order. One that cannot be started does
// not stop the next.
func (p *pause) startAll() {
	for _, c := range p.pod.Spec.Containers {
		p.report.Containers = append(p.report.Containers, containerReport{Name: c.Name, Phase: waiting, StandIn: len(c.Command) == 0})
	}
	p.save()
	for i, c := range p.pod.Spec.Containers {
		if err := p.start(c, &p.report.Containers[i]); err != nil {
			r := &p.report.Containers[i]
			r.Phase, r.ExitCode, r.Reason, r.Message, r.Finished = exited, 128, reasonStartError, err.Error(), time.Now()
		}
	}
	p.save()
}

// start starts one container as a child in a process group of its own.
func (p *pause) start(c corev1.Container, r *containerReport) error {
	path := standardPath
	if s := os.Getenv("PATH"); s != "" {
		path = s
	}
	env := environ(p.pod, c, path)
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: standInArgs(p.pod, c), Dir: cmp.Or(c.WorkingDir, "/"), Env: env}
	if err := checkWorkingDir(cmd.Dir); err != nil {
		return err
	}
	if len(c.Command) > 0 {
		cmd.Args = argv(c, env)
		program, err := lookUp(cmd.Args[0], env, cmd.Dir)
		if err != nil {
			return err
		}
		cmd.Path = program
	}
	out, w, err := newOutlet(LogPath(p.stateDir, p.pod.Namespace, p.pod.Name, c.Name), maxLog)
	if err != nil {
		return err
	}
	defer w.Close()
	p.outlets[c.Name] = out
	cmd.Stdout, cmd.Stderr = w, w
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if r.StandIn {
		ready, err := p.listenFor(c.Name)
		if err != nil {
			return err
		}
		defer ready.Close()
		cmd.ExtraFiles = []*os.File{ready}
	}
	if err := cmd.Start(); err != nil {
		return startError(cmd, err)
	}
	r.Phase, r.Pid, r.Started = running, cmd.Process.Pid, time.Now()
	// Wait4 below reaps it, along with orphans.
	return cmd.Process.Release()
}

// listenFor returns the end of a pipe to be given to a stand-in, which writes a
// line when it listens. The goroutine ends with the stand-in at the latest.
func (p *pause) listenFor(name string) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("pipe: %w", err)
	}
	go func() {
		defer r.Close()
		if _, err := bufio.NewReader(r).ReadString('\n'); err == nil {
			p.ready <- name
		}
	}()
	return w, nil
}

// reap takes the status of every child that has ended, containers and orphans
// alike, and reports whether any child is left.
func (p *pause) reap() (children bool) {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return false // ECHILD: there are none
		case pid == 0:
			return true
		default:
			p.exited(pid, status)
		}
	}
}

// exited records the end of a container; of an orphan there is nothing to record.
func (p *pause) exited(pid int, status unix.WaitStatus) {
	i := slices.IndexFunc(p.report.Containers, func(c containerReport) bool { return c.Pid == pid && c.Phase == running })
	if i < 0 {
		return
	}
	c := &p.report.Containers[i]
	c.Phase, c.Ready, c.Finished = exited, false, time.Now()
	log := LogPath(p.stateDir, p.pod.Namespace, p.pod.Name, c.Name)
	p.outlets[c.Name].drain()
	switch {
	case status.Signaled():
		c.Signal, c.ExitCode, c.Reason = int(status.Signal()), 128+int(status.Signal()), reasonError
		c.Message = "ended by signal " + status.Signal().String()
	case status.ExitStatus() != 0:
		c.ExitCode, c.Reason = status.ExitStatus(), reasonError
		c.Message = fmt.Sprintf("exited with status %d: %s", c.ExitCode, lastLine(log))
	default:
		c.Reason = reasonCompleted
	}
	p.save()
}

// settle makes host programs ready that have run long enough, and stops the clock
// when all containers are settled.
func (p *pause) settle(tick *time.Ticker) {
	open := false
	for i := range p.report.Containers {
		c := &p.report.Containers[i]
		if c.settled() {
			continue
		}
		open = true
		if !c.StandIn && c.Phase == running && p.up(p.pod.Spec.Containers[i], time.Since(c.Started)) {
			p.change(c.Name, func(c *containerReport) { c.Ready = true })
		}
	}
	if !open && !p.ending {
		tick.Stop()
	}
}

// up decides whether a program of the host that has run that long is ready.
func (p *pause) up(c corev1.Container, age time.Duration) bool {
	ports := tcpPorts(c)
	if len(ports) == 0 || age > listenWithin {
		return age > settleAfter
	}
	open := listening()
	return !slices.ContainsFunc(ports, func(port uint16) bool { return !open[port] })
}

func (p *pause) change(name string, f func(*containerReport)) {
	for i := range p.report.Containers {
		if p.report.Containers[i].Name == name {
			f(&p.report.Containers[i])
		}
	}
	p.save()
}

// end sends TERM to the containers.
func (p *pause) end() {
	if p.ending {
		return
	}
	p.ending, p.killAt = true, time.Now().Add(grace(p.pod))
	p.signalAll(unix.SIGTERM)
}

// kill ends every child. Their orphans become children, and are met next time.
func (p *pause) kill() {
	p.signalAll(unix.SIGKILL)
	_ = each(func(s stat) {
		if s.parent == os.Getpid() && !s.dead() {
			_ = unix.Kill(s.pid, unix.SIGKILL)
		}
	})
}

// signalAll signals the containers that run, by their process groups. A child
// that is not reaped yet keeps its number, so no other process is met.
func (p *pause) signalAll(sig unix.Signal) {
	for _, c := range p.report.Containers {
		if c.Phase == running {
			_ = unix.Kill(-c.Pid, sig)
		}
	}
}

// save writes the report for those who started us, and the status for everybody.
// There is nobody to tell when that fails, but the log.
func (p *pause) save() {
	if p.ending {
		return // the Pod goes, and its files with it
	}
	data, err := json.MarshalIndent(p.report, "", "  ")
	if err == nil {
		id := types.NamespacedName{Namespace: p.pod.Namespace, Name: p.pod.Name}
		err = errors.Join(
			// The status first: who has read the report finds it.
			saveStatus(p.dir, id, p.report),
			state.WriteFile(reportPath(p.stateDir, id.Namespace, id.Name), data))
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "pause: %v\n", err)
	}
}
