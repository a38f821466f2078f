package pods

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// process names one process for good: a pid alone is given again.
type process struct {
	Pid int `json:"pid"`
	// Start is the time it was started, in clock ticks since boot.
	Start uint64 `json:"start"`
}

// stat is what we need of /proc/PID/stat.
type stat struct {
	state                byte
	parent, session, pid int
	start                uint64
}

// dead: it has ended, whether its parent has noticed or not.
func (s stat) dead() bool { return s.state == 'Z' || s.state == 'X' }

func readStat(pid int) (stat, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, fmt.Errorf("process %d: %w", pid, err)
	}
	return parseStat(pid, b)
}

// parseStat reads the fields behind the program's name, which stands in
// parentheses and may hold any byte. See proc(5).
func parseStat(pid int, b []byte) (stat, error) {
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 20 {
		return stat{}, fmt.Errorf("process %d: its stat has %d fields", pid, len(fields))
	}
	parent, err1 := strconv.Atoi(string(fields[1]))
	session, err2 := strconv.Atoi(string(fields[3]))
	start, err3 := strconv.ParseUint(string(fields[19]), 10, 64)
	return stat{fields[0][0], parent, session, pid, start}, errors.Join(err1, err2, err3)
}

// self is the calling process.
func self() (process, error) {
	s, err := readStat(os.Getpid())
	return process{s.pid, s.start}, err
}

// alive reports whether the process still runs. One that has ended as our own
// child is reaped.
func (p process) alive() bool {
	s, err := readStat(p.Pid)
	if err != nil || s.start != p.Start {
		return false
	}
	if s.state == 'Z' && s.parent == os.Getpid() {
		_, _ = unix.Wait4(p.Pid, nil, unix.WNOHANG, nil)
	}
	return !s.dead()
}

// signal sends a signal to this process and no other: the descriptor is of the
// process, and only then is the start time compared.
func (p process) signal(sig unix.Signal) error {
	fd, err := unix.PidfdOpen(p.Pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("process %d: %w", p.Pid, err)
	}
	defer unix.Close(fd)
	if s, err := readStat(p.Pid); err != nil || s.start != p.Start {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signal %s to process %d: %w", sig, p.Pid, err)
	}
	return nil
}

// each calls f with every process there is.
func each(f func(stat)) error {
	names, err := readNames("/proc")
	if err != nil {
		return err
	}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if s, err := readStat(pid); err == nil {
			f(s)
		}
	}
	return nil
}

func readNames(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// pauseArgs are the words of a pause process's command line behind the program.
func pauseArgs(pod, stateDir string) []string { return []string{"pause", pod, "--state-dir", stateDir} }

// pauses returns the processes whose command line says that they hold a Pod with
// this state directory, by Pod. Not all need be ours: see observe.
func pauses(stateDir string) (map[string][]process, error) {
	out := map[string][]process{}
	err := each(func(s stat) {
		if s.dead() {
			return
		}
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", s.pid))
		if err != nil {
			return
		}
		args := strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
		if len(args) == 5 && args[1] == "pause" && args[3] == "--state-dir" && args[4] == stateDir {
			out[args[2]] = append(out[args[2]], process{s.pid, s.start})
		}
	})
	return out, err
}

// netnsOf is the inode of a process's network namespace, 0 when it has ended.
func netnsOf(pid int) uint64 { return inodeOf(fmt.Sprintf("/proc/%d/ns/net", pid)) }

// inodeOf is the inode of a file, 0 when there is none.
func inodeOf(path string) uint64 {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return 0
	}
	return st.Ino
}

// survivors are the processes that a pause process has left when it was killed:
// of its session, in the Pod's namespace. A session's number is not given to a
// new process while one of its own lives.
func survivors(pause process, netns uint64) ([]process, error) {
	var out []process
	err := each(func(s stat) {
		if s.session == pause.Pid && s.pid != pause.Pid && !s.dead() && netns != 0 && netnsOf(s.pid) == netns {
			out = append(out, process{s.pid, s.start})
		}
	})
	return out, err
}

// readReport returns a pause process's report; false when there is none. A damaged
// one is none: the process itself says more.
func readReport(path string) (rep report, exists bool, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return rep, false, nil
	}
	if err != nil && !errors.Is(err, unix.EISDIR) {
		return rep, true, fmt.Errorf("report of a pause process: %w", err)
	}
	if err := json.Unmarshal(b, &rep); err != nil {
		return report{}, false, nil
	}
	return rep, true, nil
}
