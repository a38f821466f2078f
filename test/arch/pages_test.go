package arch

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pages are those whose tables name, in the last cell of each row, the tests
// that show what the row says. docs/conformance.md has a check of its own.
var pages = []string{"docs/compared.md", "docs/field-faults.md"}

const (
	scenarioDir = "test/conformance/testdata"
	scriptDir   = "cmd/toyproxy/testdata/script"
)

var (
	// citedWord is what counts in such a cell: the words that say what the
	// names after them are, and names in code quotes.
	citedWord = regexp.MustCompile("`[^`]+`|\\bconformance\\b|\\bscripts?\\b")
	citedTest = regexp.MustCompile(`^(?:([\w/]+)\.)?((?:Test|Fuzz)\w+)$`)
	testFunc  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
)

// TestPages proves that the pages name a test for each of their rows, and none
// that does not exist.
func TestPages(t *testing.T) {
	known := knownTests(t)
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join("..", "..", page))
		if err != nil {
			t.Fatal(err)
		}
		for _, fault := range citationFaults(string(text), known) {
			t.Errorf("%s:%s", page, fault)
		}
	}
}

// knownTests lists "FOLDER.TestName" of every Go test, and the paths of scenarios
// and scripts.
func knownTests(t *testing.T) []string {
	t.Helper()
	var known []string
	tree := os.DirFS(filepath.Join("..", ".."))
	err := fs.WalkDir(tree, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if p != "." && strings.HasPrefix(d.Name(), ".") {
				return fs.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(p, ".txtar") {
			known = append(known, p)
		}
		if !strings.HasSuffix(p, "_test.go") {
			return nil
		}
		text, err := fs.ReadFile(tree, p)
		for _, m := range testFunc.FindAllStringSubmatch(string(text), -1) {
			known = append(known, path.Dir(p)+"."+m[1])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return known
}

// citationFaults returns, with their lines, rows of the tables of a page that name
// no test, and names of tests that are not known.
func citationFaults(text string, known []string) []string {
	var faults []string
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		head := i+1 < len(lines) && strings.HasPrefix(lines[i+1], "|---")
		if !strings.HasPrefix(line, "| ") || head {
			continue
		}
		cells := strings.Split(strings.TrimSuffix(line, "|"), "|")
		named, unknown := cited(cells[len(cells)-1], known)
		if named == 0 {
			faults = append(faults, fmt.Sprintf("%d: the last cell names no test", i+1))
		}
		for _, name := range unknown {
			faults = append(faults, fmt.Sprintf("%d: there is no test %s", i+1, name))
		}
	}
	return faults
}

// cited counts the tests that a cell names and returns those that are not known.
// A Go test without a package is of the package named before it; other names
// are of the kind that was said last.
func cited(cell string, known []string) (named int, unknown []string) {
	folder, dir := "", ""
	for _, word := range citedWord.FindAllString(cell, -1) {
		name := strings.Trim(word, "`")
		switch {
		case word == "conformance":
			dir = scenarioDir
			continue
		case name == word:
			dir = scriptDir
			continue
		}
		have := slices.Contains(known, path.Join(dir, name+".txtar"))
		if m := citedTest.FindStringSubmatch(name); m != nil {
			if m[1] != "" {
				folder = m[1]
			}
			end := "/" + folder + "." + m[2]
			have = slices.ContainsFunc(known, func(k string) bool { return strings.HasSuffix("/"+k, end) })
		}
		named++
		if !have {
			unknown = append(unknown, name)
		}
	}
	return named, unknown
}

func TestPageFaultsAreFound(t *testing.T) {
	known := []string{"dataplane/iptables.TestDrift", "dataplane/iptables.TestShares", "dataplane/ipvs.TestDrain",
		scenarioDir + "/doors.txtar", scriptDir + "/drift.txtar"}
	for _, tc := range []struct{ cell, want string }{
		{"conformance `doors`; script `drift`; `iptables.TestDrift`, `TestShares`; `dataplane/ipvs.TestDrain`", ""},
		{"none", "3: the last cell names no test"},
		{"conformance `drift`", "3: there is no test drift"},
		{"scripts `drift`, `doors`", "3: there is no test doors"},
		{"`drift`", "3: there is no test drift"},
		{"`ipvs.TestDrain`, `drift`", "3: there is no test drift"},
		{"`TestDrift`", "3: there is no test TestDrift"},
		{"`ipvs.TestDrift`", "3: there is no test ipvs.TestDrift"},
		{"`iptables.TestDrift`, `TestDrain`", "3: there is no test TestDrain"},
	} {
		got := strings.Join(citationFaults("| what | test |\n|---|---|\n| x | "+tc.cell+" |\n", known), "\n")
		if got != tc.want {
			t.Errorf("%s: %q, want %q", tc.cell, got, tc.want)
		}
	}
}
