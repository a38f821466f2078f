package conformance

import (
	"maps"
	"slices"
	"strings"

	"github.com/toyproxy/toyproxy/test/lab"
)

// dump is what the kernel of one namespace holds.
type dump = lab.Dump

func dumpOf(h *lab.Host, commands []string) dump { return h.Dump(commands) }

// rulesOf lists the commands that show what backends make, everythingOf those
// that show what a backend may have touched.
func rulesOf() []string      { return lab.Rules() }
func everythingOf() []string { return lab.Everything() }

func differences(a, b dump) string { return lab.Differences(a, b) }

// withoutMarks leaves out whose the virtual servers of marks are: IPVS remembers
// that as long as one of them drains, and lists the servers themselves.
func withoutMarks(d dump) dump {
	out := maps.Clone(d)
	out["ipset save"] = slices.DeleteFunc(slices.Clone(d["ipset save"]), func(line string) bool {
		return strings.Contains(line, " TOY-MARK-4 ") || strings.Contains(line, " TOY-MARK-6 ")
	})
	return out
}
