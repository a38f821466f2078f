package conformance

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/conformance.md anew")

const document = "../../docs/conformance.md"

// row is one row of behaviour, and what shows it.
type row struct {
	id, title string
	// tests show it beside scenarios; reason says why nothing does.
	tests     []string
	reason    string
	scenarios []string
}

// TestDocument proves that docs/conformance.md is what the scenarios and
// rows.txt say, that each row is shown by something or says why not, and that
// nothing claims a row or a test that does not exist. With -update it writes it.
func TestDocument(t *testing.T) {
	scenarios, err := loadScenarios("testdata")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := loadRows("rows.txt", scenarios)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if len(r.scenarios)+len(r.tests) == 0 && r.reason == "" {
			t.Errorf("row %s (%s) is shown by nothing", r.id, r.title)
		}
		for _, test := range r.tests {
			if err := testExists(test); err != nil {
				t.Errorf("row %s: %v", r.id, err)
			}
		}
	}
	text := documentText(rows, scenarios)
	if *update {
		if err := os.WriteFile(document, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(document)
	if err != nil || string(have) != text {
		t.Errorf("%s is not what the scenarios say (%v): go test ./test/conformance -run TestDocument -update", document, err)
	}
}

// loadRows reads the catalogue of rows and adds the scenarios that name each.
func loadRows(path string, scenarios []scenario) ([]row, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var rows []row
	for _, line := range lines(string(b)) {
		parts := strings.Split(line, " | ")
		if len(parts) < 2 {
			return nil, fmt.Errorf("%s: %q has no title", path, line)
		}
		r := row{id: parts[0], title: parts[1]}
		if len(parts) > 2 {
			if tests, ok := strings.CutPrefix(parts[2], "test "); ok {
				r.tests = strings.Fields(tests)
			} else {
				r.reason = strings.TrimPrefix(parts[2], "no: ")
			}
		}
		rows = append(rows, r)
	}
	for _, s := range scenarios {
		if len(s.rows) == 0 {
			err = errors.Join(err, fmt.Errorf("scenario %s names no row: add a line \"rows …\" to its options", s.name))
		}
		for _, id := range s.rows {
			i := slices.IndexFunc(rows, func(r row) bool { return r.id == id })
			if i < 0 {
				err = errors.Join(err, fmt.Errorf("scenario %s: there is no row %s", s.name, id))
				continue
			}
			rows[i].scenarios = append(rows[i].scenarios, s.name)
		}
	}
	return rows, err
}

// testExists looks for "FOLDER.TestName" among the project's tests.
func testExists(test string) error {
	folder, name, _ := strings.Cut(test, ".")
	files, err := filepath.Glob(filepath.Join("../..", folder, "*_test.go"))
	if err != nil {
		return err
	}
	want := regexp.MustCompile(`(?m)^func ` + name + `\(`)
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		if want.Match(b) {
			return nil
		}
	}
	return fmt.Errorf("there is no test %s", test)
}

const documentHead = `# Conformance

One suite, all backends: each scenario below is a set of objects and the packets that are then sent, each with the one outcome that every
backend has to have, in both address families. ` + "`test/conformance`" + ` plays it with real packets in namespaces of its own and ends with the
matrix of scenarios and backends, and the number of flows that ended differently on two of them. This page is made by
` + "`go test ./test/conformance -run TestDocument -update`" + ` and checked by every run.

` + "```sh" + `
export TOYPROXY_MATRIX=$PWD/bin/matrix.json CGO_ENABLED=0
go test -v ./test/conformance -run TestConformance                                              # iptables and nftables, in this kernel
go test -v -exec "$PWD/scripts/vm-run -w $PWD/bin --" ./test/conformance -run TestConformance   # IPVS in a guest; prints all columns
` + "```" + `

## Rows

What a Service proxy does that can be seen from outside, by the numbers that the scenarios use, and what shows it here.

| row | what | shown by |
|---|---|---|
`

// documentText is the page.
func documentText(rows []row, scenarios []scenario) string {
	var out strings.Builder
	out.WriteString(documentHead)
	shown := 0
	for _, r := range rows {
		var by []string
		for _, s := range r.scenarios {
			by = append(by, "`"+s+"`")
		}
		for _, test := range r.tests {
			by = append(by, "`"+strings.TrimPrefix(test, "test/")+"`")
		}
		if len(by) > 0 {
			shown++
		} else {
			by = []string{"– (" + r.reason + ")"}
		}
		fmt.Fprintf(&out, "| %s | %s | %s |\n", r.id, r.title, strings.Join(by, ", "))
	}
	fmt.Fprintf(&out, "\n%d of %d rows are shown.\n\n## Scenarios\n\n| scenario | what it shows | rows | steps | flows |", shown, len(rows))
	for _, b := range backends() {
		out.WriteString(" " + b.name + " |")
	}
	out.WriteString("\n|---|---|---|---|---|" + strings.Repeat("---|", len(backends())) + "\n")
	for _, s := range scenarios {
		fmt.Fprintf(&out, "| `%s` | %s | %s | %d | %d |", s.name, s.shows, strings.Join(s.rows, " "), len(s.steps), s.count())
		out.WriteString(strings.Repeat(" yes |", len(backends())) + "\n")
	}
	return out.String()
}

// count is the number of flows that the scenario sends on each backend.
func (s scenario) count() int {
	n := 0
	for _, st := range s.steps {
		for _, f := range st.flows {
			n++
			if _, ok := f.twin(); ok && !s.oneFamily {
				n++
			}
		}
	}
	return n
}
