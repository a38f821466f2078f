package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// event is a line of `go test -json` (go doc test2json), as far as it is used here.
type event struct {
	Action     string
	Package    string
	ImportPath string // of build-output and build-fail
	Test       string
	Elapsed    float64
	Output     string
	Key, Value string // of attr
}

type key struct{ pkg, test string }

// follower turns events into results, and prints while they come.
type follower struct {
	out     io.Writer
	output  map[key][]string
	begun   map[key]bool   // tests that have not ended
	did     map[key]string // the attribute "exercised"
	builds  []string       // output of failed builds, in order
	results []Result
}

// follow reads the events of one stage, prints them in short, and saves the results.
func follow(stage Stage, in io.Reader, out io.Writer, save string) error {
	results, err := read(in, out)
	if err != nil {
		return err
	}
	if len(results) == 0 {
		results = append(results, Result{Package: "stage " + stage.Name, Outcome: Fail})
		fmt.Fprintf(out, "FAIL stage %s: no test ended\n", stage.Name)
	}
	stage.Results = results
	if save != "" {
		if err := stage.write(save); err != nil {
			return err
		}
	}
	return verdict(results)
}

// followAgain reads the events of a second run of what failed in a saved stage, and
// amends what is saved.
func followAgain(file string, in io.Reader, out io.Writer) error {
	stage, err := readStage(file)
	if err != nil {
		return err
	}
	second, err := read(in, out)
	if err != nil {
		return err
	}
	stage.Results = amend(stage.Results, second)
	if err := stage.write(file); err != nil {
		return err
	}
	return verdict(stage.Results)
}

// read reads events to their end and prints them in short.
func read(in io.Reader, out io.Writer) ([]Result, error) {
	f := follower{out: out, output: map[key][]string{}, begun: map[key]bool{}, did: map[key]string{}}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			f.line(line)
		}
		if err == io.EOF {
			return f.results, nil
		}
		if err != nil {
			return nil, fmt.Errorf("test events: %w", err)
		}
	}
}

func verdict(results []Result) error {
	for _, r := range results {
		if r.Outcome == Fail || r.Outcome == Skip && !r.MaySkip() {
			return errFailed
		}
	}
	return nil
}

func (f *follower) line(line []byte) {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		fmt.Fprintf(f.out, "%s", line) // a tool's own words
		return
	}
	k := key{e.Package, e.Test}
	switch e.Action {
	case "run":
		f.begun[k] = true
	case "output":
		f.output[k] = append(f.output[k], e.Output)
	case "build-output":
		f.builds = append(f.builds, e.Output)
	case "attr":
		if e.Key == exercisedKey {
			f.did[k] = e.Value
		}
	case "pass", "fail", "skip":
		f.end(k, Outcome(e.Action), e.Elapsed)
	}
}

func (f *follower) end(k key, outcome Outcome, seconds float64) {
	if k.test == "" {
		f.endPackage(k.pkg, outcome, seconds)
		return
	}
	r := Result{Package: k.pkg, Test: k.test, Outcome: outcome, Exercised: f.did[k]}
	said := f.output[k]
	delete(f.output, k)
	delete(f.begun, k)
	delete(f.did, k)
	switch outcome {
	case Skip:
		r.Reason = reason(said)
		if !r.MaySkip() {
			fmt.Fprintf(f.out, "SKIP %s without %s: %s\n", r.Name(), kernelSkip, r.Reason)
		}
	case Fail:
		r.Said = lastLines(said)
		fmt.Fprintf(f.out, "FAIL %s\n%s", r.Name(), indent(said))
	}
	f.results = append(f.results, r)
}

func (f *follower) endPackage(pkg string, outcome Outcome, seconds float64) {
	counts := map[Outcome]int{}
	for _, r := range f.results {
		if r.Package == pkg {
			counts[r.Outcome]++
		}
	}
	switch {
	case outcome == Fail && (counts[Fail] == 0 || f.died(pkg)):
		left := f.leftOutput(pkg)
		r := Result{Package: pkg, Outcome: Fail, Said: lastLines(slices.Concat(f.builds, left))}
		f.results = append(f.results, r)
		counts[Fail]++
		fmt.Fprintf(f.out, "FAIL %s\n%s%s", r.Name(), indent(f.builds), indent(left))
		f.builds = nil
	case outcome == Skip && len(counts) == 0: // no test files
		return
	}
	words := map[Outcome]string{Pass: "ok  ", Fail: "FAIL", Skip: "ok  "}
	fmt.Fprintf(f.out, "%s %-32s %6.1fs  %d passed", words[outcome], shortPackage(pkg), seconds, counts[Pass])
	if counts[Fail] > 0 {
		fmt.Fprintf(f.out, ", %d failed", counts[Fail])
	}
	if counts[Skip] > 0 {
		fmt.Fprintf(f.out, ", %d skipped", counts[Skip])
	}
	fmt.Fprintln(f.out)
}

// died tells whether a package that failed ended before its tests had: by a panic or
// the time limit. One that ends by itself says FAIL last.
func (f *follower) died(pkg string) bool {
	for k := range f.begun {
		if k.pkg == pkg {
			return true
		}
	}
	return !slices.Contains(f.output[key{pkg, ""}], "FAIL\n")
}

// leftOutput is what the package and its unfinished tests said: the place of a
// panic, or of the time limit.
func (f *follower) leftOutput(pkg string) []string {
	var left []string
	for k, lines := range f.output {
		if k.pkg == pkg && k.test != "" {
			left = append(left, lines...)
		}
	}
	return append(left, f.output[key{pkg, ""}]...)
}

// reason is the line that says SKIP(kernel), else all that a skipped test said.
func reason(said []string) string {
	var lines []string
	for _, s := range said {
		s = strings.TrimSpace(s)
		if strings.Contains(s, kernelSkip) {
			return s
		}
		if s != "" && !strings.HasPrefix(s, "=== ") && !strings.HasPrefix(s, "--- ") {
			lines = append(lines, s)
		}
	}
	return strings.Join(lines, " ")
}

// What is shown of one failed test: enough for its cause, not its whole kernel dump.
const (
	maxLines  = 80
	maxLength = 500
	// and what the closing lines repeat of it: the cause stands at the end
	lastMost   = 12
	lastLength = 300
)

// lastLines are the last that a test said by itself.
func lastLines(said []string) []string {
	var lines []string
	for _, s := range said {
		s = strings.TrimRight(s, " \t\r\n")
		bare := strings.TrimSpace(s)
		if bare == "" || strings.HasPrefix(bare, "=== ") || strings.HasPrefix(bare, "--- ") {
			continue
		}
		lines = append(lines, shorten(s, lastLength))
	}
	return lines[max(0, len(lines)-lastMost):]
}

func shorten(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

func indent(said []string) string {
	var lines []string
	for _, s := range said {
		if s = strings.TrimRight(s, "\n"); strings.HasPrefix(s, "=== ") {
			continue
		}
		lines = append(lines, "    "+shorten(s, maxLength)+"\n")
	}
	if n := len(lines); n > maxLines {
		cut := fmt.Sprintf("    … %d lines …\n", n-maxLines)
		lines = slices.Concat(lines[:maxLines/2], []string{cut}, lines[n-maxLines/2:])
	}
	return strings.Join(lines, "")
}
