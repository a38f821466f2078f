package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/toyproxy/toyproxy/cluster"
)

func problemsPath(stateDir string) string { return filepath.Join(stateDir, "problems.json") }

// WriteProblems notes all that is wrong now with the input of the node, for other
// processes. Nothing is written when nothing changed.
func WriteProblems(stateDir string, problems []cluster.Problem) error {
	if problems == nil {
		problems = []cluster.Problem{}
	}
	text, err := json.MarshalIndent(problems, "", "  ")
	if err != nil {
		return fmt.Errorf("JSON of the problems: %w", err)
	}
	path := problemsPath(stateDir)
	if old, err := os.ReadFile(path); err == nil && string(old) == string(text) {
		return nil
	}
	return WriteFile(path, text)
}

// ReadProblems returns what was wrong when a pass noted it last; nothing when none
// did.
func ReadProblems(stateDir string) ([]cluster.Problem, error) {
	text, err := os.ReadFile(problemsPath(stateDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("problems of the node: %w", err)
	}
	var out []cluster.Problem
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, &CorruptError{problemsPath(stateDir), err}
	}
	return out, nil
}

// ForgetProblems removes the note.
func ForgetProblems(stateDir string) error {
	if err := os.Remove(problemsPath(stateDir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("problems of the node: %w", err)
	}
	return nil
}
