// Command plot draws what scripts/bench.d/services measured: one SVG of four
// panels, and the same figures as a table in Markdown on standard output.
//
//	plot -svg docs/performance.svg FIGURES
//
// FIGURES holds lines "FIGURE {json}", as the benchmark of test/figures prints
// them; other lines are skipped. plot measures nothing.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

// figure is one measured value; see test/figures.
type figure struct {
	Subject  string
	Services int
	Name     string
	Value    float64
	Unit     string
}

// key finds a value.
type key struct {
	subject  string
	services int
	name     string
}

// figures are the measured values; of several of one key the least, which other
// work on the machine has disturbed least.
type figures map[key]float64

func read(in io.Reader) (figures, error) {
	out := figures{}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		_, text, found := strings.Cut(lines.Text(), "FIGURE ")
		if !found {
			continue
		}
		var f figure
		if err := json.Unmarshal([]byte(text), &f); err != nil {
			return nil, fmt.Errorf("figure %q: %w", text, err)
		}
		k := key{f.Subject, f.Services, f.Name}
		if had, ok := out[k]; !ok || f.Value < had {
			out[k] = f.Value
		}
	}
	return out, lines.Err()
}

func run(path, svg string) error {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	all, err := read(in)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return fmt.Errorf("%s holds no figures: make some by scripts/bench services", path)
	}
	if svg != "" {
		if err := os.WriteFile(svg, []byte(draw(all)), 0o644); err != nil {
			return err
		}
	}
	_, err = io.WriteString(os.Stdout, table(all))
	return err
}

func main() {
	svg := flag.String("svg", "", "file for the drawing")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "plot: name one file of figures")
		os.Exit(64)
	}
	if err := run(flag.Arg(0), *svg); err != nil {
		fmt.Fprintln(os.Stderr, "plot:", err)
		os.Exit(1)
	}
}
