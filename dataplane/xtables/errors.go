package xtables

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
)

// ErrNotExist is wrapped by errors that mean: no such chain, rule or table. The
// engines say it in different words and with different exit codes.
var ErrNotExist = errors.New("does not exist")

// RestoreError reports that iptables-restore refused its input.
type RestoreError struct {
	// Program is the tool: "iptables-nft-restore".
	Program string
	// Line is the line of the input that the tool names, from 1; 0 when it
	// names none. The legacy engine names the COMMIT line when it is the kernel
	// that refuses, whichever rule was meant.
	Line int
	// Chain, For and Rule say what stands on that line; empty when unknown.
	Chain, For, Rule string
	// Output is what the tool printed, on one line.
	Output string
}

// Error names chain, Service and rule as far as they are known.
func (e *RestoreError) Error() string {
	var b strings.Builder
	b.WriteString(e.Program + " refused")
	if e.Chain == "" {
		b.WriteString(" the rules")
	} else {
		b.WriteString(" chain " + e.Chain)
	}
	if e.For != "" {
		b.WriteString(" for " + e.For)
	}
	if e.Rule != "" {
		fmt.Fprintf(&b, " at %q", e.Rule)
	}
	return b.String() + ": " + e.Output
}

// Is makes errors.Is(err, ErrNotExist) hold when a rule led to a missing chain.
func (e *RestoreError) Is(target error) bool {
	return target == ErrNotExist && saysNotExist(e.Output)
}

// LockError reports that another program kept the lock that all iptables
// programs of the legacy engine share.
type LockError struct {
	// Path is the lock file, Holder the program that holds it and its process
	// number, as far as they can be known.
	Path, Holder string
	// Waited is how long the lock was waited for.
	Waited time.Duration
}

// Error says who holds the lock.
func (e *LockError) Error() string {
	holder := e.Holder
	if holder == "" {
		holder = "a process that cannot be seen from here"
	}
	return fmt.Sprintf("xtables lock %s: held by %s, waited %s; nothing was changed, try again when it has ended",
		e.Path, holder, e.Waited.Round(time.Second))
}

// failingLine finds the line number in "line 26: RULE_APPEND failed",
// "iptables-restore: line 27 failed" and "Error occurred at line: 4".
func failingLine(output string) int {
	m := regexp.MustCompile(`line:? (\d+)`).FindStringSubmatch(output)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// saysNotExist knows the sentences by which either engine, over all versions,
// says that a chain, rule or target is not there.
func saysNotExist(output string) bool {
	for _, s := range []string{
		"does a matching rule exist in that chain?",
		"No chain/target/match by that name",
		"No such file or directory",
		"does not exist",
		// iptables-nft -S CHAIN for a chain that is not there.
		"is incompatible, use 'nft' tool",
	} {
		if strings.Contains(output, s) {
			return true
		}
	}
	return false
}

// saysLocked reports whether the tool gave up waiting for the lock.
func saysLocked(output string) bool { return strings.Contains(output, "xtables lock") }

// unsupported turns the sentences by which a tool says that the kernel lacks
// the engine into a *dataplane.Unsupported; nil for any other output.
func unsupported(e Engine, f dataplane.Family, output string) error {
	for _, s := range []string{
		"Failed to initialize nft", "Could not fetch rule set generation id",
		"Protocol not supported", "Operation not supported", "Address family not supported",
		"can't initialize iptables table", "can't initialize ip6tables table", "unable to initialize table",
	} {
		if strings.Contains(output, s) {
			return lacking(e, f, oneLine(output))
		}
	}
	return nil
}

// lacking is the error for a kernel without the engine.
func lacking(e Engine, f dataplane.Family, detail string) *dataplane.Unsupported {
	parts := map[Engine]string{
		NFT:    "nf_tables with nft_compat (modules nf_tables, nft_compat, nft_chain_nat)",
		Legacy: "x_tables (modules ip_tables, iptable_nat, iptable_filter and those of IPv6)",
		Auto:   "nf_tables and x_tables alike (modules nf_tables with nft_compat, or ip_tables with iptable_nat)",
	}
	u := &dataplane.Unsupported{
		Feature: fmt.Sprintf("iptables NAT for %s (engine %s)", f, e),
		Missing: parts[e],
		Mend:    "load the modules, or boot a kernel that has them",
	}
	if detail != "" {
		u.Missing += ", the tool says: " + detail
	}
	return u
}

// oneLine joins the lines of a tool's output.
func oneLine(s string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(s, "\n", " ")), " ")
}
