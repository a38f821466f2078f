package pods

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
	"unicode"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// answer is what became of what was asked or called.
type answer struct {
	ticket  int
	outcome outcome
	message string
}

// task is a probe or a lifecycle handler on its way.
type task struct {
	// cancel ends one over the network.
	cancel context.CancelFunc
	// pid is the process of a command, in a process group of its own; output is
	// what it prints, and ended takes how it went.
	pid    int
	output *os.File
	ended  chan answer
}

// ask begins a probe. The machine that asks keeps its time as well.
func (p *pause) ask(d deed) {
	limit := seconds(atLeast(d.probe.TimeoutSeconds, 1))
	if d.probe.Exec != nil {
		p.command(d, d.probe.Exec.Command)
		return
	}
	p.overNetwork(d, limit, d.probe.ProbeHandler)
}

// callTimeout bounds a handler over the network, for which there is no field.
const callTimeout = 30 * time.Second

// call begins a lifecycle handler.
func (p *pause) call(d deed) {
	h := d.handler
	if h.Exec != nil {
		p.command(d, h.Exec.Command)
		return
	}
	p.overNetwork(d, callTimeout, corev1.ProbeHandler{HTTPGet: h.HTTPGet, TCPSocket: h.TCPSocket})
}

// overNetwork asks in a goroutine, which ends within the limit.
func (p *pause) overNetwork(d deed, limit time.Duration, h corev1.ProbeHandler) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	p.tasks[d.ticket] = &task{cancel: cancel}
	address, c := p.pod.Status.PodIP, d.unit.spec
	go func() {
		defer cancel()
		o, message := askNetwork(ctx, address, c, h)
		p.answers <- answer{d.ticket, o, message}
	}()
}

// command starts a program in the container. It is reaped with all others.
func (p *pause) command(d deed, args []string) {
	r, w, err := os.Pipe()
	if err != nil {
		p.sup.answered(d.ticket, unknown, fmt.Sprintf("pipe: %v", err), time.Now())
		return
	}
	defer w.Close()
	pid, err := p.enter(d.unit, args, w)
	if err != nil {
		_ = r.Close()
		p.sup.answered(d.ticket, unknown, err.Error(), time.Now())
		return
	}
	t := &task{pid: pid, output: r, ended: make(chan answer, 1)}
	p.tasks[d.ticket] = t
	go func() {
		last := readLast(r)
		a := <-t.ended
		a.message = strings.TrimSuffix(a.message+": "+last, ": ")
		p.answers <- a
	}()
}

// readLast reads to the end, and returns the last line.
func readLast(r *os.File) string {
	defer r.Close()
	kept := make([]byte, 0, 2*mostRead)
	buf := make([]byte, 4096)
	for {
		n, err := r.Read(buf)
		if kept = append(kept, buf[:n]...); len(kept) > mostRead {
			kept = append(kept[:0], kept[len(kept)-mostRead/2:]...)
		}
		if err != nil { // its end, or its time is over
			return lastOf(kept)
		}
	}
}

// lastOf is the last line of a text, without control characters: it reaches the
// terminals of those who read a status.
func lastOf(text []byte) string {
	const most = 256
	line := strings.TrimSpace(strings.ToValidUTF8(string(text), "?"))
	line = line[strings.LastIndexByte(line, '\n')+1:]
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(line[:min(len(line), most)], ""))
}

// drop gives up a task. The processes of a command are killed.
func (p *pause) drop(ticket int) {
	t := p.tasks[ticket]
	switch {
	case t == nil:
	case t.cancel != nil:
		t.cancel()
	case t.pid != 0: // it is not reaped yet
		signalGroup(t.pid, unix.SIGKILL)
	}
}

// taskOf returns the task whose process that is.
func (p *pause) taskOf(pid int) (ticket int, t *task) {
	for ticket, t := range p.tasks {
		if t.pid == pid {
			return ticket, t
		}
	}
	return 0, nil
}

// finish tells a command's task how it ended. What it leaves running with its
// output open is given a moment to say the rest.
func (t *task) finish(ticket int, status unix.WaitStatus) {
	a := answer{ticket: ticket, outcome: passed}
	switch {
	case status.Signaled():
		a.outcome, a.message = failed, "ended by signal "+status.Signal().String()
	case status.ExitStatus() != 0:
		a.outcome, a.message = failed, fmt.Sprintf("exit status %d", status.ExitStatus())
	}
	t.pid = 0
	t.ended <- a
	_ = t.output.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
}

// ended reports whether a child has ended, and leaves it to be reaped: until
// then its number, and that of its process group, is its own.
func ended(pid int) bool {
	if pid < 1 {
		return false
	}
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == nil && info.Signo != 0
}

// signalGroup sends a signal to the process group of a child that is not reaped
// yet: its number is its own till then.
func signalGroup(pid int, sig unix.Signal) {
	if pid > 1 { // others mean something else to kill(2)
		_ = unix.Kill(-pid, sig)
	}
}
