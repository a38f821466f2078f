package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// verdict is what a cell of the matrix says.
type verdict string

const (
	// notHere: another kernel is the one to try this backend in, or this one
	// lacks something. It is the zero verdict's meaning, too.
	notHere verdict = "not here"
	passed  verdict = "ok"
	failed  verdict = "FAIL"
)

func verdictOf(t *testing.T) verdict {
	switch {
	case t.Failed():
		return failed
	case t.Skipped():
		return notHere
	}
	return passed
}

// matrixVariable names a file that keeps the cells of several runs: that of the
// machine's own kernel and that of a guest with IPVS show one matrix then.
const matrixVariable = "TOYPROXY_MATRIX"

// cell is one scenario on one backend, as it is kept.
type cell struct {
	Scenario string      `json:"scenario"`
	Backend  string      `json:"backend"`
	Verdict  verdict     `json:"verdict"`
	Flows    []triedFlow `json:"flows"`
}

// matrix is the outcome of all runs.
type matrix struct {
	scenarios []scenario
	runs      []*run
}

func (m *matrix) add(r *run) {
	r.verdict = notHere
	m.runs = append(m.runs, r)
}

// finish prints the matrix, together with the cells of earlier runs. A flow
// that ended differently on two backends fails the test, whichever is right.
func (m *matrix) finish(t *testing.T) {
	t.Helper()
	var cells []cell
	for _, r := range m.runs {
		cells = append(cells, cell{r.scenario.name, r.backend.name, r.verdict, r.tried})
	}
	if path := os.Getenv(matrixVariable); path != "" {
		var err error
		if cells, err = keepCells(path, cells); err != nil {
			t.Error(err)
		}
	}
	differ := disagreements(cells)
	for _, d := range differ {
		t.Errorf("backends differ: %s", d)
	}
	fmt.Println(matrixText(m.scenarios, cells, len(differ)))
}

// keepCells adds what earlier runs found of cells that were not tried now, and
// writes all of them down.
func keepCells(path string, cells []cell) ([]cell, error) {
	var earlier []cell
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &earlier)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return cells, fmt.Errorf("cells of earlier runs: %w", err)
	}
	for _, e := range earlier {
		i := slices.IndexFunc(cells, func(c cell) bool { return e.Scenario == c.Scenario && e.Backend == c.Backend })
		switch {
		case i < 0:
			cells = append(cells, e)
		case cells[i].Verdict == notHere:
			cells[i] = e
		}
	}
	if b, err = json.Marshal(cells); err != nil {
		return cells, err
	}
	return cells, os.WriteFile(path, b, 0o644)
}

// disagreements lists the flows that ended as expected on some backends and not
// on others, or on each in a wrong way of its own.
func disagreements(cells []cell) []string {
	outcome := map[string]map[string][]string{}
	var flows []string
	for _, c := range cells {
		for _, f := range c.Flows {
			name := c.Scenario + " " + f.Flow
			if outcome[name] == nil {
				outcome[name] = map[string][]string{}
				flows = append(flows, name)
			}
			outcome[name][f.Fail] = append(outcome[name][f.Fail], c.Backend)
		}
	}
	var out []string
	for _, name := range flows {
		if len(outcome[name]) > 1 {
			out = append(out, fmt.Sprintf("%s: %q", name, outcome[name]))
		}
	}
	return out
}

// matrixText is a table of scenarios and backends with the flows each tried,
// and a line that sums it up.
func matrixText(scenarios []scenario, cells []cell, differ int) string {
	var out strings.Builder
	counts, flows := map[verdict]int{}, 0
	fmt.Fprintf(&out, "%-24s", "scenario")
	for _, b := range backends() {
		fmt.Fprintf(&out, "%-17s", b.name)
	}
	for _, s := range scenarios {
		fmt.Fprintf(&out, "\n%-24s", s.name)
		for _, b := range backends() {
			i := slices.IndexFunc(cells, func(c cell) bool { return c.Scenario == s.name && c.Backend == b.name })
			text := string(notHere)
			if i >= 0 {
				counts[cells[i].Verdict]++
				flows += len(cells[i].Flows)
				text = string(cells[i].Verdict)
				if n := len(cells[i].Flows); n > 0 {
					text += fmt.Sprintf(" (%d flows)", n)
				}
			}
			fmt.Fprintf(&out, "%-17s", text)
		}
		fmt.Fprintf(&out, "%s", s.shows)
	}
	fmt.Fprintf(&out, "\nconformance: %d scenarios x %d backends: %d ok, %d failed, %d not here; %d flows; differences between backends: %d",
		len(scenarios), len(backends()), counts[passed], counts[failed], counts[notHere], flows, differ)
	return out.String()
}

// TestMatrix prints what earlier runs have kept, and fails when two backends
// differ in it.
func TestMatrix(t *testing.T) {
	path := os.Getenv(matrixVariable)
	if path == "" {
		return
	}
	scenarios, err := loadScenarios("testdata")
	if err != nil {
		t.Fatal(err)
	}
	cells, err := keepCells(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	differ := disagreements(cells)
	for _, d := range differ {
		t.Errorf("backends differ: %s", d)
	}
	fmt.Println(matrixText(scenarios, cells, len(differ)))
}

func TestKeepCells(t *testing.T) {
	path := filepath.Join(t.TempDir(), "matrix.json")
	var kept []cell
	for _, run := range [][]cell{
		{{"s", "iptables", passed, nil}, {"s", "ipvs", notHere, nil}, {"z", "iptables", failed, nil}},
		{{"s", "iptables", notHere, nil}, {"s", "ipvs", passed, nil}},
	} {
		var err error
		if kept, err = keepCells(path, run); err != nil {
			t.Fatal(err)
		}
	}
	want := []cell{{"s", "iptables", passed, nil}, {"s", "ipvs", passed, nil}, {"z", "iptables", failed, nil}}
	if !reflect.DeepEqual(kept, want) {
		t.Errorf("%v, want %v", kept, want)
	}
}

func TestDisagreements(t *testing.T) {
	good, bad := []triedFlow{{Flow: "1: p1 → a"}}, []triedFlow{{Flow: "1: p1 → a", Fail: "TIMEOUT, want REFUSED"}}
	for _, tc := range []struct {
		name  string
		cells []cell
		want  int
	}{
		{"one backend alone", []cell{{"s", "iptables", failed, bad}}, 0},
		{"two agree", []cell{{"s", "iptables", passed, good}, {"s", "ipvs", passed, good}}, 0},
		{"two differ", []cell{{"s", "iptables", passed, good}, {"s", "ipvs", failed, bad}}, 1},
		{"another scenario", []cell{{"s", "iptables", passed, good}, {"z", "ipvs", failed, bad}}, 0},
	} {
		if got := disagreements(tc.cells); len(got) != tc.want {
			t.Errorf("%s: %q, want %d", tc.name, got, tc.want)
		}
	}
}
