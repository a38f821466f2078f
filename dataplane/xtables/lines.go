package xtables

import "slices"

// Lines is room in which the rules of a chain are written. It is used for one
// chain after the other: to keep each rule of a large table as a text of its own
// costs more than to write it.
type Lines struct {
	// Text is all rules, and the one under way at its end.
	Text []byte
	// ends are where rules end.
	ends []int
}

// End ends the rule under way.
func (l *Lines) End() { l.ends = append(l.ends, len(l.Text)) }

// Add adds whole rules.
func (l *Lines) Add(rules ...string) {
	for _, r := range rules {
		l.Text = append(l.Text, r...)
		l.End()
	}
}

// empty takes all rules out.
func (l *Lines) empty() { l.Text, l.ends = l.Text[:0], l.ends[:0] }

// write writes the rules of a chain in the place of all that were there.
func (l *Lines) write(c Chain) {
	l.empty()
	if c.Make != nil {
		c.Make(l)
		return
	}
	l.Add(c.Rules...)
}

// each calls f with every rule, which is only lent to it.
func (l *Lines) each(f func(rule []byte)) {
	begin := 0
	for _, end := range l.ends {
		f(l.Text[begin:end])
		begin = end
	}
}

// rules returns the rules as texts that are kept.
func (l *Lines) rules() []string {
	whole, out, begin := string(l.Text), make([]string, len(l.ends)), 0
	for i, end := range l.ends {
		out[i], begin = whole[begin:end], end
	}
	return out
}

// holds reports whether the rules of a chain are the ones given.
func (l *Lines) holds(c Chain, rules []string) bool {
	if c.Make == nil {
		return slices.Equal(c.Rules, rules)
	}
	l.write(c)
	if len(l.ends) != len(rules) {
		return false
	}
	begin := 0
	for i, end := range l.ends {
		if string(l.Text[begin:end]) != rules[i] {
			return false
		}
		begin = end
	}
	return true
}
