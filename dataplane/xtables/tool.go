package xtables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/coreos/go-iptables/iptables"
	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dataplane"
)

// DefaultWait is how long a Tool waits for the lock of the legacy engine.
const DefaultWait = 20 * time.Second

// Tool runs the programs of one engine and family in the network namespace of
// the calling thread.
type Tool struct {
	Engine Engine
	Family dataplane.Family
	// Wait bounds the waiting for the lock of the legacy engine; 0 means
	// DefaultWait.
	Wait time.Duration
}

// Save reads what the kernel holds. It brings no table into being. An engine
// that the kernel lacks gives an error that wraps dataplane.ErrUnsupported.
func (t Tool) Save(ctx context.Context) (State, error) {
	p := newParser()
	if err := t.exec(ctx, "save", nil, p); err != nil {
		return State{}, err
	}
	st, err := p.result()
	if err != nil {
		return State{}, fmt.Errorf("%s: %w", t.program("save"), err)
	}
	return st, nil
}

// Restore loads text on top of what the kernel holds: all of it or, for a table
// that is refused, nothing of that table. It waits a bounded time for the lock
// and then returns a *LockError; refused input gives a *RestoreError.
func (t Tool) Restore(ctx context.Context, text io.WriterTo) error {
	wait := t.Wait
	if wait == 0 {
		wait = DefaultWait
	}
	// The program itself waits, in whole seconds, 5 at a time so that an ended
	// context is noticed.
	for began := time.Now(); ; {
		turn := min(5*time.Second, max(time.Second, wait-time.Since(began)))
		err := t.exec(ctx, "restore", text, nil, "-w", fmt.Sprint(int(turn.Seconds())), "--noflush")
		var lock *LockError
		if !errors.As(err, &lock) {
			return err
		}
		if lock.Waited = time.Since(began); lock.Waited >= wait || ctx.Err() != nil {
			return lock
		}
	}
}

// Rules lists the rules of a chain by asking for that chain alone. A chain that
// is not there gives an error that wraps ErrNotExist, on both engines.
func (t Tool) Rules(table Table, chain string) ([]string, error) {
	ipt, err := t.single()
	if err != nil {
		return nil, err
	}
	listed, err := ipt.List(string(table), chain)
	if err != nil {
		return nil, t.typed(fmt.Sprintf("list %s %s", table, chain), err)
	}
	var out []string
	for _, l := range listed {
		if rule, ok := strings.CutPrefix(l, "-A "+chain+" "); ok {
			out = append(out, rule)
		}
	}
	return out, nil
}

// Exists reports whether a chain is there.
func (t Tool) Exists(table Table, chain string) (bool, error) {
	_, err := t.Rules(table, chain)
	if errors.Is(err, ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Version returns the version of the tool, and whether it knows fully random
// source ports for masquerading.
func (t Tool) Version() (version string, randomFully bool, err error) {
	ipt, err := t.single()
	if err != nil {
		return "", false, err
	}
	a, b, c := ipt.GetIptablesVersion()
	return fmt.Sprintf("%d.%d.%d", a, b, c), ipt.HasRandomFully(), nil
}

// DropTable removes a table that holds nothing but our mark, with the mark, and
// reports whether it did. Only the nft engine can; a table that holds anything
// else, or has no mark, stays as it is, without an error.
func (t Tool) DropTable(_ context.Context, table Table) (gone bool, err error) {
	if t.Engine != NFT {
		return false, nil
	}
	return dropMarkedTable(t.Family, table)
}

// single returns the handle for commands on single chains and rules.
func (t Tool) single() (*iptables.IPTables, error) {
	path, err := t.path("")
	if err != nil {
		return nil, err
	}
	family := iptables.ProtocolIPv4
	if t.Family == dataplane.IPv6 {
		family = iptables.ProtocolIPv6
	}
	ipt, err := iptables.New(iptables.IPFamily(family), iptables.Path(path), iptables.Timeout(5))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return ipt, nil
}

// typed gives errors of go-iptables the same meaning for both engines.
func (t Tool) typed(what string, err error) error {
	if saysNotExist(err.Error()) {
		return fmt.Errorf("%s: %w (%s)", what, ErrNotExist, t.program(""))
	}
	if u := unsupported(t.Engine, t.Family, err.Error()); u != nil {
		return fmt.Errorf("%s: %w", what, u)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// probe tries text in a network namespace made for it, so that nothing of this
// one changes. Where namespaces may not be made, it can only list.
func (t Tool) probe(ctx context.Context, text string) error {
	path, err := t.path("restore")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, path, "-w", "5", "--noflush")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	err = t.finish(cmd, Text(text))
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSYS) {
		_, err = t.Save(ctx)
	}
	return err
}

// exec runs iptables-save or iptables-restore.
func (t Tool) exec(ctx context.Context, what string, input io.WriterTo, output io.Writer, args ...string) error {
	path, err := t.path(what)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdout = output
	return t.finish(cmd, input)
}

// Text is input for iptables-restore that is there already.
type Text string

// WriteTo writes the text.
func (t Text) WriteTo(w io.Writer) (int64, error) {
	n, err := io.WriteString(w, string(t))
	return int64(n), err
}

// run runs the command with input, if there is any, which is written while the
// command reads it, and not by the calling goroutine: that may be locked to its
// thread, and takes long to wake then. The children inherit the namespace of the
// calling thread, because Start clones on that thread.
func run(cmd *exec.Cmd, input io.WriterTo) error {
	if input == nil {
		return cmd.Run()
	}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	widen(pipe)
	if err := cmd.Start(); err != nil {
		return err
	}
	written := make(chan error, 1)
	go func() {
		_, err := input.WriteTo(pipe)
		_ = pipe.Close()
		written <- err
	}()
	// A command that ends before it has read all says why itself.
	if err := cmd.Wait(); err != nil {
		<-written
		return err
	}
	return <-written
}

// widen makes room in a pipe for what one part of a large change weighs, so that
// writer and reader need not wake each other up for every few rules. A kernel that
// refuses is slower.
func widen(pipe io.Writer) {
	if file, ok := pipe.(syscall.Conn); ok {
		if raw, err := file.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeSize) })
		}
	}
}

