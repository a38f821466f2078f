package nftables

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/lab"
	"github.com/toyproxy/toyproxy/test/tables"
)

// listed is what nft prints of our tables, line by line, elements in the order
// of their text: nft has one of its own.
func listed(t *testing.T, h *lab.Host) []string {
	t.Helper()
	out := ""
	for _, f := range []string{"ip", "ip6"} {
		text, err := h.Try("nft", "list", "table", f, tableName)
		if err != nil && !strings.Contains(text, "No such file") {
			t.Fatalf("nft list: %v: %s", err, text)
		}
		if err == nil {
			out += text
		}
	}
	return sortedText(out)
}

// sortedText brings text of nft into lines that can be compared.
func sortedText(text string) []string {
	var out []string
	var elements []string
	inside := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "elements = {") {
			inside = true
			line = strings.TrimPrefix(line, "elements = {")
		}
		switch {
		case inside:
			for e := range strings.SplitSeq(strings.TrimSuffix(line, "}"), ", ") {
				elements = append(elements, "element "+strings.Trim(e, " ,"))
			}
			if strings.HasSuffix(line, "}") {
				slices.Sort(elements)
				out, elements, inside = append(out, elements...), nil, false
			}
		case strings.HasPrefix(line, "delete table"), strings.HasPrefix(line, "table") && !strings.HasSuffix(line, "{"):
		case line != "" && line[0] != '#':
			out = append(out, line)
		}
	}
	return out
}

// loadText gives text to nft -f in the host's namespace.
func loadText(t *testing.T, h *lab.Host, text string, args ...string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.nft")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	h.Run(append([]string{"nft"}, append(args, "-f", file)...)...)
}

// TestRenderIsWhatTheKernelHolds proves that the rendered text is what nft
// prints after Apply, that nft loads it and leaves nothing for a plan to do, and
// that what nft prints can be loaded again.
func TestRenderIsWhatTheKernelHolds(t *testing.T) {
	for name, table := range map[string]dataplane.Table{"every shape": tables.EveryShape(), "hostile": hostile(), "small": tables.Small(), "links": links("br0", "cali+"), "any link": links("+")} {
		t.Run(name, func(t *testing.T) {
			b := New(Config{})
			text, err := b.Render(table)
			if err != nil {
				t.Fatal(err)
			}
			l := newLab(t, lab.WithPods(0))
			loadText(t, l.Node, text, "-c")
			l.Node.Do(func() { tables.Converge(t, b, table) })
			loadText(t, l.Node, text, "-c") // over what is there already
			if diff := cmp.Diff(sortedText(text), listed(t, l.Node)); diff != "" {
				t.Errorf("rendered (-), in the kernel (+):\n%s", diff)
			}
			again := ""
			for _, f := range []string{"ip", "ip6"} {
				again += l.Node.Run("nft", "list", "table", f, tableName)
			}
			for _, from := range []string{text, again} {
				l.Node.Run("nft", "flush", "ruleset")
				loadText(t, l.Node, from)
				l.Node.Do(func() {
					for _, c := range tables.PlanOf(t, b, table).Changes() {
						t.Errorf("after nft -f still to do: %s %q", c, c.Lines)
					}
				})
			}
		})
	}
}

// links is a table of a node whose Pods are told by their links, with another
// bit of the mark.
func links(names ...string) dataplane.Table {
	t := tables.EveryShape()
	t.Node.PodInterfaces, t.Node.MasqueradeMark = names, 1<<31
	return t
}

// hostile has names that would be more than names if anything took them as they
// are.
func hostile() dataplane.Table {
	t := dataplane.Table{Node: tables.Node()}
	for i, name := range []string{
		`default/x" } ; add table ip evil ; #`, "default/a\nb", `default/"`, `default/\`, "default/ä€",
		"default/" + strings.Repeat("n", 300), `-j ACCEPT`, "$x @y", "",
	} {
		tables.ClusterIP(&t, name, fmt.Sprintf("10.96.1.%d:80", i+1), dataplane.TCP, "10.244.0.11:8080", "10.244.0.12:8080")
		tables.ClusterIP(&t, name, "[fd00:10:96::"+string(rune('1'+i))+"]:80", dataplane.TCP, "[fd00:10:244::11]:8080")
	}
	for i := range t.Sets {
		if strings.Contains(t.Sets[i].Service, "evil") || strings.Contains(t.Sets[i].Service, "nnn") {
			t.Sets[i].Affinity = 90e9
		}
	}
	return t
}
