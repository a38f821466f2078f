package conntrack

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/toyproxy/toyproxy/dataplane"
)

// readJournal returns the destinations that were frontends; none if there is no
// journal. A damaged one is an error that wraps errDamaged.
func readJournal(path string) ([]dataplane.Key, error) {
	if path == "" {
		return nil, nil
	}
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("journal of frontends: %w", err)
	}
	var keys []dataplane.Key
	if err := json.Unmarshal(b, &keys); err != nil {
		return nil, fmt.Errorf("%w %s: %w", errDamaged, path, err)
	}
	return tidy(keys), nil
}

// writeJournal replaces the journal by renaming; without destinations there is
// no journal.
func writeJournal(path string, keys []dataplane.Key) error {
	if path == "" {
		return nil
	}
	if len(keys) == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("journal of frontends: %w", err)
		}
		return nil
	}
	b, err := json.Marshal(keys)
	if err != nil {
		return fmt.Errorf("journal of frontends: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("journal of frontends: %w", err)
	}
	next := path + ".new"
	if err := os.WriteFile(next, append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("journal of frontends: %w", err)
	}
	if err := os.Rename(next, path); err != nil {
		return fmt.Errorf("journal of frontends: %w", err)
	}
	return nil
}
