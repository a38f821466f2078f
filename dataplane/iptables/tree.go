package iptables

import (
	"math/bits"
	"sort"
)

// bucket is how many entries stay a list: a shorter list costs a packet less
// than one more chain.
const bucket = 8

// tree is a path-compressed radix tree over keys of equal length. A key is a
// string of digits: one byte each, 0 to 15 for the digits of addresses and
// ports, so that a part of the tree is an aligned range that one rule matches.
//
// Its shape depends on nothing but the keys, and that of a part on nothing but
// the keys in the part: a new key changes only the parts on the way to it.
type tree struct {
	// prefix is what all keys have in common, as long as it can be.
	prefix string
	// keys are all keys, sorted.
	keys []string
	// kids are the parts, by the digit after the prefix; nil when the keys stay
	// a list. Those with more keys come first: then a key that shares its part
	// with one in k of all keys is reached in at most k rules, and the rules on
	// the whole way to any key number at most 16·log16 of the keys.
	kids []tree
}

// grow builds the tree over sorted, distinct keys. size says how many entries
// of a list a key makes.
func grow(keys []string, size func(string) int) tree {
	t := tree{keys: keys}
	if len(keys) == 0 {
		return t
	}
	t.prefix = common(keys[0], keys[len(keys)-1])
	if len(keys) == 1 || entries(keys, size) <= bucket {
		return t
	}
	at := len(t.prefix)
	for first := 0; first < len(keys); {
		end := first + 1
		for end < len(keys) && keys[end][at] == keys[first][at] {
			end++
		}
		t.kids = append(t.kids, grow(keys[first:end], size))
		first = end
	}
	// By the power of two, so that the order does not change with every key.
	sort.SliceStable(t.kids, func(i, j int) bool {
		return bits.Len(uint(len(t.kids[i].keys))) > bits.Len(uint(len(t.kids[j].keys)))
	})
	return t
}

// common returns the digits that two keys begin with. Sorted keys all share
// what the first and the last share.
func common(a, b string) string {
	n := 0
	for n < len(a) && a[n] == b[n] {
		n++
	}
	return a[:n]
}

// entries adds up the sizes of keys, and stops when it is beyond a bucket.
func entries(keys []string, size func(string) int) int {
	n := 0
	for _, k := range keys {
		if n += size(k); n > bucket {
			break
		}
	}
	return n
}

// one is the size of a key that makes one entry.
func one(string) int { return 1 }
