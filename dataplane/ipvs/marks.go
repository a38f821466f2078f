package ipvs

import (
	"hash/fnv"
	"math/bits"

	"github.com/toyproxy/toyproxy/dataplane"
)

// A virtual server that is dialled serves everybody alike. Where sources of one
// class have to go to other endpoints, their first packets get a mark, and a
// virtual server for that mark takes them: IPVS asks for the mark first. It
// compares the whole mark, so the mark also says whether the source is to be
// rewritten, and it is taken off where the packet leaves.
//
// A mark is a tag, which tells ours from those of others, and a number. Both
// stand in the bits that dataplane.Marks leaves free.

const (
	// tag is what the highest eight of the free bits hold in every mark of ours.
	// By it the marks of others are left alone.
	tag      = routeProtocol
	tagBits  = 8
	freeBits = 30
	numbers  = 1 << (freeBits - tagBits)
	// delivery is the number of packets that are brought in; no virtual server
	// has it.
	delivery = 1
	// reserved is the first number for a set of endpoints.
	reserved = 2
)

// marking makes marks beside those of a node.
type marking struct{ dataplane.Marks }

// spread puts the lowest 30 bits of v into the free bits of a mark.
func (m marking) spread(v uint32) (out uint32) {
	for free := ^m.Mask; free != 0; free &= free - 1 {
		out |= v & 1 << bits.TrailingZeros32(free)
		v >>= 1
	}
	return out
}

// mark returns the mark with a number, for packets whose source is rewritten or
// kept.
func (m marking) mark(number uint32, masquerade bool) uint32 {
	out := m.spread(tag<<(freeBits-tagBits) | number)
	if masquerade {
		out |= m.Masquerade
	}
	return out
}

// tagged returns how a mark of ours is recognised.
func (m marking) tagged() (value, mask uint32) {
	return m.spread(tag << (freeBits - tagBits)), m.spread((1<<tagBits - 1) << (freeBits - tagBits))
}

// numberOf returns the number for a set of endpoints: always the same, its first
// choice, unless one that came before has it.
func numberOf(set string, taken map[uint32]string) (n uint32, first bool) {
	h := fnv.New32a()
	h.Write([]byte(set))
	n, first = h.Sum32()%numbers, true
	for ; n < reserved || taken[n] != "" && taken[n] != set; n = (n + 1) % numbers {
		first = first && n < reserved
	}
	taken[n] = set
	return n, first
}
