package pods

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/sys/unix"
)

// maxLog is how long a container's log may grow, in bytes, before it becomes the
// old one: logs lie in memory, as the state directory does.
const maxLog = 10 << 20

// oldLog is where a log goes that has grown long; the one before it is dropped.
func oldLog(path string) string { return path + ".1" }

// previousLog is the log of the container's run before.
func previousLog(path string) string { return strings.TrimSuffix(path, ".log") + ".previous.log" }

// timesOf is the file beside a log that says when what was written: the log itself
// is the container's output and nothing else, for cat and tail.
func timesOf(path string) string { return path + ".times" }

// newRun makes a log that of the previous run, with what belongs to it.
func newRun(path string) error {
	if _, err := os.Lstat(path); err != nil {
		return nil // the first run
	}
	previous := previousLog(path)
	for _, pair := range [][2]string{{path, previous}, {oldLog(path), oldLog(previous)}} {
		for _, name := range []func(string) string{func(s string) string { return s }, timesOf} {
			err := os.Rename(name(pair[0]), name(pair[1]))
			if errors.Is(err, fs.ErrNotExist) {
				err = os.RemoveAll(name(pair[1])) // of the run before the previous
			}
			if err != nil {
				return fmt.Errorf("log: %w", err)
			}
		}
	}
	return nil
}

// openLog opens a log to append to.
func openLog(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	return f, nil
}

// boundedLog is a log of which two files are kept at most, each of limit bytes.
type boundedLog struct {
	path        string
	limit, size int64
	file        *os.File
	// times, if not nil, takes lines "OFFSET NANOSECONDS": from that byte on the log
	// was written at that time. stamped is the last one.
	times   *os.File
	stamped time.Time
}

// stampEvery is how close two lines of a log's times may be.
const stampEvery = 5 * time.Millisecond

func openBoundedLog(path string, limit int64) (*boundedLog, error) {
	f, err := openLog(path)
	if err != nil {
		return nil, err
	}
	l := &boundedLog{path: path, limit: limit, file: f}
	if st, err := f.Stat(); err == nil {
		l.size = st.Size()
	}
	return l, nil
}

// Write implements io.Writer.
func (l *boundedLog) Write(b []byte) (int, error) {
	if l.size > 0 && l.size+int64(len(b)) > l.limit {
		if err := l.rotate(); err != nil {
			return 0, err
		}
	}
	l.stamp()
	n, err := l.file.Write(b)
	l.size += int64(n)
	return n, err
}

// stamp notes when the next bytes are written. What cannot be noted is shown with
// the time before.
func (l *boundedLog) stamp() {
	now := time.Now()
	if l.times == nil || now.Sub(l.stamped) < stampEvery {
		return
	}
	l.stamped = now
	_, _ = fmt.Fprintf(l.times, "%d %d\n", l.size, now.UnixNano())
}

// keepTimes opens the file of a log's times.
func (l *boundedLog) keepTimes() error {
	f, err := openLog(timesOf(l.path))
	if err != nil {
		return err
	}
	l.times = f
	return nil
}

func (l *boundedLog) close() {
	_ = l.file.Close()
	if l.times != nil {
		_ = l.times.Close()
	}
}

func (l *boundedLog) rotate() error {
	if !sameFile(l.path, l.file) {
		return errors.New("log: it is that of a later run by now")
	}
	if err := os.Rename(l.path, oldLog(l.path)); err != nil {
		return fmt.Errorf("log: %w", err)
	}
	next, err := openLog(l.path)
	if err != nil {
		return err
	}
	_ = l.file.Close()
	l.file, l.size = next, 0
	return l.rotateTimes()
}

func (l *boundedLog) rotateTimes() error {
	if l.times == nil {
		return nil
	}
	_ = l.times.Close()
	l.times, l.stamped = nil, time.Time{}
	if err := os.Rename(timesOf(l.path), timesOf(oldLog(l.path))); err != nil {
		return fmt.Errorf("log: %w", err)
	}
	return l.keepTimes()
}

// sameFile tells whether a path names an open file.
func sameFile(path string, f *os.File) bool {
	a, err1 := os.Stat(path)
	b, err2 := f.Stat()
	return err1 == nil && err2 == nil && os.SameFile(a, b)
}

// outlet takes what one container prints into its log. A container is given a
// pipe and not the file: whoever has a file open goes on writing to it wherever
// it is moved.
type outlet struct {
	pipe *os.File // the end that is read
	// mu makes reading and writing on one deed, so that drain leaves nothing on
	// the way.
	mu  sync.Mutex
	log *boundedLog
	buf []byte
}

// newOutlet returns the outlet of a new run and the end of its pipe for the
// container. Its goroutine ends when the last process that has the pipe does.
func newOutlet(path string, limit int64) (*outlet, *os.File, error) {
	if err := newRun(path); err != nil {
		return nil, nil, err
	}
	log, err := openBoundedLog(path, limit)
	if err == nil {
		err = log.keepTimes()
	}
	if err != nil {
		return nil, nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		log.close()
		return nil, nil, fmt.Errorf("pipe: %w", err)
	}
	o := &outlet{pipe: r, log: log, buf: make([]byte, 64<<10)}
	go o.run()
	return o, w, nil
}

func (o *outlet) run() {
	defer o.log.close()
	defer o.pipe.Close()
	raw, err := o.pipe.SyscallConn()
	if err != nil {
		return
	}
	// The function is called again whenever there is something to be read.
	_ = raw.Read(func(fd uintptr) bool {
		for {
			if n := o.take(int(fd)); n <= 0 {
				return n == 0
			}
		}
	})
}

// take passes on one piece: its length, 0 at the end, less when there is none now.
// What the log cannot take, on a full disk say, is lost: the container goes on.
func (o *outlet) take(fd int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		n, err := unix.Read(fd, o.buf)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return -1
		case err != nil:
			return 0
		default:
			_, _ = o.log.Write(o.buf[:n])
			return n
		}
	}
}

// drain passes on what a container that has ended had printed. Others that still
// have its pipe may print on and on, so it takes no more than a pipe can hold.
func (o *outlet) drain() {
	const pieces = 32
	raw, err := o.pipe.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { // an error says that all was read
		for i := 0; i < pieces && o.take(int(fd)) > 0; i++ {
		}
	})
}

// lastLine is the last line of a log, to show why its program ended. It has no
// control characters: they would reach the terminals of those who read a status.
func lastLine(path string) string {
	const most = 512
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	size, err := f.Seek(0, 2)
	if err != nil {
		return ""
	}
	b := make([]byte, min(size, most))
	if _, err := f.ReadAt(b, size-int64(len(b))); err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(lines[len(lines)-1], "?"))
}
