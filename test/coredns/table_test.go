package coredns

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	mdns "github.com/miekg/dns"
)

const (
	tableFile = "testdata/differences.txt"
	page      = "../../docs/dns-coredns.md"
	pageBegin = "<!-- differences: written by go -C test/coredns test -run TestPage -update -->\n"
	pageEnd   = "<!-- end of differences -->\n"
)

var update = flag.Bool("update", false, "write the table into "+page)

// meeting is a question that the two answer differently.
type meeting struct {
	*bench
	q            mdns.Question
	theirs, ours reply
}

func (c meeting) String() string {
	return fmt.Sprintf("%s\nCoreDNS: %s\nwe: %s", strings.Join(strings.Fields(c.q.String()), " "), c.theirs, c.ours)
}

// row is a difference that is meant.
type row struct {
	id    string
	cells []string // asked, CoreDNS, toyproxy, because
}

type table struct {
	rows []row
	met  map[string]int
}

func readTable(t *testing.T) *table {
	t.Helper()
	text, err := os.ReadFile(tableFile)
	if err != nil {
		t.Fatal(err)
	}
	tb := &table{met: map[string]int{}}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		cells := strings.Split(line, " | ")
		if len(cells) != 5 {
			t.Fatalf("%s: five cells wanted: %s", tableFile, line)
		}
		if explanations[cells[0]] == nil {
			t.Errorf("%s: %s: nothing tells when it holds", tableFile, cells[0])
		}
		tb.rows = append(tb.rows, row{cells[0], cells[1:]})
	}
	if len(tb.rows) != len(explanations) {
		t.Errorf("%d rows, but %d explanations", len(tb.rows), len(explanations))
	}
	return tb
}

// explain finds the row that a difference belongs to.
func (tb *table) explain(t *testing.T, c meeting) {
	t.Helper()
	for _, r := range tb.rows {
		if explanations[r.id](c) {
			tb.met[r.id]++
			return
		}
	}
	t.Errorf("not explained: %s", c)
}

// finish tells how often each row was met: one that never is would hide something.
func (tb *table) finish(t *testing.T) {
	t.Helper()
	for _, r := range tb.rows {
		t.Logf("%-14s %4d times", r.id, tb.met[r.id])
		if tb.met[r.id] == 0 {
			t.Errorf("row %s is met by no question", r.id)
		}
	}
}

// TestPage: the documentation shows the table as it is.
func TestPage(t *testing.T) {
	var want strings.Builder
	want.WriteString("| asked | CoreDNS says | toyproxy says | because |\n|---|---|---|---|\n")
	for _, r := range readTable(t).rows {
		fmt.Fprintf(&want, "| %s |\n", strings.Join(r.cells, " | "))
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), pageBegin)
	shown, after, ends := strings.Cut(rest, pageEnd)
	switch {
	case !ok || !ends:
		t.Fatalf("%s has no place for the table", page)
	case shown != want.String() && *update:
		if err := os.WriteFile(page, []byte(before+pageBegin+want.String()+pageEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
	case shown != want.String():
		t.Errorf("%s shows another table: go -C test/coredns test -run TestPage -update", page)
	}
}
