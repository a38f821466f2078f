package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dns"
)

// historyBytes bounds the history; half of it is kept when it grows longer.
const historyBytes = 4 << 20

// history is the file that says what changed in the zone. Of several servers one
// writes it: the one that has its lock, which another takes when that one ends.
type history struct {
	path string
	lock *os.File
	file *os.File
	size int64
	// fresh: there was no history when this server began.
	fresh bool
}

// openHistory returns the history in a file, nil for none. The file is made by the
// first note.
func openHistory(path string) *history {
	if path == "" {
		return nil
	}
	_, err := os.Stat(path)
	return &history{path: path, fresh: errors.Is(err, fs.ErrNotExist)}
}

// wantsFirst tells whether the history begins with what was there before the server:
// a new one does; in one that goes on, that is no change.
func (h *history) wantsFirst() bool { return h != nil && h.fresh }

// note adds entries, unless another server writes them.
func (h *history) note(entries []dns.Entry) error {
	if h == nil || len(entries) == 0 {
		return nil
	}
	if err := h.write(entries); err != nil {
		_ = h.close() // it is opened anew for the next
		return fmt.Errorf("history of the zone: %w", err)
	}
	return nil
}

func (h *history) write(entries []dns.Entry) error {
	if mine, err := h.own(); err != nil || !mine {
		return err
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	for _, e := range entries {
		if err := encoder.Encode(e); err != nil {
			return err
		}
	}
	n, err := h.file.Write(text.Bytes())
	h.size += int64(n)
	if err == nil && h.size > historyBytes {
		err = h.shorten()
	}
	return err
}

// own takes the lock and opens the file, if that is not done yet. A directory that was
// removed meanwhile, with the file, is made anew.
func (h *history) own() (bool, error) {
	if h.file != nil && stands(h.file, h.path) {
		return true, nil
	}
	_ = h.close()
	if err := os.MkdirAll(filepath.Dir(h.path), 0o755); err != nil {
		return false, err
	}
	lock, err := os.OpenFile(filepath.Join(filepath.Dir(h.path), "history.lock"), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return false, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return false, nil
		}
		return false, err
	}
	h.lock = lock
	return true, h.open()
}

func (h *history) open() error {
	file, err := os.OpenFile(h.path, os.O_RDWR|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return err
	}
	h.file = file
	h.size, err = file.Seek(0, io.SeekEnd)
	return err
}

// stands tells whether a file is still the one of that name.
func stands(f *os.File, path string) bool {
	a, errA := f.Stat()
	b, errB := os.Stat(path)
	return errA == nil && errB == nil && os.SameFile(a, b)
}

// shorten keeps the younger half, in a new file of the same name.
func (h *history) shorten() error {
	text := make([]byte, historyBytes/2)
	n, err := h.file.ReadAt(text, h.size-int64(len(text)))
	if err != nil {
		return err
	}
	_, whole, _ := bytes.Cut(text[:n], []byte("\n"))
	if err := os.WriteFile(h.path+".new", whole, 0o644); err != nil {
		return err
	}
	if err := os.Rename(h.path+".new", h.path); err != nil {
		return err
	}
	_ = h.file.Close()
	return h.open()
}

// close ends the writing; another server may go on.
func (h *history) close() error {
	if h == nil {
		return nil
	}
	var err error
	if h.file != nil {
		err = h.file.Close()
	}
	if h.lock != nil {
		_ = h.lock.Close()
	}
	h.file, h.lock = nil, nil
	return err
}
