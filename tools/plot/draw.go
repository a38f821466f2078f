package main

import (
	"fmt"
	"math"
	"strings"
)

// panel is one of the diagrams: a value over the number of Services, both on
// logarithmic axes.
type panel struct {
	title string
	value func(f figures, subject string, n int) (float64, bool)
	label func(float64) string
}

func plain(name string) func(figures, string, int) (float64, bool) {
	return func(f figures, s string, n int) (float64, bool) {
		v, ok := f[key{s, n, name}]
		return v, ok
	}
}

var panels = []panel{
	{title: "Everything from nothing", value: plain("load"), label: duration},
	{title: "One endpoint changed (median)", value: plain("change p50"), label: duration},
	{title: "Connection to the last Service (fastest 1 %)", value: plain("connect last p01"), label: duration},
	{title: "Peak memory of the largest process", value: figures.memory,
		label: func(v float64) string { return fmt.Sprintf("%.3g MB", v) }},
}

// Measures of the drawing, in pixels.
const (
	panelWidth, panelHeight   = 460, 300
	left, right, top, bottom  = 70, 20, 40, 40
	legendLine, legendColumns = 20, 2
)

// draw returns the SVG.
func draw(f figures) string {
	var b strings.Builder
	rows := (len(panels) + 1) / 2
	legendRows := (len(subjects) + legendColumns - 1) / legendColumns
	width, height := 2*panelWidth, rows*panelHeight+legendRows*legendLine+20
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	for i, p := range panels {
		fmt.Fprintf(&b, `<g transform="translate(%d,%d)">`+"\n", i%2*panelWidth, i/2*panelHeight)
		p.draw(&b, f)
		b.WriteString("</g>\n")
	}
	for i, s := range subjects {
		x, y := left+i%legendColumns*panelWidth, rows*panelHeight+10+i/legendColumns*legendLine
		fmt.Fprintf(&b, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="%s" stroke-width="2"%s/><text x="%d" y="%d">%s</text>`+"\n",
			x, y, x+30, y, s.colour, s.dashes(), x+38, y+4, s.title)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (s subject) dashes() string {
	if s.peer {
		return ` stroke-dasharray="5 4"`
	}
	return ""
}

// draw writes axes and lines.
func (p panel) draw(b *strings.Builder, f figures) {
	low, high := p.span(f)
	fmt.Fprintf(b, `<text x="%d" y="20" font-size="13" font-weight="bold">%s</text>`+"\n", left, p.title)
	for e := low; e <= high; e++ {
		y := p.y(math.Pow(10, e), low, high)
		fmt.Fprintf(b, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n",
			left, y, panelWidth-right, y, left-6, y+4, p.label(math.Pow(10, e)))
	}
	for _, n := range sizes {
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle">%d</text>`+"\n", x(n), panelHeight-bottom+18, n)
	}
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end" fill="#555">Services of 10 endpoints</text>`+"\n", panelWidth-right, panelHeight-6)
	for _, s := range subjects {
		var points []string
		for _, n := range sizes {
			if v, ok := p.value(f, s.name, n); ok && v > 0 {
				points = append(points, fmt.Sprintf("%.1f,%.1f", x(n), p.y(v, low, high)))
			}
		}
		if len(points) == 0 {
			continue
		}
		fmt.Fprintf(b, `<polyline fill="none" stroke="%s" stroke-width="2"%s points="%s"/>`+"\n", s.colour, s.dashes(), strings.Join(points, " "))
		for _, at := range points {
			px, py, _ := strings.Cut(at, ",")
			fmt.Fprintf(b, `<circle cx="%s" cy="%s" r="3" fill="%s"/>`+"\n", px, py, s.colour)
		}
	}
}

// span returns the powers of ten that hold all values.
func (p panel) span(f figures) (low, high float64) {
	least, most := math.Inf(1), math.Inf(-1)
	for _, s := range subjects {
		for _, n := range sizes {
			if v, ok := p.value(f, s.name, n); ok && v > 0 {
				least, most = min(least, v), max(most, v)
			}
		}
	}
	if math.IsInf(least, 1) {
		return 0, 1
	}
	low, high = math.Floor(math.Log10(least)), math.Ceil(math.Log10(most))
	return low, max(high, low+1)
}

func (p panel) y(v, low, high float64) float64 {
	share := (math.Log10(v) - low) / (high - low)
	return panelHeight - bottom - share*(panelHeight-bottom-top)
}

func x(n int) float64 {
	low, high := math.Log10(float64(sizes[0])), math.Log10(float64(sizes[len(sizes)-1]))
	return left + 20 + (math.Log10(float64(n))-low)/(high-low)*(panelWidth-left-right-40)
}
