package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

const measured = `some line
FIGURE {"subject":"nftables","services":1000,"name":"load","value":0.05,"unit":"s"}
FIGURE {"subject":"nftables","services":1000,"name":"load","value":0.04,"unit":"s"}
FIGURE {"subject":"nftables","services":10000,"name":"load","value":0.4,"unit":"s"}
FIGURE {"subject":"peer-nftables","services":1000,"name":"load","value":1.05,"unit":"s"}
FIGURE {"subject":"nftables","services":1000,"name":"connect last p01","value":0.0000155,"unit":"s"}
FIGURE {"subject":"nftables","services":1000,"name":"connect direct p01","value":0.0000140,"unit":"s"}
`

// TestPlot proves that the least of several values counts, that the table says
// what was measured and nothing else, and that the drawing is well-formed.
func TestPlot(t *testing.T) {
	f, err := read(strings.NewReader(measured))
	if err != nil {
		t.Fatal(err)
	}
	text := table(f)
	for _, want := range []string{"| load, wall |  | 40 ms |  | 400 ms |", "| to the last Service, 1 % |  | 15.5 µs |  |  |"} {
		if !strings.Contains(text, want) {
			t.Errorf("no row %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "unchanged") || strings.Contains(text, "0 MB") {
		t.Errorf("the table has rows of what was not measured:\n%s", text)
	}
	svg := draw(f)
	decoder, lines := xml.NewDecoder(strings.NewReader(svg)), 0
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("drawing: %v", err)
		}
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "polyline" {
			lines++
		}
	}
	if lines != 3 { // load of two subjects, connections of one
		t.Errorf("%d lines are drawn, want 3", lines)
	}
}

func TestBadFigure(t *testing.T) {
	if _, err := read(strings.NewReader("FIGURE {")); err == nil {
		t.Error("half a figure is taken")
	}
}
