package xtables

import "fmt"

// InSet returns the match of packets whose source is in an ipset.
func InSet(name string) string { return "-m set --match-set " + name + " src" }

// EnterSet returns the target that enters the source of a packet into an ipset
// for so many seconds, whether it is in already or not. The packet goes on.
func EnterSet(name string, seconds uint32) string {
	return fmt.Sprintf("-j SET --add-set %s src --exist --timeout %d", name, seconds)
}
