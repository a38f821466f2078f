package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/dataplane"
)

// outputFlag is -o: the form of what goes to standard output.
type outputFlag struct {
	value   string
	allowed []string
}

func (o *outputFlag) register(cmd *cobra.Command, allowed ...string) {
	o.allowed = allowed
	cmd.Flags().VarP(o, "output", "o", "output format: "+strings.Join(allowed, ", "))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp))
}

// Set implements pflag.Value.
func (o *outputFlag) Set(v string) error {
	if !slices.Contains(o.allowed, v) {
		return fmt.Errorf("must be one of %s", strings.Join(o.allowed, ", "))
	}
	o.value = v
	return nil
}

// String implements pflag.Value.
func (o *outputFlag) String() string { return o.value }

// Type implements pflag.Value.
func (o *outputFlag) Type() string { return "format" }

func (o *outputFlag) isJSON() bool { return o.value == "json" }

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// columns prints rows the way kubectl does. A row's cells are cleaned of
// control characters, so that no manifest can write to the terminal.
type columns struct{ w *tabwriter.Writer }

func newColumns(w io.Writer) columns { return columns{tabwriter.NewWriter(w, 6, 4, 3, ' ', 0)} }

func (c columns) row(cells ...string) {
	for i := range cells {
		cells[i] = printable(cells[i])
	}
	fmt.Fprintln(c.w, strings.Join(cells, "\t"))
}

// list prints a name and its values, one a line; "<none>" when there are none.
func (c columns) list(name string, values []string) {
	if len(values) == 0 {
		values = []string{"<none>"}
	}
	for _, v := range values {
		c.row(name, v)
		name = ""
	}
}

func (c columns) flush() error { return c.w.Flush() }

// printable replaces control characters, so that text from a manifest or from a
// program cannot move the cursor or forge a line.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, s)
}

// messages is where messages to people go: of the control characters it lets
// pass only ends of lines. No message is split over two calls.
type messages struct{ w io.Writer }

// Write implements io.Writer.
func (m messages) Write(b []byte) (int, error) {
	lines := strings.Split(string(b), "\n")
	for i, l := range lines {
		lines[i] = printable(l)
	}
	if _, err := io.WriteString(m.w, strings.Join(lines, "\n")); err != nil {
		return 0, err
	}
	return len(b), nil
}

// problemJSON is the stable form of a problem.
type problemJSON struct {
	cluster.Position
	Object   string `json:"object,omitempty"`
	Field    string `json:"field,omitempty"`
	Message  string `json:"message"`
	Severity string `json:"severity"`
}

func problemsJSON(ps []cluster.Problem) []problemJSON {
	out := make([]problemJSON, 0, len(ps))
	for _, p := range ps {
		severity := "error"
		if p.Warning {
			severity = "warning"
		}
		out = append(out, problemJSON{p.Position, p.Object.String(), p.Field, p.Message, severity})
	}
	return out
}

// printProblems writes one line a problem; warnings are marked as such.
func printProblems(w io.Writer, ps []cluster.Problem) {
	for _, p := range ps {
		if p.Warning {
			fmt.Fprintf(w, "warning: %s\n", printable(p.String()))
		} else {
			fmt.Fprintf(w, "error: %s\n", printable(p.String()))
		}
	}
}

// printRemarks writes what a plan has to tell beside its changes.
func printRemarks(w io.Writer, remarks []string) {
	for _, r := range remarks {
		fmt.Fprintf(w, "note: %s\n", printable(r))
	}
}

// printChanges writes a plan as text: one line a change, the exact lines below
// it when asked for, and the closing count.
func printChanges(w io.Writer, changes []dataplane.Change, lines bool) {
	for _, c := range changes {
		fmt.Fprintln(w, printable(c.String()))
		if !lines {
			continue
		}
		for _, l := range c.Lines {
			fmt.Fprintf(w, "      %s\n", printable(l))
		}
	}
	fmt.Fprintln(w, countLine(changes))
}

func countLine(changes []dataplane.Change) string {
	add, update, remove := countChanges(changes)
	if add+update+remove == 0 {
		return "Plan: nothing to change."
	}
	return fmt.Sprintf("Plan: %d to add, %d to change, %d to remove.", add, update, remove)
}

func countChanges(changes []dataplane.Change) (add, update, remove int) {
	return dataplane.TallyOf(slices.Values(changes))
}

// count says "1 Service" or "2 Services".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if strings.HasSuffix(noun, "s") { // Ingress, address
		noun += "e"
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
