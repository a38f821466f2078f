package xtables

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"
)

const (
	// Prefix begins the name of every chain of ours.
	Prefix = "TOY-"
	// MaxName is the longest chain name that both engines take, in bytes.
	MaxName = 28
	// maxComment is the longest comment in bytes. The comment match takes 255;
	// other tools that show rules cut at 128.
	maxComment = 120
	// hashLength is how many base32 characters of a hash stand in a name: 80
	// bits, so that 100,000 names collide with a chance below 1 in 10^14.
	hashLength = 16
)

// Owned reports whether a chain of that name is ours.
func Owned(name string) bool { return strings.HasPrefix(name, Prefix) }

// Hash returns 16 characters that stand for the parts in a name. No two
// different lists of parts are joined to the same text.
func Hash(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return base32.StdEncoding.EncodeToString(h.Sum(nil))[:hashLength]
}

// Name returns the chain name for something of a kind: "TOY-SVC-" and a hash.
// The kind is a short upper-case word of the program, not from any input.
func Name(kind string, parts ...string) string {
	return Prefix + kind + "-" + Hash(parts...)
}

// Comment returns the match that shows text to the reader of a rule, spelled
// as iptables-save prints it. It has no effect on packets. Whatever the text
// is, the result is one harmless argument: bytes other than letters, digits and
// the punctuation of Kubernetes names become '_', and long text is cut and ends
// in a part of its hash.
func Comment(text string) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("-_./: ", r):
			return r
		}
		return '_'
	}, text)
	if len(clean) > maxComment {
		clean = clean[:maxComment-9] + "_" + Hash(text)[:8]
	}
	if plain(clean) {
		return "-m comment --comment " + clean
	}
	return `-m comment --comment "` + clean + `"`
}

// plain reports whether iptables-save prints the word without quotes.
func plain(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return strings.ContainsRune("./: ", r) })
}
