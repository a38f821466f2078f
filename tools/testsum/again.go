package main

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// mostAgain is how many failed tests of a stage are run again. More than that is no
// bad luck.
const mostAgain = 4

// listAgain prints what of a saved stage is to be run again, a line each: the package
// and the pattern for -run. It prints nothing where nothing failed, or too much.
func listAgain(file string, out io.Writer) error {
	s, err := readStage(file)
	if err != nil {
		return err
	}
	for _, r := range again(s.Results) {
		fmt.Fprintln(out, r.Package, pattern(r.Test))
	}
	return nil
}

// again returns the failed tests to run again. There are none if a package failed
// outside its tests: what else it would have told is not known.
func again(results []Result) []Result {
	failed := failures(results)
	outside := func(r Result) bool { return r.Test == "" }
	if len(failed) > mostAgain || slices.ContainsFunc(failed, outside) {
		return nil
	}
	return failed
}

// failures are the failed results, without tests that failed with a subtest.
func failures(results []Result) []Result {
	var out []Result
	for i, r := range results {
		if r.Outcome != Fail {
			continue
		}
		deeper := func(s Result) bool { return s.Outcome == Fail && r.Test != "" && s.below(r) }
		if !slices.ContainsFunc(results[:i], deeper) && !slices.ContainsFunc(results[i+1:], deeper) {
			out = append(out, r)
		}
	}
	return out
}

// below tells whether this is a subtest of another test, of any depth.
func (r Result) below(parent Result) bool {
	return r.Package == parent.Package && strings.HasPrefix(r.Test, parent.Test+"/")
}

// pattern is the value of -run that means one test and its subtests.
func pattern(test string) string {
	parts := strings.Split(test, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}

// amend puts the results of a second run in the place of failures: what passes now is
// flaky, and so is a test whose failed subtests all are.
func amend(first, second []Result) []Result {
	passed := map[key]Result{}
	for _, r := range second {
		if r.Outcome == Pass {
			passed[key{r.Package, r.Test}] = r
		}
	}
	for _, r := range second { // run with each of its subtests, it has to pass each time
		if r.Outcome == Fail {
			delete(passed, key{r.Package, r.Test})
		}
	}
	tried := failures(first)
	out := slices.Clone(first)
	for i, r := range out {
		now, ok := passed[key{r.Package, r.Test}]
		if r.Outcome != Fail || !ok {
			continue
		}
		still := func(s Result) bool {
			_, ok := passed[key{s.Package, s.Test}]
			return !ok && s.below(r)
		}
		if slices.ContainsFunc(tried, still) {
			continue
		}
		out[i].Outcome, out[i].Exercised = Pass, now.Exercised
		out[i].Flaky = slices.ContainsFunc(tried, func(s Result) bool { return s.Package == r.Package && s.Test == r.Test })
	}
	return out
}
