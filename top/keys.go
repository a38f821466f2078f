package top

import (
	"unicode"
	"unicode/utf8"
)

// sequences are what terminals send for keys that are no letters.
var sequences = [...]struct{ bytes, key string }{
	{"\x1b[A", "up"}, {"\x1bOA", "up"}, {"\x1b[B", "down"}, {"\x1bOB", "down"},
	{"\x1b[5~", "pgup"}, {"\x1b[6~", "pgdown"}, {"\x1b[H", "home"}, {"\x1b[1~", "home"}, {"\x1bOH", "home"},
	{"\r", "enter"}, {"\n", "enter"}, {"\x7f", "backspace"}, {"\b", "backspace"}, {"\x03", "ctrl+c"},
}

// Keys takes apart what a terminal has sent: names of keys, and letters. What it does
// not know is left out.
func Keys(sent []byte) []string {
	var out []string
	for len(sent) > 0 {
		key, n := nextKey(string(sent))
		if key != "" {
			out = append(out, key)
		}
		sent = sent[n:]
	}
	return out
}

// nextKey returns the first key, and how many bytes it has.
func nextKey(sent string) (string, int) {
	for _, s := range sequences {
		if len(sent) >= len(s.bytes) && sent[:len(s.bytes)] == s.bytes {
			return s.key, len(s.bytes)
		}
	}
	if sent[0] == '\x1b' {
		if n := sequenceLength(sent); n > 1 {
			return "", n
		}
		return "esc", 1
	}
	r, n := utf8.DecodeRuneInString(sent)
	if r == utf8.RuneError || unicode.IsControl(r) {
		return "", n
	}
	return string(r), n
}

// sequenceLength is the length of a sequence that begins with Escape; 1 if there is
// nothing more.
func sequenceLength(sent string) int {
	if len(sent) < 2 || sent[1] != '[' && sent[1] != 'O' {
		return 1
	}
	for i := 2; i < len(sent); i++ {
		if sent[i] >= '@' && sent[i] <= '~' {
			return i + 1
		}
	}
	return len(sent)
}
