package main

import (
	"fmt"
	"strings"
	"time"
)

// subject is a line of the drawing.
type subject struct {
	name, title, colour string
	// peer: a shape that is not ours, drawn dashed.
	peer bool
}

var subjects = []subject{
	{"nftables", "nftables", "#0072b2", false},
	{"iptables-nft", "iptables (nft)", "#009e73", false},
	{"iptables-legacy", "iptables (legacy)", "#d55e00", false},
	{"ipvs", "ipvs (User Mode Linux)", "#cc79a7", false},
	{"peer-nftables", "kube-proxy's shape, nft -f", "#0072b2", true},
	{"peer-iptables-nft", "kube-proxy's shape, iptables-nft-restore", "#009e73", true},
	{"peer-iptables-legacy", "kube-proxy's shape, iptables-legacy-restore", "#d55e00", true},
}

var sizes = []int{100, 1000, 5000, 10_000}

// memory is the peak of the largest process: that which programs, or a child of
// it. A child counts from the fork on, so it has at least what its parent had then.
func (f figures) memory(s string, n int) (float64, bool) {
	own, ok := f[key{s, n, "peak memory"}]
	return max(own, f[key{s, n, "peak memory of children"}]), ok
}

// table returns all figures that people compare.
func table(f figures) string {
	var b strings.Builder
	rows := []struct {
		title, name string
	}{
		{"load, wall", "load"}, {"load, processor", "load cpu"}, {"pass that changes nothing", "unchanged"},
		{"the same, processor", "unchanged cpu"}, {"fingerprint, processor", "fingerprint cpu"},
		{"one endpoint changed, median", "change p50"}, {"one endpoint changed, 99 %", "change p99"},
		{"connection to the endpoint itself, 1 %", "connect direct p01"}, {"to the first Service, 1 %", "connect first p01"},
		{"to the last Service, 1 %", "connect last p01"},
	}
	for _, s := range subjects {
		fmt.Fprintf(&b, "**%s**\n\n|", s.title)
		for _, n := range sizes {
			fmt.Fprintf(&b, " | %d", n)
		}
		b.WriteString(" |\n|---|" + strings.Repeat("---:|", len(sizes)) + "\n")
		for _, r := range rows {
			f.row(&b, r.title, func(n int) (string, bool) {
				v, ok := f[key{s.name, n, r.name}]
				return duration(v), ok
			})
		}
		f.row(&b, "peak memory of the largest process", func(n int) (string, bool) {
			v, ok := f.memory(s.name, n)
			return fmt.Sprintf("%.0f MB", v), ok
		})
		f.row(&b, "kernel memory", func(n int) (string, bool) {
			v, ok := f[key{s.name, n, "kernel memory"}]
			// What others give back meanwhile can be more.
			return fmt.Sprintf("%.0f MB", v), ok && v > 0
		})
		b.WriteByte('\n')
	}
	return b.String()
}

// row writes a row, unless nothing in it was measured.
func (f figures) row(b *strings.Builder, title string, cell func(n int) (string, bool)) {
	var cells []string
	any := false
	for _, n := range sizes {
		text, ok := cell(n)
		if !ok {
			text = ""
		}
		any = any || ok
		cells = append(cells, text)
	}
	if any {
		fmt.Fprintf(b, "| %s | %s |\n", title, strings.Join(cells, " | "))
	}
}

// duration writes seconds with three digits at most.
func duration(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d >= 10*time.Second:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d >= time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d >= time.Millisecond:
		return fmt.Sprintf("%.3g ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.3g µs", float64(d)/1e3)
}