// pipeSize is the most that an ordinary user may ask for.
const pipeSize = 1 << 20

// finish runs the command and explains its failure.
func (t Tool) finish(cmd *exec.Cmd, input io.WriterTo) error {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.WaitDelay = time.Second
	err := run(cmd, input)
	if err == nil {
		return nil
	}
	program := filepath.Base(cmd.Path)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() < 0 {
		return fmt.Errorf("%s: %w", program, err)
	}
	said := stderr.String()
	if saysLocked(said) {
		path := lockPath()
		return &LockError{Path: path, Holder: lockHolder(path)}
	}
	if u := unsupported(t.Engine, t.Family, said); u != nil {
		return u
	}
	if input == nil {
		return fmt.Errorf("%s: %w: %s", program, err, oneLine(said))
	}
	return &RestoreError{Program: program, Line: failingLine(said), Output: oneLine(said)}
}

// program is the name of a program of this engine: "ip6tables-nft-save".
func (t Tool) program(what string) string {
	name := program(t.Engine, t.Family)
	if what == "" {
		return name
	}
	return name + "-" + what
}

// path finds a program of this engine. Systems with one engine only often have
// it under the plain name: "iptables-save".
func (t Tool) path(what string) (string, error) {
	name := t.program(what)
	if p, ok := lookup(name); ok {
		return p, nil
	}
	plain := program(Auto, t.Family)
	if plainEngine(plain) == t.Engine {
		if what != "" {
			plain += "-" + what
		}
		if p, ok := lookup(plain); ok {
			return p, nil
		}
	}
	return "", &noProgramError{name, &dataplane.Unsupported{
		Feature: "iptables engine " + t.Engine.String(),
		Missing: "the program " + name + " (of this machine, not of the kernel)",
		Mend:    "install the package iptables",
	}}
}

// noProgramError says that a program is not installed: what the kernel holds
// cannot be seen then. It is also a *dataplane.Unsupported.
type noProgramError struct {
	program     string
	unsupported *dataplane.Unsupported
}

// Error says what is missing, and how to mend it.
func (e *noProgramError) Error() string { return e.unsupported.Error() }

// Unwrap returns the *dataplane.Unsupported.
func (e *noProgramError) Unwrap() error { return e.unsupported }

// lookup finds a program also where a user's search path often does not lead.
func lookup(name string) (string, bool) {
	if p, err := exec.LookPath(name); err == nil {
		return p, true
	}
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		if p, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return p, true
		}
	}
	return "", false
}

// plainEngine asks the program of the plain name which engine it is; Auto when
// there is none.
func plainEngine(name string) Engine {
	path, ok := lookup(name)
	if !ok {
		return Auto
	}
	out, err := exec.Command(path, "-V").Output()
	switch {
	case err != nil:
		return Auto
	case bytes.Contains(out, []byte("nf_tables")):
		return NFT
	}
	return Legacy // versions before 1.8 name no engine
}

// Liberal reports whether connection tracking in the network namespace of the
// calling thread takes segments outside of their window for parts of their
// connection (nf_conntrack_tcp_be_liberal).
func Liberal() bool {
	b, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal")
	return err == nil && len(b) > 0 && b[0] != '0'
}

// lockPath is the file that the programs of the legacy engine lock.
func lockPath() string {
	if p := os.Getenv("XTABLES_LOCKFILE"); p != "" {
		return p
	}
	return "/run/xtables.lock"
}

// lockHolder names the process that holds the lock: "iptables (process 42)".
func lockHolder(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	sys, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		return ""
	}
	pid := holderOf(string(locks), sys.Ino)
	if pid == "" {
		return ""
	}
	comm, err := os.ReadFile("/proc/" + pid + "/comm")
	if err != nil {
		return "process " + pid
	}
	return strings.TrimSpace(string(comm)) + " (process " + pid + ")"
}
