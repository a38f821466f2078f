package nftables

import (
	"encoding/binary"
	"maps"
	"math/bits"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dataplane"
)

// unknown is what the kernel has in a rule and we never write.
type unknown struct{ name string }

func (s unknown) text(dataplane.Family) string          { return "(" + s.name + ")" }
func (unknown) expressions(dataplane.Family) []expr.Any { return nil }
func (s unknown) harmless() bool                        { return s.name == "counter" || s.name == "log" }

// accept ends the way through our table: a verdict that we never write.
type accept struct{}

func (accept) text(dataplane.Family) string { return "accept" }
func (accept) expressions(dataplane.Family) []expr.Any {
	return []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}}
}

// decodeRule returns the statements of a rule as the kernel has it: the inverse
// of encodeRule. What we never write becomes unknown statements.
func decodeRule(f dataplane.Family, canonical string) rule {
	d := decoder{family: f}
	d.split(canonical)
	var out rule
	for at := 0; at < len(d.raw); {
		s, n := d.statement(at)
		out = append(out, s)
		at += n
	}
	return out
}

// decoder reads the expressions of one rule, of which raw has the bytes.
type decoder struct {
	family dataplane.Family
	names  []string
	exprs  []expr.Any
	raw    []string
}

// split takes the expressions of a rule apart: each is a name and its data.
func (d *decoder) split(canonical string) {
	attributes([]byte(canonical), func(kind uint16, data []byte) {
		switch kind {
		case unix.NFTA_EXPR_NAME:
			d.names, d.exprs, d.raw = append(d.names, cText(data)), append(d.exprs, nil), append(d.raw, "")
		case unix.NFTA_EXPR_DATA:
			last := len(d.names) - 1
			if last < 0 {
				return
			}
			if e := parseExpression(d.family, d.names[last], data); e != nil {
				raw, _ := expr.Marshal(protocolFamily(d.family), e)
				d.exprs[last], d.raw[last] = e, string(raw)
			}
		}
	})
}

// statement returns the statement that begins with an expression, and of how
// many it is made. A guess counts when it is written exactly so.
func (d *decoder) statement(at int) (statement, int) {
	for _, guess := range []func([]expr.Any) statement{d.verdict, d.single, d.numbered, d.looked, d.ranged} {
		s := guess(d.exprs[at:])
		if s == nil {
			continue
		}
		encoded, err := encodeRule(d.family, rule{s})
		if n := len(encoded); err == nil && n <= len(d.raw)-at && strings.Join(encoded, "") == strings.Join(d.raw[at:at+n], "") {
			return s, n
		}
	}
	return unknown{d.names[at]}, 1
}

// nth returns an expression of a kind at a place, or its zero value.
func nth[T any](exprs []expr.Any, i int) (out T, ok bool) {
	if i >= len(exprs) {
		return out, false
	}
	p, ok := any(exprs[i]).(*T)
	if !ok {
		return out, false
	}
	return *p, true
}

// verdict guesses what ends a rule.
func (d *decoder) verdict(exprs []expr.Any) statement {
	switch e := exprs[0].(type) {
	case *expr.Verdict:
		return map[expr.VerdictKind]statement{expr.VerdictDrop: drop{}, expr.VerdictAccept: accept{},
			expr.VerdictGoto: goTo(e.Chain), expr.VerdictJump: jump(e.Chain)}[e.Kind]
	case *expr.Masq:
		return masquerade{}
	case *expr.Reject:
		if e.Type == unix.NFT_REJECT_TCP_RST {
			return reset{}
		}
		return unreachable{}
	case *expr.Immediate:
		port, ok := nth[expr.Immediate](exprs, 1)
		addr, valid := netip.AddrFromSlice(e.Data)
		if ok && valid && len(port.Data) == 2 {
			return deliver(netip.AddrPortFrom(addr, binary.BigEndian.Uint16(port.Data)))
		}
	}
	return nil
}

// single guesses matches of one fact that is in no header, and changes of marks.
func (d *decoder) single(exprs []expr.Any) statement {
	meta, _ := nth[expr.Meta](exprs, 0)
	mask, masked := nth[expr.Bitwise](exprs, 1)
	switch _, isFib := exprs[0].(*expr.Fib); {
	case isFib:
		return fromLocal{}
	case meta.Key == expr.MetaKeyL4PROTO:
		if c, ok := nth[expr.Cmp](exprs, 1); ok && len(c.Data) == 1 {
			return isProtocol(c.Data[0])
		}
	case meta.Key == expr.MetaKeyIIFNAME:
		if c, ok := nth[expr.Cmp](exprs, 1); ok {
			return linkOf(c.Data)
		}
	case meta.Key == expr.MetaKeyMARK && masked && len(mask.Mask) == 4 && len(mask.Xor) == 4:
		if _, tests := nth[expr.Cmp](exprs, 2); tests {
			return marked(binary.NativeEndian.Uint32(mask.Mask))
		}
		if set := binary.NativeEndian.Uint32(mask.Xor); set != 0 {
			return mark(set)
		}
		return unmark(^binary.NativeEndian.Uint32(mask.Mask))
	}
	return d.tracked(exprs)
}

