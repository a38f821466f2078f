package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// total adds the stages up and prints the closing lines.
func total(files []string, allowSkipIPVS bool, out io.Writer) error {
	var stages []Stage
	for _, file := range files {
		s, err := readStage(file)
		if err != nil {
			return err
		}
		stages = append(stages, s)
	}
	s := sum(stages)
	for _, line := range s.lines(allowSkipIPVS) {
		fmt.Fprintln(out, line)
	}
	if s.bad(allowSkipIPVS) {
		return errFailed
	}
	return nil
}

// totals is a whole run.
type totals struct {
	passed, failed int
	// broken are the failures, and flaky what passed in a second run, by stage.
	broken, flaky []staged
	// skipped are the tests that passed in no stage.
	skipped   []Result
	exercised []exercise
}

// staged is a result and the name of its stage.
type staged struct {
	stage string
	Result
}

func sum(stages []Stage) totals {
	var t totals
	passed, skipped := map[key]bool{}, map[key]Result{}
	for _, s := range stages {
		for _, r := range s.Results {
			k := key{r.Package, r.Test}
			switch r.Outcome {
			case Pass:
				t.passed++
				passed[k] = true
				if r.Flaky {
					t.flaky = append(t.flaky, staged{s.Name, r})
				}
			case Fail:
				t.failed++
			case Skip:
				skipped[k] = r
			}
		}
		for _, r := range failures(s.Results) {
			t.broken = append(t.broken, staged{s.Name, r})
		}
		t.exercised = append(t.exercised, exercisedIn(s)...)
	}
	for k, r := range skipped {
		if !passed[k] {
			t.skipped = append(t.skipped, r)
		}
	}
	slices.SortFunc(t.skipped, func(a, b Result) int { return strings.Compare(a.Name(), b.Name()) })
	return t
}

func (t totals) ipvs() bool {
	return slices.ContainsFunc(t.exercised, func(e exercise) bool { return e.backend == "ipvs" })
}

func (t totals) bad(allowSkipIPVS bool) bool {
	unmarked := slices.ContainsFunc(t.skipped, func(r Result) bool { return !r.MaySkip() })
	return t.failed > 0 || unmarked || !t.ipvs() && !allowSkipIPVS
}

func (t totals) lines(allowSkipIPVS bool) []string {
	var lines []string
	for _, r := range t.skipped {
		lines = append(lines, fmt.Sprintf("skipped: %s: %s", r.Name(), r.Reason))
	}
	if !t.ipvs() && !allowSkipIPVS {
		lines = append(lines, "IPVS was not exercised: no kernel with ip_vs could be had (scripts/vm-run says why; --allow-skip-ipvs lets the run pass)")
	}
	lines = append(lines, t.told()...)
	counts := fmt.Sprintf("%d passed, %d failed, %d skipped", t.passed, t.failed, len(t.skipped))
	said := make([]string, len(t.exercised))
	for i, e := range t.exercised {
		said[i] = e.String()
	}
	last := counts
	if n := len(t.flaky); n > 0 {
		counts += fmt.Sprintf(", %d flaky", n)
	}
	return append(lines, "exercised: "+strings.Join(said, "; ")+"; "+counts, last)
}

// mostTold is how many failures are told with what they said, the others by name.
const mostTold = 8

// told are the lines about what is flaky and what failed, the most of them last.
func (t totals) told() []string {
	var lines []string
	for _, r := range t.flaky {
		lines = append(lines, fmt.Sprintf("flaky: %s %s: failed once, passed when run again; the first time it said:", r.stage, r.Name()))
		lines = append(lines, r.lastWords()...)
	}
	for i, r := range t.broken {
		if more := len(t.broken) - mostTold; i < more {
			lines = append(lines, fmt.Sprintf("failed: %s %s", r.stage, r.Name()))
			continue
		}
		lines = append(lines, fmt.Sprintf("failed: %s %s; it said:", r.stage, r.Name()))
		lines = append(lines, r.lastWords()...)
	}
	return lines
}

// lastWords are the lines it said last, indented.
func (r Result) lastWords() []string {
	if len(r.Said) == 0 {
		return []string{"    (nothing)"}
	}
	lines := make([]string, len(r.Said))
	for i, s := range r.Said {
		lines[i] = "    " + s
	}
	return lines
}
