package ipvs

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/toyproxy/toyproxy/dataplane"
)

// text collects the parts of a rendering.
type text struct{ strings.Builder }

// part begins a part with the comment line that names its tool.
func (b *text) part(tool string) {
	if b.Len() > 0 {
		b.WriteByte('\n')
	}
	b.line("# " + tool)
}

func (b *text) line(s string) { b.WriteString(s + "\n") }

// Render returns the desired state as the input of tools, in the order in which
// they have to be run. Each part begins with a comment line that is the
// command to load it with. The source address of local routes is left to the
// kernel, because only a node has one.
func (b *Backend) Render(table dataplane.Table) (string, error) {
	var out text
	want := b.targets(table, []familyState{{family: dataplane.IPv4}, {family: dataplane.IPv6}})
	want = slices.DeleteFunc(want, func(t target) bool { return !t.wanted() })
	for _, t := range want {
		for _, l := range t.leftOut {
			// A name that breaks the line would become a command.
			out.line(strings.Map(printable, fmt.Sprintf("# left out: %s of %s: %s", l.object, l.service, l.reason)))
		}
	}
	out.part("sysctl -p -")
	for _, s := range settings(release{major: newest}) {
		out.line(s.Key + " = " + s.Want)
	}
	out.part("ipset restore -exist")
	for _, t := range want {
		t.renderSets(&out)
	}
	for _, t := range want {
		out.part(restoreCommand(t.family))
		out.WriteString(t.rules.Text())
	}
	out.part("ipvsadm -R")
	for _, t := range want {
		t.renderServers(&out)
	}
	out.part("ip -batch -")
	for _, t := range want {
		t.renderRoutes(&out)
	}
	for _, t := range want {
		if t.has(brought) {
			t.renderInbound(&out)
		}
	}
	return out.String(), nil
}

// newest stands for the kernel's version when no kernel is at hand.
const newest = 1 << 16

func restoreCommand(f dataplane.Family) string {
	if f == dataplane.IPv6 {
		return "ip6tables-restore --noflush"
	}
	return "iptables-restore --noflush"
}

func (t target) renderSets(out *text) {
	for k := range setKinds {
		if !t.has(k) {
			continue
		}
		id := setID{k, t.family}
		out.line(createLine(id.String(), id, capacity(len(t.sets[k]))))
		for _, e := range slices.SortedFunc(maps.Keys(t.sets[k]), entry.compare) {
			out.line(fmt.Sprintf("add %s %s", id, e))
		}
	}
}

func (t target) renderServers(out *text) {
	for _, v := range t.servers {
		out.line(v.line("A"))
		for _, r := range v.real {
			out.line(r.line("a", v))
		}
	}
}

func (t target) renderRoutes(out *text) {
	for _, e := range slices.SortedFunc(maps.Keys(t.sets[addresses]), entry.compare) {
		out.line("route replace " + routeLine(e.addr, netip.Addr{}))
	}
}

func (t target) renderInbound(out *text) {
	tool := "ip -batch -"
	if t.family == dataplane.IPv6 {
		tool = "ip -6 -batch -"
	}
	out.part(tool)
	for _, e := range slices.SortedFunc(maps.Keys(t.sets[arrivals]), entry.compare) {
		out.line("route replace " + inboundLine(e.addr))
	}
	for _, p := range t.policies() {
		out.line("rule add " + p.line())
	}
}

// printable replaces what would end a line.
func printable(r rune) rune {
	if r < ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 {
		return '_'
	}
	return r
}
