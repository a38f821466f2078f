package nftables

import (
	"strings"
	"testing"

	"github.com/toyproxy/toyproxy/test/lab"
	"github.com/toyproxy/toyproxy/test/tables"
)

// foreignKinds are tables of others with kinds of sets and objects that we do
// not make, one by one: a kernel may lack some.
var foreignKinds = []string{
	"add table inet zoo",
	"add set inet zoo typed { typeof ip saddr . tcp dport; flags interval; elements = { 10.0.0.0/8 . 1-1024 } ; }",
	"add set inet zoo aging { type ipv6_addr; flags timeout, dynamic; timeout 1h; size 1000; }",
	"add map inet zoo marks { type ipv4_addr : mark; elements = { 192.0.2.1 : 7 }; }",
	"add map inet zoo ways { type inet_service : verdict; elements = { 22 : accept }; }",
	"add set inet zoo counted { type ipv4_addr; counter; elements = { 192.0.2.9 counter packets 0 bytes 0 }; }",
	"add counter inet zoo hits",
	"add quota inet zoo limit { over 10 mbytes }",
	"add chain inet zoo here { type filter hook input priority 7; policy accept; }",
	"add rule inet zoo here ip saddr 192.0.2.9 meter flood size 128 { ip saddr limit rate over 10/second } drop",
	"add flowtable inet zoo fast { hook ingress priority 0; devices = { lo }; }",
}

// TestForeignKinds proves that whatever others keep in tables of theirs, ours
// are read, made, repaired and removed, and theirs stay (fault 56).
func TestForeignKinds(t *testing.T) {
	l := newLab(t, lab.WithPods(0))
	made := 0
	for _, statement := range foreignKinds {
		if _, err := l.Node.Try("nft", statement); err == nil {
			made++
		}
	}
	if made < len(foreignKinds)-2 {
		t.Errorf("only %d of %d foreign objects could be made", made, len(foreignKinds))
	}
	before := l.Node.Run("nft", "list ruleset")
	b := New(Config{})
	l.Node.Do(func() {
		tables.Converge(t, b, tables.EveryShape())
		tables.Converge(t, b, tables.Small())
		checkChanges(t, tables.PlanOf(t, b, tables.Small()), nil)
		p, err := b.Remove(t.Context())
		if err == nil {
			err = p.Apply(t.Context())
		}
		if err != nil {
			t.Error(err)
		}
	})
	if after := l.Node.Run("nft", "list ruleset"); after != before {
		t.Errorf("tables of others:\n%s\nwant\n%s", after, before)
	}
}

// TestRandomPorts proves that rewritten sources get a random port, which makes it
// rare that two flows want the same one at once (fault 31).
func TestRandomPorts(t *testing.T) {
	text, err := New(Config{}).Render(tables.EveryShape())
	if err != nil {
		t.Fatal(err)
	}
	n, random := strings.Count(text, "masquerade"), strings.Count(text, "masquerade fully-random")
	if n == 0 || n != random {
		t.Errorf("%d of %d masquerade statements choose ports at random", random, n)
	}
}
