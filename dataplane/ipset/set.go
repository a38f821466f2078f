package ipset

import (
	"fmt"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
)

const (
	// Capacity is about how many clients a set remembers. A row of its hash takes
	// twelve clients, and a client whose row is full is not remembered: of 8,000
	// that happens to 2, of 16,000 to one in fifteen.
	Capacity = 4 * rows
	// MaxTimeout is the longest timeout that the kernel takes, about 24 days.
	MaxTimeout = 2147483 * time.Second

	// setType is the kernel's name for sets of single addresses.
	setType = "hash:ip"
	// rows is the number of rows of the hash, of 8 bytes each. It is for ever:
	// the kernel enlarges a hash only when a program enters a client, never when a
	// rule does.
	rows = 2048
)

// Set is a set of clients, each of which is forgotten some time after a rule has
// last entered it.
type Set struct {
	// Name has at most 31 bytes.
	Name   string
	Family dataplane.Family
	// Timeout is that of clients whose rule gives none. Rules are to give the
	// same, so that the time that a client has left tells when it was last seen.
	// Whole seconds, from 1 s to MaxTimeout.
	Timeout time.Duration
	// For is the Service, for people.
	For string
}

// seconds returns the timeout in the kernel's unit.
func (s Set) seconds() uint32 { return uint32(s.Timeout / time.Second) }

// Line returns the line with which "ipset restore -exist" makes the set.
func (s Set) Line() string {
	family := "inet"
	if s.Family == dataplane.IPv6 {
		family = "inet6"
	}
	return fmt.Sprintf("create %s %s family %s hashsize %d timeout %d", s.Name, setType, family, rows, s.seconds())
}

// spareEnd ends the name of the set that takes the place of another.
const spareEnd = "-NEXT"

// spare returns the set that is filled to take the place of s.
func (s Set) spare() Set {
	s.Name += spareEnd
	return s
}

// held is a set as the kernel has it.
type held struct {
	name, typeName string
	family         dataplane.Family
	// seconds is the timeout; zero when clients are never forgotten.
	seconds uint32
}

// fits reports whether the set is of the kind that this package makes.
func (h held) fits(s Set) bool { return h.typeName == setType && h.family == s.Family }

// asHeld is how the kernel shows a set.
func (s Set) asHeld() held { return held{s.Name, setType, s.Family, s.seconds()} }