// tracked guesses matches of what connection tracking knows.
func (d *decoder) tracked(exprs []expr.Any) statement {
	ct, ok := nth[expr.Ct](exprs, 0)
	switch {
	case !ok:
		return nil
	case ct.Key == expr.CtKeySTATE:
		return invalid{}
	}
	return translated{}
}

// linkOf reads the name of a link, or the beginning of one.
func linkOf(data []byte) statement {
	name := strings.TrimRight(string(data), "\x00")
	if len(name) == len(data) {
		name += "+"
	}
	return fromLink(name)
}

// loads are the fields that expressions load one after the other.
func (d *decoder) loads(exprs []expr.Any) []field {
	var out []field
	for _, e := range exprs {
		fd, ok := d.field(e)
		if !ok {
			break
		}
		out = append(out, fd)
	}
	return out
}

// field says which field an expression loads.
func (d *decoder) field(e expr.Any) (field, bool) {
	if m, ok := e.(*expr.Meta); ok {
		return protocol, m.Key == expr.MetaKeyL4PROTO
	}
	p, ok := e.(*expr.Payload)
	if !ok {
		return 0, false
	}
	for _, fd := range []field{source, destination, port} {
		if known := loadOne(d.family, fd, 0).(*expr.Payload); known.Base == p.Base && known.Offset == p.Offset {
			return fd, true
		}
	}
	return 0, false
}

// numbered guesses the choice of a row.
func (d *decoder) numbered(exprs []expr.Any) statement {
	n := len(d.loads(exprs))
	gen, drawn := nth[expr.Numgen](exprs, n)
	look, ok := nth[expr.Lookup](exprs, n+1)
	if !drawn || !ok {
		return nil
	}
	lots := pick{gen.Modulus, gen.Offset}
	if _, nat := nth[expr.NAT](exprs, n+2); nat {
		return deliverBy{lots, look.SetName}
	}
	return continueBy{lots, look.SetName}
}

// looked guesses what is done with fields that have been loaded.
func (d *decoder) looked(exprs []expr.Any) statement {
	fields := d.loads(exprs)
	if look, ok := nth[expr.Lookup](exprs, len(fields)); ok {
		if look.IsDestRegSet {
			return continueAt(look.SetName)
		}
		return inSet{fields, look.SetName, look.Invert}
	}
	if dyn, ok := nth[expr.Dynset](exprs, len(fields)); ok {
		return remember{dyn.SetName, dyn.Timeout}
	}
	return nil
}

// ranged guesses the match of a range of addresses.
func (d *decoder) ranged(exprs []expr.Any) statement {
	fd, ok := d.field(exprs[0])
	if !ok || fd != source && fd != destination {
		return nil
	}
	raw := make([]byte, d.family.Bits()/8)
	c, whole := nth[expr.Cmp](exprs, 1)
	length := 8 * len(c.Data)
	if !whole {
		mask, masked := nth[expr.Bitwise](exprs, 1)
		if c, ok = nth[expr.Cmp](exprs, 2); !ok || !masked {
			return nil
		}
		length = 0
		for _, b := range mask.Mask {
			length += bits.OnesCount8(b)
		}
	}
	copy(raw, c.Data)
	a, _ := netip.AddrFromSlice(raw)
	return inRange{fd, netip.PrefixFrom(a, length)}
}

// layout is what the kernel holds, in the form in which we want it. Sets of
// shapes that we never make are left out.
func (s state) layout(f dataplane.Family) layout {
	l := layout{family: f}
	for _, name := range slices.Sorted(maps.Keys(s.sets)) {
		if k, ok := kindOf(f, s.sets[name].shape); ok {
			have := s.sets[name]
			l.sets = append(l.sets, set{name: name, kind: k, elements: have.sorted()})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.chains)) {
		have := s.chains[name]
		c := chain{name: name, comment: have.comment}
		for _, h := range []hook{atPrerouting, atInput, atForward, atOutput, atPostrouting} {
			if have.kind == h.kind && have.hook.number == h.number && have.hook.priority == h.priority {
				c.hook = h
			}
		}
		for _, r := range have.rules {
			c.rules = append(c.rules, decodeRule(f, r))
		}
		l.chains = append(l.chains, c)
	}
	return l
}

// kindOf returns the kind of the sets of a shape.
func kindOf(f dataplane.Family, have shape) (kind, bool) {
	for k := range clients + 1 {
		if shapeOf(f, k) == have {
			return k, true
		}
	}
	return 0, false
}
