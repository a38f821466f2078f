package pods

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
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
	// gcPercent is how much a pause process's heap may grow, in percent.
	gcPercent = 20
	// readyFD is where a stand-in says that it listens.
	readyFD = 3
	// standardPath is the PATH of containers when the pause process has none.
	standardPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// Pause is the body of the hidden command "pause NAMESPACE/NAME --state-dir DIR":
// it holds the Pod of that name, in whose network namespace it was started, and
// returns when TERM, INT or the end of the context has ended its containers.
func Pause(ctx context.Context, args []string) error {
	if len(args) != 3 || args[1] != "--state-dir" || strings.Count(args[0], "/") != 1 {
		return fmt.Errorf("pause: want NAMESPACE/NAME --state-dir DIR, got %q: toyproxy starts it itself", args)
	}
	// There may be hundreds of pause processes, each with next to nothing to do:
	// collecting often costs less than the memory of waiting for garbage.
	debug.SetGCPercent(gcPercent)
	// What this thread starts is told of the death of the thread, not of the
	// process, so it has to last.
	runtime.LockOSThread()
	ns, name, _ := strings.Cut(args[0], "/")
	pod, err := state.OpenPods(args[2]).Load(types.NamespacedName{Namespace: ns, Name: name})
	if err != nil {
		return fmt.Errorf("pause: Pod %s: %w", args[0], err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("pause: becoming the reaper of orphans: %w", err)
	}
	world, err := openWorld(pod, args[2])
	if err != nil {
		return fmt.Errorf("pause: %w", err)
	}
	_ = os.WriteFile("/proc/self/comm", []byte("toyproxy-pause"), 0) // for top(1) only
	// All signals: those that are not asked for end a process, and an ignored one
	// would be ignored by every container too.
	signals := make(chan os.Signal, 64)
	signal.Notify(signals, allSignals()...)
	me, err := self()
	if err != nil {
		return fmt.Errorf("pause: %w", err)
	}
	p := &pause{pod: pod, stateDir: args[2], world: world, sup: newSupervisor(pod, backoffFromEnv(), time.Now()),
		listens: make(chan listener), answers: make(chan answer), tasks: map[int]*task{}, outlets: map[string]*outlet{}, remains: map[*unit]*place{},
		teller: newTeller(pod, args[2], me)}
	defer p.teller.close()
	return p.loop(ctx, signals)
}

// allSignals are those that can be asked for, but for the one that Go's runtime
// sends itself all the time.
func allSignals() []os.Signal {
	var out []os.Signal
	for s := syscall.Signal(1); s <= 64; s++ {
		if s != syscall.SIGURG && s != syscall.SIGKILL && s != syscall.SIGSTOP {
			out = append(out, s)
		}
	}
	return out
}

// pause is the body of a pause process: it does what its supervisor says, and
// tells it what happens. One goroutine owns it, and starts all processes; others
// wait for answers, and write the status.
type pause struct {
	pod      *corev1.Pod
	stateDir string
	world    *world
	sup      *supervisor
	teller   *teller
	// listens passes the word of a stand-in, answers what became of tasks, which
	// stand in tasks by their ticket.
	listens chan listener
	answers chan answer
	tasks   map[int]*task
	// outlets lead what the containers print into their logs, by container.
	outlets map[string]*outlet
	// remains are where the processes of running containers are found.
	remains map[*unit]*place
}

// listener is a run of a stand-in.
type listener struct {
	unit *unit
	runs int
}

// loop lives until the Pod is to end, and its processes have ended.
func (p *pause) loop(ctx context.Context, signals <-chan os.Signal) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	done := ctx.Done()
	for {
		children := p.reap()
		p.act()
		p.teller.tell(p.sup, time.Now())
		if p.sup.wound && p.sup.idle() {
			if p.sup.ending && !children {
				return nil
			}
			p.killOrphans() // they end with their containers
		}
		p.wakeBy(timer, children)
		if p.await(signals, done, timer) {
			done = nil
		}
	}
}

// await waits until something happens, and tells the supervisor what. It returns
// whether that was the end of the context.
func (p *pause) await(signals <-chan os.Signal, done <-chan struct{}, timer *time.Timer) bool {
	select {
	case s := <-signals:
		if s == syscall.SIGTERM || s == syscall.SIGINT {
			p.sup.end(time.Now(), p.graceNow())
		}
	case <-done:
		p.sup.end(time.Now(), p.sup.grace)
		return true
	case l := <-p.listens:
		p.sup.listens(l.unit, l.runs)
	case a := <-p.answers:
		delete(p.tasks, a.ticket)
		p.sup.answered(a.ticket, a.outcome, a.message, time.Now())
	case <-timer.C:
	}
	return false
}

