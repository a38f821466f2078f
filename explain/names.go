package explain

import (
	"slices"
	"strings"
)

// near names those of the names "namespace/name" that were perhaps meant.
func near(wanted string, names []string, kind string) string {
	if len(names) == 0 {
		return ": there is no " + kind + " at all"
	}
	_, short, _ := strings.Cut(wanted, "/")
	var out []string
	for _, n := range names {
		_, name, _ := strings.Cut(n, "/")
		if name == short || distance(n, wanted) <= 2 || short != "" && (strings.HasPrefix(name, short) || strings.HasPrefix(short, name)) {
			out = append(out, n)
		}
	}
	switch {
	case len(out) > 0:
		return ": is it " + strings.Join(first(out, 3), ", ") + "?"
	case len(names) <= 3:
		return ": there is " + strings.Join(names, ", ")
	}
	return ": there are " + strings.Join(first(names, 3), ", ") + " and others"
}

func first[T any](list []T, n int) []T { return list[:min(n, len(list))] }

// joinAnd writes a list as people do: "a, b and c".
func joinAnd(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	last := len(list) - 1
	if last == 0 {
		return list[0]
	}
	return strings.Join(list[:last], ", ") + " and " + list[last]
}

// distance is how many letters have to be added, taken away or changed to make
// one word of the other.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := corner
			if a[i] != b[j] {
				cost = 1 + slices.Min([]int{corner, row[j], row[j+1]})
			}
			corner, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
