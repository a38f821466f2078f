package lab

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// Dump is what the kernel of one namespace holds, in lines of its own tools, by
// the command that prints them.
type Dump map[string][]string

// Rules lists the commands that show what backends make. Machines without a
// tool have nothing that it would show.
func Rules() []string {
	return []string{
		"iptables-nft-save", "ip6tables-nft-save", "iptables-legacy-save", "ip6tables-legacy-save",
		"nft list table ip toyproxy", "nft list table ip6 toyproxy",
		"ipset save", "ipvsadm -Sn", "ip route show table all proto 84", "ip -6 route show table all proto 84",
	}
}

// Everything lists the commands that show what a backend may have touched.
func Everything() []string {
	return append(Rules(), "ip -o addr", "ip -o link", "ip route show table all", "ip -6 route show table all", "ip rule", "ip -6 rule")
}

// Dump runs commands in the host's namespace. What differs between equal states
// is left out of their lines: counters, orders that mean nothing, what the kernel
// remembers of clients.
func (h *Host) Dump(commands []string) Dump {
	d := Dump{}
	h.Do(func() {
		for _, c := range commands {
			words := strings.Fields(c)
			if _, err := exec.LookPath(words[0]); err != nil {
				continue
			}
			out, _ := exec.Command(words[0], words[1:]...).Output() // a kernel without the part: no lines
			d[c] = canonical(c, string(out))
		}
	})
	return d
}

// canonical drops what differs between equal states: counters, the order of
// chains and set members, timers of sets, whether a link has carried anything
// yet, IPVS destinations that only end what they still have (weight 0), and
// virtual servers that have no others.
func canonical(command, out string) []string {
	if strings.HasPrefix(command, "nft list table ") {
		return canonicalNft(out)
	}
	if strings.HasPrefix(command, "ipvsadm ") {
		out = withoutDrained(out)
	}
	counters := regexp.MustCompile(`\[\d+:\d+\]| expires \d+\w*| timeout \d+| state (UP|UNKNOWN)`)
	var kept []string
	table := ""
	for line := range strings.Lines(out) {
		remembered := strings.HasPrefix(line, "add ") && strings.Contains(line, " timeout ") // a client, in a set
		line = strings.TrimSpace(counters.ReplaceAllString(line, ""))
		switch {
		case remembered:
			continue
		case line == "", line == "COMMIT", strings.HasPrefix(line, "#"), strings.HasSuffix(line, " -w 0"):
			continue
		case strings.HasPrefix(command, "ip ") && strings.Contains(line, "fe80::"):
			continue // links give themselves these addresses, a moment after they are up
		case strings.HasPrefix(line, "*"):
			table = line
			continue
		case strings.HasPrefix(line, ":") && strings.HasSuffix(line, " ACCEPT"):
			continue // a base chain: some engines show it once it was asked for
		}
		kept = append(kept, strings.TrimSpace(table+" "+line))
	}
	if strings.Contains(command, "tables") {
		slices.SortStableFunc(kept, func(a, b string) int { return strings.Compare(chainOf(a), chainOf(b)) })
		return kept
	}
	slices.Sort(kept)
	return kept
}

// withoutDrained drops the virtual servers all of whose destinations have weight 0,
// if there are any. Destinations stand behind their virtual server.
func withoutDrained(out string) string {
	var kept []string
	lines := strings.Split(out, "\n")
	for i := 0; i < len(lines); {
		next, live := i+1, 0
		for ; next < len(lines) && strings.HasPrefix(lines[next], "-a "); next++ {
			if !strings.HasSuffix(strings.TrimSpace(lines[next]), " -w 0") {
				live++
			}
		}
		if live > 0 || next == i+1 {
			kept = append(kept, lines[i:next]...)
		}
		i = next
	}
	return strings.Join(kept, "\n")
}

// canonicalNft writes of each line what it stands in: rules with their number,
// elements without the number of their row, which is any of those that a
// frontend has. What the kernel remembers of clients is no rule.
func canonicalNft(out string) []string {
	row := regexp.MustCompile(`( \. \d+) \. \d+ : `)
	var kept []string
	object, at := "", 0
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		inChain := strings.HasPrefix(object, "chain")
		switch {
		case strings.HasSuffix(line, " {"):
			object, at = line, 0
		case line == "", line == "}", strings.Contains(line, " expires "):
		case inChain:
			at++
			kept = append(kept, fmt.Sprint(object, at, " ", line))
		default:
			line = strings.TrimPrefix(line, "elements = { ")
			line = strings.TrimSuffix(strings.TrimSuffix(line, " }"), ",")
			for e := range strings.SplitSeq(line, ", ") {
				kept = append(kept, object+" "+row.ReplaceAllString(e, "$1 : "))
			}
		}
		if strings.HasSuffix(line, " {") {
			kept = append(kept, line)
		}
	}
	slices.Sort(kept)
	return kept
}

// chainOf returns table, kind of line and chain: rules of one chain keep their
// order.
func chainOf(line string) string {
	words := strings.Fields(line)
	return strings.Join(words[:min(3, len(words))], " ")
}

// Differences lists the lines that only one of two dumps has, "-" for a, "+"
// for b, and chains whose rules have another order.
func Differences(a, b Dump) string {
	var out strings.Builder
	for _, c := range Everything() {
		if slices.Equal(a[c], b[c]) {
			continue
		}
		fmt.Fprintf(&out, "%s:\n", c)
		n := out.Len()
		for _, line := range a[c] {
			if !slices.Contains(b[c], line) {
				fmt.Fprintf(&out, "  - %s\n", line)
			}
		}
		for _, line := range b[c] {
			if !slices.Contains(a[c], line) {
				fmt.Fprintf(&out, "  + %s\n", line)
			}
		}
		if out.Len() == n {
			out.WriteString("  the same lines in another order\n")
		}
	}
	return out.String()
}