// graceNow is the grace period of the Pod as it is kept now: who deleted it may
// have given it another.
func (p *pause) graceNow() time.Duration {
	kept, err := p.teller.dir.Load(idOf(p.pod))
	if err != nil || kept.DeletionTimestamp == nil || kept.DeletionGracePeriodSeconds == nil {
		return p.sup.grace
	}
	return time.Duration(*kept.DeletionGracePeriodSeconds) * time.Second
}

// wakeBy sets the timer to the supervisor's next step. The end of a child wakes
// the loop too; orphans that are being killed are looked at again to be sure.
func (p *pause) wakeBy(timer *time.Timer, children bool) {
	next := p.sup.next
	if p.sup.wound && p.sup.idle() && children {
		next = time.Now().Add(20 * time.Millisecond)
	}
	if next.IsZero() {
		timer.Stop()
		return
	}
	timer.Reset(time.Until(next))
}

// act does what the supervisor wants, until it wants nothing more.
func (p *pause) act() {
	for {
		deeds := p.sup.step(time.Now())
		if len(deeds) == 0 {
			return
		}
		for _, d := range deeds {
			p.do(d)
		}
	}
}

func (p *pause) do(d deed) {
	switch d.do {
	case doStart:
		if pid, err := p.start(d.unit); err != nil {
			p.sup.notStarted(d.unit, err, time.Now())
		} else {
			p.sup.started(d.unit, pid, time.Now())
		}
	case doSignal:
		signalGroup(d.unit.Pid, d.signal)
	case doAsk:
		p.ask(d)
	case doCall:
		p.call(d)
	case doDrop:
		p.drop(d.ticket)
	case doLook:
		p.sup.opened(d.unit, listening())
	}
}

// start starts a container, with a pipe to its log.
func (p *pause) start(u *unit) (int, error) {
	out, w, err := newOutlet(LogPath(p.stateDir, p.pod.Namespace, p.pod.Name, u.Name), maxLog)
	if err != nil {
		return 0, err
	}
	defer w.Close()
	p.outlets[u.Name] = out
	var ready *os.File
	if u.StandIn {
		if ready, err = p.listenFor(u); err != nil {
			return 0, err
		}
		defer ready.Close()
	}
	pid, err := p.launch(u.spec, w, ready)
	if err == nil {
		p.remains[u] = openPlace(pid)
	}
	return pid, err
}

// listenFor returns the end of a pipe to be given to a stand-in, which writes a
// line when it listens. The goroutine ends with the stand-in at the latest.
func (p *pause) listenFor(u *unit) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("pipe: %w", err)
	}
	l := listener{u, u.runs}
	go func() {
		defer r.Close()
		if _, err := bufio.NewReader(r).ReadString('\n'); err == nil {
			p.listens <- l
		}
	}()
	return w, nil
}

// reap takes the status of every child that has ended, containers, commands and
// orphans alike, and reports whether any child is left.
func (p *pause) reap() (children bool) {
	p.killRemains()
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
			p.reaped(pid, status)
		}
	}
}

// killRemains ends what containers and commands that have ended have left in
// their process groups: in Kubernetes nothing outlives the first process either,
// and the ports are needed again. It comes before they are reaped, as the number
// of the group is only theirs till then.
func (p *pause) killRemains() {
	for _, u := range p.sup.units {
		if u.running() && ended(u.Pid) {
			signalGroup(u.Pid, unix.SIGKILL)
		}
	}
	for _, t := range p.tasks {
		if ended(t.pid) {
			signalGroup(t.pid, unix.SIGKILL)
		}
	}
}

// reaped tells of the end of a container or a command; of an orphan there is
// nothing to tell.
func (p *pause) reaped(pid int, status unix.WaitStatus) {
	if ticket, t := p.taskOf(pid); t != nil {
		t.finish(ticket, status)
		return
	}
	for _, u := range p.sup.units {
		if u.running() && u.Pid == pid {
			p.remains[u].close(true) // commands of toyproxy exec among them, which are no children of ours
			delete(p.remains, u)
			p.outlets[u.Name].drain()
			p.sup.exited(u, p.exit(u, status), time.Now())
			return
		}
	}
}

// exit says how a container ended.
func (p *pause) exit(u *unit, status unix.WaitStatus) exit {
	switch {
	case status.Signaled():
		n := int(status.Signal())
		return exit{code: 128 + n, signal: n, reason: reasonError, message: "ended by signal " + status.Signal().String()}
	case status.ExitStatus() != 0:
		log := LogPath(p.stateDir, p.pod.Namespace, p.pod.Name, u.Name)
		return exit{code: status.ExitStatus(), reason: reasonError, message: fmt.Sprintf("exited with status %d: %s", status.ExitStatus(), lastLine(log))}
	}
	return exit{reason: reasonCompleted}
}

// killOrphans ends every child. Their orphans become children, and are met next
// time.
func (p *pause) killOrphans() {
	_ = each(func(s stat) {
		if s.parent == os.Getpid() && !s.dead() {
			_ = unix.Kill(s.pid, unix.SIGKILL)
		}
	})
}
