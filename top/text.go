package top

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// header names the columns of a table. The last is as wide as there is room.
var header = [...]string{"SERVICE", "PROTO", "CONN/S", "ACTIVE", "IN/S", "OUT/S", "ENDPOINTS"}

// numeric are the columns that are aligned at the right.
func numeric(column int) bool { return column >= 2 && column <= 5 }

// cells are those of a row.
func (r Row) cells() [len(header)]string {
	return [...]string{printable(r.Name()), r.Protocol, perSecond(r.Connections), strconv.Itoa(r.Active),
		Volume(r.BytesIn), Volume(r.BytesOut), shares(r)}
}

// cells are those of an endpoint, below its Service.
func (s Share) cells() [len(header)]string {
	name := s.Address.String()
	if s.Pod != "" {
		name += " " + printable(s.Pod)
	}
	return [...]string{"  " + name, "", perSecond(s.Connections), strconv.Itoa(s.Active), Volume(s.BytesIn), Volume(s.BytesOut), bar(s.Part)}
}

// shares tells how endpoints share a row: "3: web-1 50% web-2 25% web-3 25%", the
// largest first.
func shares(r Row) string {
	if len(r.Endpoints) == 0 {
		return "none"
	}
	list := slices.Clone(r.Endpoints)
	slices.SortStableFunc(list, func(a, b Share) int { return -compareFloat(a.Part, b.Part) })
	parts := []string{strconv.Itoa(len(list)) + ":"}
	for _, s := range list {
		if s.Part == 0 && r.Active == 0 && r.Connections == 0 {
			return strconv.Itoa(len(list))
		}
		parts = append(parts, fmt.Sprintf("%s %.0f%%", s.short(r.Namespace), 100*s.Part))
	}
	return strings.Join(parts, " ")
}

func compareFloat(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// short is the Pod's name, without the namespace that the Service is in too, or the
// address.
func (s Share) short(namespace string) string {
	if s.Pod == "" {
		return s.Address.String()
	}
	return printable(strings.TrimPrefix(s.Pod, namespace+"/"))
}

// bar draws a part of 1.
func bar(part float64) string {
	const width = 20
	return fmt.Sprintf("%s %.0f%%", strings.Repeat("█", int(part*width+0.5)), 100*part)
}

// perSecond prints a rate, with a decimal while it is small.
func perSecond(f float64) string {
	switch {
	case f == 0:
		return "0"
	case f < 10:
		return strconv.FormatFloat(f, 'f', 1, 64)
	}
	return strconv.FormatFloat(f, 'f', 0, 64)
}

// Volume prints bytes in units of 1024.
func Volume(f float64) string {
	units := [...]string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for ; f >= 1000 && i < len(units)-1; i++ {
		f /= 1024
	}
	if i == 0 {
		return strconv.FormatFloat(f, 'f', 0, 64) + "B"
	}
	return perSecond(f) + units[i]
}

// layout aligns rows of cells in columns, no line longer than width, which is not
// bounded if it is 0.
func layout(rows [][len(header)]string, width int) []string {
	var widths [len(header)]int
	for _, r := range rows {
		for i, c := range r {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	out := make([]string, len(rows))
	for n, r := range rows {
		var b strings.Builder
		for i, c := range r {
			space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c))
			switch {
			case i == len(r)-1:
				b.WriteString(c)
			case numeric(i):
				b.WriteString(space + c + "   ")
			default:
				b.WriteString(c + space + "   ")
			}
		}
		out[n] = cut(strings.TrimRight(b.String(), " "), width)
	}
	return out
}

// cut shortens a line to a width, with a sign that it did.
func cut(s string, width int) string {
	if width <= 0 || utf8.RuneCountInString(s) <= width {
		return s
	}
	return string([]rune(s)[:max(width-1, 0)]) + "…"
}

// Text prints rows once, for people who read them in a file or a pipe. With
// endpoints each has a line of its own.
func Text(rows []Row, endpoints bool) string {
	lines := [][len(header)]string{header}
	for _, r := range rows {
		lines = append(lines, r.cells())
		if endpoints {
			for _, s := range r.Endpoints {
				lines = append(lines, s.cells())
			}
		}
	}
	return strings.Join(layout(lines, 0), "\n") + "\n"
}

// printable replaces control characters: a name must not move the cursor.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, s)
}
