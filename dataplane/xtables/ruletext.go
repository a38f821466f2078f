package xtables

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// condition is one match of a rule, as "! -s 10.0.0.0/8".
type condition struct {
	not bool
	// module is the one named last by -m, because options of several have the
	// same name; empty before the first.
	module string
	option string
	args   []string
}

// parsed is a rule taken apart.
type parsed struct {
	conditions []condition
	// goes: the target is a chain from which a packet does not come back here.
	goes   bool
	target string
	args   []string
}

// parseRule takes a rule apart, as iptables-save prints it, without "-A NAME".
func parseRule(text string) parsed {
	var p parsed
	not, module := false, ""
	words := splitWords(text)
	for i := 0; i < len(words); i++ {
		next := words[min(i+1, len(words)-1)]
		switch w := words[i]; {
		case w == "!":
			not = true
		case w == "-m":
			module = next
			i++
		case w == "-j" || w == "-g":
			p.goes, p.target, p.args = w == "-g", next, words[min(i+2, len(words)):]
			return p
		default:
			c := condition{not: not, module: module, option: w}
			not = false
			for i+1 < len(words) && (!isOption(words[i+1]) || w == "--comment" && len(c.args) == 0) {
				i++
				c.args = append(c.args, words[i])
			}
			p.conditions = append(p.conditions, c)
		}
	}
	return p
}

func isOption(word string) bool { return word == "!" || strings.HasPrefix(word, "-") }

// splitWords cuts a rule into words; what stands between quotes is one.
func splitWords(text string) []string {
	var out []string
	for text = strings.TrimLeft(text, " "); text != ""; text = strings.TrimLeft(text, " ") {
		if text[0] != '"' {
			word, rest, _ := strings.Cut(text, " ")
			out, text = append(out, word), rest
			continue
		}
		rest := afterQuoted(text)
		quoted := strings.TrimSpace(text[:len(text)-len(rest)])
		out, text = append(out, strings.Trim(quoted, `"`)), rest
	}
	return out
}

// prefixIn reads a range or one address.
func prefixIn(text string) (netip.Prefix, bool) {
	if p, err := netip.ParsePrefix(text); err == nil {
		return p, true
	}
	a, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(a, a.BitLen()), true
}

// underMask reads "0x4000/0xc000"; without a mask all bits count.
func underMask(text string) (value, mask uint32, ok bool) {
	first, second, masked := strings.Cut(text, "/")
	v, err := strconv.ParseUint(first, 0, 32)
	if err != nil {
		return 0, 0, false
	}
	if !masked {
		return uint32(v), ^uint32(0), true
	}
	m, err := strconv.ParseUint(second, 0, 32)
	return uint32(v), uint32(m), err == nil
}

// portsIn reads "80" or "8080:8095".
func portsIn(text string) (low, high uint64, ok bool) {
	first, last, isRange := strings.Cut(text, ":")
	if !isRange {
		last = first
	}
	low, err := strconv.ParseUint(first, 10, 16)
	if err != nil {
		return 0, 0, false
	}
	high, err = strconv.ParseUint(last, 10, 16)
	return low, high, err == nil
}

// silent are options that decide nothing by themselves.
func silent(option string) bool {
	return slices.Contains([]string{"--comment", "--name", "--mask", "--rsource", "--mode", "--seconds", "--reap", "--set"}, option)
}
