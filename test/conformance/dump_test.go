package conformance

import "github.com/toyproxy/toyproxy/test/lab"

// dump is what the kernel of one namespace holds.
type dump = lab.Dump

func dumpOf(h *lab.Host, commands []string) dump { return h.Dump(commands) }

// rulesOf lists the commands that show what backends make, everythingOf those
// that show what a backend may have touched.
func rulesOf() []string      { return lab.Rules() }
func everythingOf() []string { return lab.Everything() }

func differences(a, b dump) string { return lab.Differences(a, b) }
