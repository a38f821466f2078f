package pods

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// LogOptions say what of a container's log is read.
type LogOptions struct {
	// Previous reads the log of the container's run before this one.
	Previous bool
	// Tail is how many lines at most, the last ones; less than 0: all.
	Tail int
	// Since leaves out what was written before. Zero: nothing.
	Since time.Time
	// Timestamps puts the time of writing before each line, in UTC, RFC 3339.
	Timestamps bool
	// Follow goes on until the container has ended or the context has.
	Follow bool
}

// ErrNoLog tells that a container has no log of that run.
var ErrNoLog = errors.New("no log")

// logEvery is how often a log is looked at that is followed.
const logEvery = 50 * time.Millisecond

// ReadLog writes a container's log to w. What has been rotated away is not there
// any more. Without a log the error is ErrNoLog.
func ReadLog(ctx context.Context, w io.Writer, stateDir string, p *corev1.Pod, container string, o LogOptions) error {
	path := LogPath(stateDir, p.Namespace, p.Name, container)
	if o.Previous {
		path = previousLog(path)
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNoLog
	}
	if err != nil {
		return fmt.Errorf("log: %w", err)
	}
	r := &logReader{w: w, o: o, path: path, file: f}
	defer func() { r.file.Close() }()
	if err := r.begin(); err != nil || !o.Follow || o.Previous {
		return err
	}
	return r.follow(ctx, func() bool { return logGoesOn(stateDir, p, container) })
}

// logGoesOn tells whether somebody may write to a container's log.
func logGoesOn(stateDir string, p *corev1.Pod, container string) bool {
	rep, exists, err := readReport(reportPath(stateDir, p.Namespace, p.Name))
	if err != nil || !exists || !rep.process.alive() {
		return false
	}
	i := slices.IndexFunc(rep.Containers, func(c containerReport) bool { return c.Name == container })
	return i >= 0 && rep.Containers[i].Phase == running
}

// logReader writes a log out, line by line.
type logReader struct {
	w    io.Writer
	o    LogOptions
	path string
	file *os.File
	// open: the last line written has not ended, so that what comes goes on with it.
	open bool
}

// logLine is a line, its end included, and the time it was written.
type logLine struct {
	text []byte
	at   time.Time
}

// begin writes what is there: of the rotated file and of the one in use.
func (r *logReader) begin() error {
	var lines []logLine
	if old, err := os.Open(oldLog(r.path)); err == nil {
		lines, err = readLines(old, oldLog(r.path))
		_ = old.Close()
		if err != nil {
			return err
		}
	}
	last, err := readLines(r.file, r.path)
	if err != nil {
		return err
	}
	lines = append(lines, last...)
	lines = slices.DeleteFunc(lines, func(l logLine) bool { return l.at.Before(r.o.Since) })
	if n := r.o.Tail; n >= 0 && n < len(lines) {
		lines = lines[len(lines)-n:]
	}
	return r.write(lines)
}

// readLines reads the lines of a log, from where the file stands, with their times.
func readLines(f *os.File, path string) ([]logLine, error) {
	offset, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	text, _ := os.ReadFile(timesOf(path))
	times := parseTimes(string(text))
	var out []logLine
	for len(data) > 0 {
		n := bytes.IndexByte(data, '\n') + 1
		if n == 0 {
			n = len(data)
		}
		out = append(out, logLine{data[:n], times.at(offset)})
		data, offset = data[n:], offset+int64(n)
	}
	return out, nil
}

// logTime says when a log was written from a byte on.
type logTime struct{ offset, nanos int64 }

type logTimes []logTime

// parseTimes reads a file of times. Pure.
func parseTimes(text string) (out logTimes) {
	for line := range strings.Lines(text) {
		offset, nanos, _ := strings.Cut(strings.TrimSpace(line), " ")
		o, err1 := strconv.ParseInt(offset, 10, 64)
		n, err2 := strconv.ParseInt(nanos, 10, 64)
		if err1 == nil && err2 == nil {
			out = append(out, logTime{o, n})
		}
	}
	return out
}

// at is when a byte was written, the zero time when nobody has noted it.
func (ts logTimes) at(offset int64) time.Time {
	i, exact := slices.BinarySearchFunc(ts, offset, func(t logTime, at int64) int { return int(t.offset - at) })
	if !exact {
		i--
	}
	if i < 0 {
		return time.Time{}
	}
	return time.Unix(0, ts[i].nanos).UTC()
}

func (r *logReader) write(lines []logLine) error {
	for _, l := range lines {
		if r.o.Timestamps && !r.open {
			if _, err := fmt.Fprintf(r.w, "%s ", l.at.Format("2006-01-02T15:04:05.000000000Z07:00")); err != nil {
				return err
			}
		}
		r.open = !bytes.HasSuffix(l.text, []byte{'\n'})
		if _, err := r.w.Write(l.text); err != nil {
			return err
		}
	}
	return nil
}

// follow writes what is added, until nobody adds to this run's log.
func (r *logReader) follow(ctx context.Context, goesOn func() bool) error {
	for {
		// In this order: what was written before its end is read.
		more := goesOn()
		moved := !sameFile(r.path, r.file)
		if err := r.added(); err != nil {
			return err
		}
		switch {
		case moved && sameFile(oldLog(r.path), r.file):
			next, err := os.Open(r.path)
			if err != nil {
				return fmt.Errorf("log: %w", err)
			}
			_ = r.file.Close()
			r.file = next
			continue
		case moved || !more:
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(logEvery):
		}
	}
}

// added writes the lines that have come to the file, whole or not: a prompt, say,
// has no end.
func (r *logReader) added() error {
	lines, err := readLines(r.file, r.path)
	if err != nil {
		return err
	}
	return r.write(lines)
}
