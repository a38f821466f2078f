package sysctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// read returns the value of a key with white space squeezed, and whether the
// kernel has the key.
func read(key string) (value string, exists bool, err error) {
	b, err := os.ReadFile(path(key))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", false, nil
	case err != nil:
		return "", false, fmt.Errorf("read of sysctl %s: %w", key, err)
	}
	return squeeze(string(b)), true, nil
}

// put writes a value unless the context has ended.
func put(ctx context.Context, key, value string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("sysctl %s: %w", key, err)
	}
	// No O_CREATE: a key that has gone must be an error, not a file.
	f, err := os.OpenFile(path(key), os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("sysctl %s: %w", key, err)
	}
	_, err = f.WriteString(value)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("sysctl %s = %q: %w", key, value, err)
	}
	return nil
}

// errDamaged is wrapped when a journal cannot be understood.
var errDamaged = errors.New("damaged sysctl journal")

// readJournal returns the records, oldest first, and whether there is a journal.
func readJournal(path string) (records []record, exists bool, err error) {
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("sysctl journal: %w", err)
	}
	if err := json.Unmarshal(b, &records); err != nil {
		return nil, true, fmt.Errorf("%w %s: %w", errDamaged, path, err)
	}
	return records, true, nil
}

// writeJournal replaces the journal by renaming: readers see the old records or
// the new ones, and so does whoever comes after a kill.
func writeJournal(path string, records []record) error {
	b, err := json.MarshalIndent(records, "", "  ")
	if err != nil {
		return fmt.Errorf("sysctl journal: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("sysctl journal: %w", err)
	}
	next := path + ".new"
	if err := os.WriteFile(next, append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("sysctl journal: %w", err)
	}
	if err := os.Rename(next, path); err != nil {
		return fmt.Errorf("sysctl journal: %w", err)
	}
	return nil
}

// setAside keeps a damaged journal under another name, for people to look at.
func setAside(path string) error {
	if err := os.Rename(path, path+".damaged"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("sysctl journal: %w", err)
	}
	return nil
}

// removeJournal forgets everything; that it is gone already is success.
func removeJournal(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("sysctl journal: %w", err)
	}
	return nil
}
