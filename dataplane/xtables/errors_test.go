package xtables

import (
	"errors"
	"strings"
	"testing"

	"github.com/toyproxy/toyproxy/dataplane"
)

// TestToolSays proves that what the tools print is understood, for the wordings
// of both engines.
func TestToolSays(t *testing.T) {
	for _, tc := range []struct {
		output              string
		line                int
		lacking, gone, held bool
	}{
		{"iptables-nft-restore v1.8.9 (nf_tables): \nline 26: RULE_APPEND failed (Invalid argument): rule in chain POSTROUTING", 26, false, false, false},
		{"iptables-restore: line 27 failed", 27, false, false, false},
		{"iptables-restore v1.8.9 (legacy): Invalid chain name\nError occurred at line: 4\nTry `iptables-restore -h'", 4, false, false, false},
		{"iptables-nft-restore v1.8.9 (nf_tables): \nline 2: TABLE_ADD failed (Operation not supported): table nat", 2, true, false, false},
		{"iptables-restore v1.8.9 (legacy): iptables-restore: unable to initialize table 'nat'", 0, true, false, false},
		{"iptables v1.8.9 (legacy): can't initialize iptables table `nat': Table does not exist (do you need to insmod?)", 0, true, true, false},
		{"iptables/1.8.9 Failed to initialize nft: Protocol not supported", 0, true, false, false},
		{"iptables: No chain/target/match by that name.", 0, false, true, false},
		{"iptables: Bad rule (does a matching rule exist in that chain?).", 0, false, true, false},
		{"iptables v1.8.9 (nf_tables): chain `TOY-X' in table `nat' is incompatible, use 'nft' tool.", 0, false, true, false},
		{"Another app is currently holding the xtables lock. Stopped waiting after 1s.", 0, false, false, true},
	} {
		lacks := unsupported(NFT, dataplane.IPv4, tc.output)
		if n := failingLine(tc.output); n != tc.line || (lacks != nil) != tc.lacking || saysLocked(tc.output) != tc.held || !tc.lacking && saysNotExist(tc.output) != tc.gone {
			t.Errorf("%q: line %d, lacking %v, gone %v, held %v", tc.output, n, lacks, saysNotExist(tc.output), saysLocked(tc.output))
		}
		if lacks != nil && !errors.Is(lacks, dataplane.ErrUnsupported) {
			t.Errorf("%v is not ErrUnsupported", lacks)
		}
	}
}

// TestMessages proves that errors say what, why, and how to mend.
func TestMessages(t *testing.T) {
	refused := &RestoreError{Program: "iptables-nft-restore", Chain: "TOY-SVC-AAAAAAAAAAAAAAAA", For: "default/a", Rule: "-A TOY-SVC-AAAAAAAAAAAAAAAA -p x", Output: "unknown protocol"}
	if got, want := refused.Error(), `iptables-nft-restore refused chain TOY-SVC-AAAAAAAAAAAAAAAA for default/a at "-A TOY-SVC-AAAAAAAAAAAAAAAA -p x": unknown protocol`; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if got := (&LockError{Path: "/run/xtables.lock"}).Error(); !strings.Contains(got, "cannot be seen from here") || !strings.Contains(got, "try again") {
		t.Error(got)
	}
	if got := lacking(Auto, dataplane.IPv4, "").Error(); !strings.Contains(got, "nf_tables") || !strings.Contains(got, "iptable_nat") {
		t.Error(got)
	}
}
