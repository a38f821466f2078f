package main

import (
	"maps"
	"slices"
	"strings"
)

// exercisedKey is the attribute by which a test says what it put packets
// through: t.Attr("exercised", "iptables-nft IPv4 IPv6") is a backend, with
// its engine behind a dash, and the IP families.
const exercisedKey = "exercised"

// exercise is a backend that tests passed on with real packets, in one kernel.
type exercise struct {
	backend           string
	engines, families map[string]bool
	kernel            string
}

// String is such as "iptables(nft,legacy)×(IPv4,IPv6) in this kernel 6.1.0".
func (e exercise) String() string {
	s := e.backend
	if len(e.engines) > 0 {
		s += "(" + joined(e.engines) + ")"
	}
	if len(e.families) > 0 {
		s += "×(" + joined(e.families) + ")"
	}
	return s + " in " + e.kernel
}

func joined(set map[string]bool) string { return strings.Join(slices.Sorted(maps.Keys(set)), ",") }

// exercisedIn collects what the tests of a stage that passed have exercised.
func exercisedIn(s Stage) []exercise {
	found := map[string]exercise{}
	for _, r := range s.Results {
		words := strings.Fields(r.Exercised)
		if r.Outcome != Pass || len(words) == 0 {
			continue
		}
		backend, engine, _ := strings.Cut(words[0], "-")
		e, ok := found[backend]
		if !ok {
			e = exercise{backend: backend, engines: map[string]bool{}, families: map[string]bool{}, kernel: s.Kernel}
			found[backend] = e
		}
		if engine != "" {
			e.engines[engine] = true
		}
		for _, family := range words[1:] {
			e.families[family] = true
		}
	}
	all := make([]exercise, 0, len(found))
	for _, backend := range slices.Sorted(maps.Keys(found)) {
		all = append(all, found[backend])
	}
	return all
}
