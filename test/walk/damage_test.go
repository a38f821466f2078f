package walk

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toyproxy/toyproxy/test/lab"
)

// damage does to the node's kernel what no plan of ours does, with the tools that
// an administrator has, and says what: a chain of ours is emptied, or a table,
// or a virtual server is deleted.
func (w *walker) damage() string {
	var choices []string
	dump := w.Node.Dump(lab.Rules())
	for _, tool := range lab.Rules() {
		for _, line := range dump[tool] {
			if c := breaking(tool, strings.Fields(line)); c != "" && !slices.Contains(choices, c) {
				choices = append(choices, c)
			}
		}
	}
	if len(choices) == 0 {
		return "nothing to damage"
	}
	command := one(w.dice, choices...)
	if out, err := w.Node.Try(strings.Fields(command)...); err != nil {
		return fmt.Sprintf("%s, in vain: %s", command, out)
	}
	return command
}

// breaking returns a command that destroys what a line of a dump shows; empty for
// lines of which something else is destroyed.
func breaking(tool string, words []string) string {
	ours := len(words) > 1 && strings.HasPrefix(strings.TrimPrefix(words[1], ":"), "TOY-")
	switch family := strings.Fields(tool); {
	case strings.HasSuffix(tool, "-save") && ours && words[1][0] == ':':
		return strings.Join([]string{strings.TrimSuffix(tool, "-save"), "-w", "-t", words[0][1:], "-F", words[1][1:]}, " ")
	case strings.HasPrefix(tool, "nft") && words[0] == "chain":
		return strings.Join([]string{"nft flush chain", family[3], "toyproxy", words[1]}, " ")
	case strings.HasPrefix(tool, "nft") && words[0] == "table":
		return strings.Join([]string{"nft delete table", family[3], "toyproxy"}, " ")
	case strings.HasPrefix(tool, "ipvsadm") && words[0] == "-A":
		return strings.Join([]string{"ipvsadm -D", words[1], words[2]}, " ")
	}
	return ""
}
