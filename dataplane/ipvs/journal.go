package ipvs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// readTimeouts reads what is remembered of timeouts; nothing if there is no file.
func readTimeouts(path string) (r timeoutRecord, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		return r, fmt.Errorf("record of IPVS timeouts %s (delete it to leave them as they are): %w", path, err)
	}
	return r, nil
}

// writeTimeouts replaces the record by renaming: whoever comes after a kill reads
// the old one or the new one.
func writeTimeouts(path string, r timeoutRecord) error {
	b, err := json.Marshal(r)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err == nil {
		err = os.WriteFile(path+".new", append(b, '\n'), 0o644)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("record of IPVS timeouts: %w", err)
	}
	return nil
}

// forgetTimeouts removes the record; that it is gone already is success.
func forgetTimeouts(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("record of IPVS timeouts: %w", err)
	}
	return nil
}
