package xtables

import (
	"crypto/sha256"
	"encoding/base32"
	"net/netip"
	"slices"
	"strings"
)

const (
	// Prefix begins the name of every chain of ours; see Owned.
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

// kinds are the words that Name takes.
func kinds() []string { return []string{"SVC", "SRC", "EPS", "PRT", "NET"} }

// Owned reports whether a chain of that name is ours: the prefix and one of the
// forms that backends use. Somebody else's TOY-MINE is not. A form that is no
// longer used has to stay here, or an older version's chains would stay for ever.
func Owned(name string) bool {
	rest, ok := strings.CutPrefix(name, Prefix)
	return ok && (single(rest) || hashed(rest) || ofAddress(rest))
}

// single reports whether the name is that of a chain that exists once.
func single(rest string) bool {
	switch rest {
	case "SERVICES", "NODEPORTS", "LOCAL", "POSTROUTING", "MASQUERADE", "HAIRPIN", "MARK-MASQ",
		"REFUSE", "DROP", "FILTER", "FORWARD", "UNUSED", "INVALID", "MADE-TABLE",
		"SOURCES", "OUT", "MARK-IN", "MARK-OUT", "ARRIVED":
		return true
	}
	return false
}

// hashed reports whether the name is one that Name makes.
func hashed(rest string) bool {
	kind, hash, _ := strings.Cut(rest, "-")
	return slices.Contains(kinds(), kind) && IsHash(hash)
}

// IsHash reports whether text is one that Hash may have returned.
func IsHash(text string) bool {
	return len(text) == hashLength && strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// ofAddress reports whether the name is that of an address or a range of them,
// TOY-10.96.0.0/24 or TOY-HP-fd00__1, as package iptables writes them.
func ofAddress(rest string) bool {
	text := strings.ReplaceAll(strings.TrimPrefix(rest, "HP-"), "_", ":")
	if _, err := netip.ParseAddr(text); err == nil {
		return true
	}
	_, err := netip.ParsePrefix(text)
	return err == nil
}

// jumpComment begins the comment of every jump of ours.
const jumpComment = "toyproxy: "

// JumpComment returns the comment by which a jump is known as ours, with a word
// on what it is for. A jump without it is somebody else's, wherever it leads.
func JumpComment(why string) string { return Comment(jumpComment + why) }

// ownJump reports whether a rule of a built-in chain is a jump of ours.
func ownJump(rule string) bool {
	return Owned(targetOf(rule)) && strings.Contains(rule, `-m comment --comment "`+jumpComment)
}

// Hash returns 16 characters that stand for the parts in a name. No two
// different lists of parts are joined to the same text.
func Hash(parts ...string) string {
	var room [128]byte
	text := room[:0]
	for _, p := range parts {
		text = append(append(text, p...), 0)
	}
	sum := sha256.Sum256(text)
	var out [hashLength]byte
	base32.StdEncoding.Encode(out[:], sum[:hashLength*5/8])
	return string(out[:])
}

// Name returns the chain name for something of a kind: "TOY-SVC-" and a hash.
// The kind is one of kinds.
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
