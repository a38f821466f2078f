package ipvs

import "testing"

// TestRealLine proves that of a line about a real server all counts but its numbers
// of connections.
func TestRealLine(t *testing.T) {
	for _, tc := range []struct{ text, line, weight string }{
		{"IP Virtual Server version 1.2.1 (size=4096)", "", ""},
		{"  -> RemoteAddress:Port Forward Weight ActiveConn InActConn", "", ""},
		{"TCP  0A600001:0050 rr persistent 300 FFFFFFFF", "", ""},
		{"  -> 0AF40102:1F90      Masq    1      7          12        ", "  -> 0AF40102:1F90      Masq    1 ", "1"},
		{"  -> [fd00:0010:0244:0000:0000:0000:0000:0002]:1F90      Masq    0      0          0", "  -> [fd00:0010:0244:0000:0000:0000:0000:0002]:1F90      Masq    0 ", "0"},
		{"  -> 0AF40102:1F90", "  -> 0AF40102:1F90", ""},
		{"", "", ""},
	} {
		line, weight := realLine([]byte(tc.text))
		if string(line) != tc.line || string(weight) != tc.weight {
			t.Errorf("%q: %q of weight %q, want %q of %q", tc.text, line, weight, tc.line, tc.weight)
		}
	}
}
