package nftables

import (
	"fmt"
	"strings"

	"github.com/toyproxy/toyproxy/dataplane"
)

// tableComment is the comment of our tables.
const tableComment = "made by toyproxy; changes are lost"

// replacement writes a layout for nft -f, in place of what is there: nft 1.0.6
// cannot add to a table of ours, because it takes the address and port that a
// map leads to for two protocols at once when it has read the map from the
// kernel. Naming the table first lets the deletion succeed when there is none.
func (l layout) replacement() string {
	name := fmt.Sprintf("table %s %s\n", ipText(l.family), tableName)
	return name + "delete " + name + l.text()
}

// text writes a layout as nft does.
func (l layout) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "table %s %s {\n\tcomment %q\n", ipText(l.family), tableName, tableComment)
	for i, s := range l.sets {
		if i > 0 {
			b.WriteByte('\n')
		}
		l.writeSet(&b, s)
	}
	for _, c := range l.chains {
		b.WriteByte('\n')
		l.writeChain(&b, c)
	}
	b.WriteString("}\n")
	return b.String()
}

func (l layout) writeSet(b *strings.Builder, s set) {
	word := "set"
	if s.kind.isMap() {
		word = "map"
	}
	fmt.Fprintf(b, "\t%s %s {\n\t\t%s\n", word, s.name, typeText(l.family, s.kind))
	switch s.kind {
	case clients:
		fmt.Fprintf(b, "\t\tsize %d\n\t\tflags dynamic,timeout\n", clientsSize)
	case ranges:
		b.WriteString("\t\tflags interval\n")
	}
	if s.comment != "" {
		fmt.Fprintf(b, "\t\tcomment \"%s\"\n", s.comment)
	}
	start := "\t\telements = { "
	for e := range s.all() {
		b.WriteString(start + elementText(l.family, s.kind, e))
		start = ",\n\t\t\t     "
	}
	if s.len() > 0 {
		b.WriteString(" }\n")
	}
	b.WriteString("\t}\n")
}

// typeText declares what the elements of a kind are.
func typeText(f dataplane.Family, k kind) string {
	address := "ipv4_addr"
	if f == dataplane.IPv6 {
		address = "ipv6_addr"
	}
	row := fmt.Sprintf("typeof %s . numgen random mod %d : ", fieldsText(f, frontendFields), rowSpan)
	switch k {
	case addresses, clients:
		return "type " + address
	case pairs:
		return "type " + address + " . " + address
	case ranges:
		return "type " + address + " . inet_proto . inet_service . " + address
	case endpointRows:
		return row + fieldsText(f, []field{destination, port})
	case chainRows:
		return row + "verdict"
	case frontendChains:
		return "type " + address + " . inet_proto . inet_service : verdict"
	}
	return "type " + address + " . inet_proto . inet_service"
}

// elementText writes an element.
func elementText(f dataplane.Family, k kind, e element) string {
	out := keyText(f, k, e)
	switch {
	case k == endpointRows:
		to := reader{f, e.to}
		out += fmt.Sprintf(" : %s . %d", to.address(), to.port())
	case k.toChain():
		out += " : goto " + e.to
	}
	if e.comment != "" {
		out = fmt.Sprintf("%s comment \"%s\"", out, e.comment)
	}
	return out
}

func keyText(f dataplane.Family, k kind, e element) string {
	r := reader{f, e.key}
	switch k {
	case addresses, clients:
		return r.address().String()
	case pairs:
		return fmt.Sprintf("%s . %s", r.address(), r.address())
	}
	out := fmt.Sprintf("%s . %s . %d", r.address(), protocolText(r.protocol()), r.port())
	switch k {
	case endpointRows, chainRows:
		out += fmt.Sprintf(" . %d", r.number())
	case ranges:
		out += " . " + rangeText(f, r.address(), e.end)
	}
	return out
}

// protocolText is the name of a protocol, or its number if it is no protocol of
// a Service: then somebody else has put it there.
func protocolText(p dataplane.Protocol) string {
	switch p {
	case dataplane.TCP, dataplane.UDP, dataplane.SCTP:
		return p.String()
	}
	return fmt.Sprint(uint8(p))
}

func (l layout) writeChain(b *strings.Builder, c chain) {
	fmt.Fprintf(b, "\tchain %s {\n", c.name)
	if c.comment != "" {
		fmt.Fprintf(b, "\t\tcomment \"%s\"\n", c.comment)
	}
	if c.isBase() {
		fmt.Fprintf(b, "\t\ttype %s hook %s priority %s; policy accept;\n", c.hook.kind, c.hook.name, c.hook.order)
	}
	for _, r := range c.rules {
		fmt.Fprintf(b, "\t\t%s\n", r.text(l.family))
	}
	b.WriteString("\t}\n")
}

// text writes a rule. That a protocol is tested is left out where the statement
// behind it says so itself.
func (r rule) text(f dataplane.Family) string {
	var parts []string
	for i, s := range r {
		if s == isProtocol(dataplane.TCP) && i+1 < len(r) && r[i+1] == (reset{}) {
			continue
		}
		parts = append(parts, s.text(f))
	}
	return strings.Join(parts, " ")
}
