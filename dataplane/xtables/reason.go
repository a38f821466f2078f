package xtables

import (
	"fmt"
	"slices"
	"strings"
)

// compare returns the rules that only want has and those that only have has,
// each as often as it is lacking or too many. Both empty means: another order.
func compare(want, have []string) (missing, surplus []string) {
	count := make(map[string]int, len(have))
	for _, r := range have {
		count[r]++
	}
	for _, r := range want {
		if count[r] == 0 {
			missing = append(missing, r)
			continue
		}
		count[r]--
	}
	for _, r := range slices.Backward(have) {
		if count[r] > 0 {
			count[r]--
			surplus = append(surplus, r)
		}
	}
	slices.Reverse(surplus)
	return missing, surplus
}

// ruleReason says in what way the rules of a chain of ours differ.
func ruleReason(missing, surplus []string) string {
	var parts []string
	if len(missing) > 0 {
		parts = append(parts, several("rule missing", missing))
	}
	if len(surplus) > 0 {
		parts = append(parts, several("rule that does not belong in our chain", surplus))
	}
	if len(parts) == 0 {
		return "rules in another order"
	}
	return strings.Join(parts, "; ")
}

// several names the first of some rules, and how many there are.
func several(what string, rules []string) string {
	if len(rules) == 1 {
		return what + ": " + rules[0]
	}
	return fmt.Sprintf("%s, %d times, the first: %s", what, len(rules), rules[0])
}

// jumpDelta is in what way the jumps in a built-in chain differ: guests are those
// of others that have to go.
type jumpDelta struct{ missing, surplus, wanted, guests []string }

// jumpReason tells it.
func jumpReason(base string, d jumpDelta) string {
	var parts []string
	for _, r := range d.missing {
		parts = append(parts, fmt.Sprintf("jump to %s missing in %s", targetOf(r), base))
	}
	for _, r := range d.surplus {
		what := "jump to %s not wanted in %s"
		if slices.Contains(d.wanted, r) {
			what = "duplicate jump to %s in %s"
		}
		parts = append(parts, fmt.Sprintf(what, targetOf(r), base))
	}
	for _, r := range d.guests {
		parts = append(parts, fmt.Sprintf("rule in %s that is not ours leads to chain %s, which goes: %s", base, targetOf(r), r))
	}
	if len(parts) == 0 {
		return "jumps in another order in " + base
	}
	return strings.Join(parts, "; ")
}

// lines writes rules as people type them, removed ones first.
func lines(chain string, removed, added []string) []string {
	out := make([]string, 0, len(removed)+len(added))
	for _, r := range removed {
		out = append(out, "- -A "+chain+" "+r)
	}
	for _, r := range added {
		out = append(out, "+ -A "+chain+" "+r)
	}
	return out
}
