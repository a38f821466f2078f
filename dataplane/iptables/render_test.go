package iptables

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
	"github.com/toyproxy/toyproxy/test/lab"
	"github.com/toyproxy/toyproxy/test/tables"
)

// TestRender shows all rules of one Service with two endpoints.
func TestRender(t *testing.T) {
	table := dataplane.Table{Node: tables.Node()}
	tables.ClusterIP(&table, "default/web:http", "10.96.0.10:80", dataplane.TCP, "10.244.0.11:8080", "10.244.0.12:8080")
	text, err := New(Config{}).Render(table)
	if err != nil {
		t.Fatal(err)
	}
	nat := text[strings.Index(text, "*nat"):]
	var rules []string
	for line := range strings.Lines(nat) {
		if line[0] == '-' {
			rules = append(rules, strings.TrimSuffix(line, "\n"))
		}
	}
	want := []string{
		"-A TOY-MARK-MASQ -j MARK --set-xmark 0x4000/0xc000",
		"-A TOY-REFUSE -j MARK --set-xmark 0xc000/0xc000",
		"-A TOY-REFUSE -j ACCEPT",
		"-A TOY-DROP -j MARK --set-xmark 0x8000/0xc000",
		"-A TOY-DROP -j ACCEPT",
		`-A TOY-SVC-CKAXWKG5LS3GTNNA -p tcp -m comment --comment "default/web:http" -m statistic --mode random --probability 0.50000000000 -j DNAT --to-destination 10.244.0.11:8080`,
		"-A TOY-SVC-CKAXWKG5LS3GTNNA -p tcp -j DNAT --to-destination 10.244.0.12:8080",
		"-A TOY-HAIRPIN -s 10.244.0.11/32 -d 10.244.0.11/32 -j MASQUERADE --random-fully",
		"-A TOY-HAIRPIN -s 10.244.0.12/32 -d 10.244.0.12/32 -j MASQUERADE --random-fully",
		"-A TOY-MASQUERADE -j MARK --set-xmark 0x0/0xc000",
		"-A TOY-MASQUERADE -j MASQUERADE --random-fully",
		"-A TOY-POSTROUTING -m mark --mark 0x4000/0xc000 -g TOY-MASQUERADE",
		"-A TOY-POSTROUTING -m conntrack --ctstate DNAT -j TOY-HAIRPIN",
		"-A TOY-SERVICES ! -s 10.244.0.0/16 -d 10.96.0.0/12 -j TOY-MARK-MASQ",
		"-A TOY-SERVICES -d 10.96.0.10/32 -p tcp -m tcp --dport 80 -j TOY-SVC-CKAXWKG5LS3GTNNA",
		"-A TOY-SERVICES -d 10.96.0.10/32 -j TOY-REFUSE",
		"-A TOY-SERVICES -d 10.96.0.0/12 -j TOY-DROP",
		`-I PREROUTING 1 -m comment --comment "toyproxy: frontends" -j TOY-SERVICES`,
		`-I OUTPUT 1 -m comment --comment "toyproxy: frontends" -j TOY-SERVICES`,
		`-I POSTROUTING 1 -m comment --comment "toyproxy: source rewriting" -j TOY-POSTROUTING`,
	}
	if diff := cmp.Diff(want, rules); diff != "" {
		t.Error(diff)
	}
}

// TestRenderFamilies proves that a table of IPv4 alone renders to what
// iptables-restore takes as it is, and that two families are told apart.
func TestRenderFamilies(t *testing.T) {
	for _, tc := range []struct {
		name  string
		table dataplane.Table
		want  []string
	}{
		{"no frontend", dataplane.Table{Node: tables.Node()}, nil},
		{"IPv4", tables.Many(3, 1), []string{"# iptables-restore --noflush\n"}},
		{"both", tables.Small(), []string{"# iptables-restore --noflush\n", "# ip6tables-restore --noflush\n"}},
	} {
		text, err := New(Config{}).Render(tc.table)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range strings.Lines(text) {
			if line[0] == '#' {
				got = append(got, line)
			}
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s", tc.name, diff)
		}
	}
}

// TestRenderLoads proves that the rendered text loads with the tools that it
// names and leaves nothing for a plan to do.
func TestRenderLoads(t *testing.T) {
	eachEngine(t, func(t *testing.T, e xtables.Engine) {
		l := lab.New(t, lab.WithPods(0))
		text, err := New(Config{}).Render(tables.EveryShape())
		if err != nil {
			t.Fatal(err)
		}
		l.Node.Do(func() {
			load(t, e, text)
			for _, c := range plan(t, New(Config{Engine: e}), tables.EveryShape()).Changes() {
				t.Errorf("still to do: %s", c)
			}
		})
	})
}

// load hands each part of a rendering to the tool that its first line names.
func load(t *testing.T, e xtables.Engine, text string) {
	t.Helper()
	for _, part := range strings.Split(text, "# ")[1:] {
		command, input, _ := strings.Cut(part, "\n")
		if tool, ok := strings.CutPrefix(command, "iptables-"); ok {
			command = "iptables-" + e.String() + "-" + tool
		}
		if tool, ok := strings.CutPrefix(command, "ip6tables-"); ok {
			command = "ip6tables-" + e.String() + "-" + tool
		}
		args := strings.Fields(command)
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Stdin = strings.NewReader(input)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
}

// TestIPv6SwitchedOff proves that a node without IPv6 addresses is programmed
// like any other.
func TestIPv6SwitchedOff(t *testing.T) {
	eachEngine(t, func(t *testing.T, e xtables.Engine) {
		l := lab.New(t, lab.WithPods(0))
		l.Node.Sysctl("net.ipv6.conf.all.disable_ipv6", "1")
		l.Node.Do(func() { converge(t, New(Config{Engine: e}), tables.Small()) })
	})
}
