package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// Outcome is how a test ended.
type Outcome string

// The outcomes of `go test -json`.
const (
	Pass Outcome = "pass"
	Fail Outcome = "fail"
	Skip Outcome = "skip"
)

// kernelSkip are the words by which a test says that the kernel lacks what it needs.
const kernelSkip = "SKIP(kernel)"

// Result is one test's end. An empty Test is the package itself: one that does
// not compile, or that died outside its tests.
type Result struct {
	Package string  `json:"package"`
	Test    string  `json:"test,omitempty"`
	Outcome Outcome `json:"outcome"`
	// Reason is what the test said when it skipped.
	Reason string `json:"reason,omitempty"`
	// Exercised is the value of its attribute of that name.
	Exercised string `json:"exercised,omitempty"`
	// Said are the last lines of one that failed, in its first run.
	Said []string `json:"said,omitempty"`
	// Flaky: it failed, and passed when it was run again alone.
	Flaky bool `json:"flaky,omitempty"`
}

// Name is the package's last folders and the test.
func (r Result) Name() string {
	name := shortPackage(r.Package)
	if r.Test != "" {
		name += "." + r.Test
	}
	return name
}

// MaySkip tells whether the skip is for want of a kernel feature.
func (r Result) MaySkip() bool { return strings.Contains(r.Reason, kernelSkip) }

// Stage is one pass over packages in one kernel.
type Stage struct {
	Name    string   `json:"stage"`
	Kernel  string   `json:"kernel"`
	Results []Result `json:"results"`
}

func (s Stage) write(file string) error {
	data, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("results of stage %s: %w", s.Name, err)
	}
	if err := os.WriteFile(file, data, 0o644); err != nil {
		return fmt.Errorf("results of stage %s: %w", s.Name, err)
	}
	return nil
}

func readStage(file string) (Stage, error) {
	var s Stage
	data, err := os.ReadFile(file)
	if err != nil {
		return s, fmt.Errorf("saved results: %w", err)
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("saved results %s: %w", file, err)
	}
	return s, nil
}

// shortPackage leaves the host, owner and project out of an import path.
func shortPackage(path string) string {
	parts := strings.SplitN(path, "/", 4)
	if len(parts) == 4 && strings.Contains(parts[0], ".") {
		return parts[3]
	}
	return path
}
