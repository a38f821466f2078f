package nftables

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dataplane"
)

// state is what the kernel holds of our table of one family.
type state struct {
	exists  bool
	comment string
	flags   uint32
	sets    map[string]setState
	chains  map[string]chainState
}

// setState is a set in the kernel.
type setState struct {
	shape shape
	size  uint32
	// count is how many elements the kernel says there are; -1: it does not say.
	count int64
	// elements by key and end; nil for sets that rules write to, and for those
	// that have rows.
	elements map[string]element
	// rows are the leads of each group, in steps of width bytes; nil for sets
	// without rows. See held for odd.
	rows  map[group][]byte
	width int
	odd   map[string]element
	// found is the number of rows.
	found int
}

// empty forgets the elements, and makes room for as many as the kernel says.
func (set *setState) empty(f dataplane.Family) {
	room := int(max(set.count, 0))
	for _, k := range []kind{endpointRows, chainRows} {
		if set.shape == shapeOf(f, k) {
			set.rows, set.width, set.odd, set.found = make(map[group][]byte, room/8), widthOf(f, k), map[string]element{}, 0
			return
		}
	}
	set.elements = make(map[string]element, room)
}

// len is the number of elements.
func (set *setState) len() int { return len(set.elements) + set.found }

// group returns the rows of a group.
func (set *setState) group(g group) held { return held{string(set.rows[g]), set.width, set.odd} }

// chainState is a chain in the kernel.
type chainState struct {
	hook    hook // without names
	kind    string
	policy  uint32
	comment string
	// rules are the expressions of each rule, in the form in which rules are
	// compared.
	rules []string
}

// attributes calls visit for each attribute in b.
func attributes(b []byte, visit func(kind uint16, data []byte)) {
	for len(b) >= 4 {
		n := int(binary.NativeEndian.Uint16(b))
		if n < 4 || n > len(b) {
			return
		}
		visit(binary.NativeEndian.Uint16(b[2:])&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER), b[4:n])
		b = b[min((n+3)&^3, len(b)):]
	}
}

// cText reads a text that ends with a zero byte.
func cText(b []byte) string {
	if n := len(b); n > 0 && b[n-1] == 0 {
		b = b[:n-1]
	}
	return string(b)
}

// number32 reads a number; one that is shorter than four bytes is zero.
func number32(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}

// readTable takes what a message says of the table.
func (s *state) readTable(b []byte) {
	s.exists = true
	attributes(b, func(kind uint16, data []byte) {
		switch kind {
		case unix.NFTA_TABLE_FLAGS:
			s.flags = number32(data)
		case tableUserData:
			s.comment = string(commentOf(data))
		}
	})
}

// readChain takes a message about a chain, of whatever table.
func (s *state) readChain(b []byte) {
	var c chainState
	var table, name string
	attributes(b, func(kind uint16, data []byte) {
		switch kind {
		case unix.NFTA_CHAIN_TABLE:
			table = cText(data)
		case unix.NFTA_CHAIN_NAME:
			name = cText(data)
		case unix.NFTA_CHAIN_TYPE:
			c.kind = cText(data)
		case unix.NFTA_CHAIN_POLICY:
			c.policy = number32(data)
		case chainUserData:
			c.comment = string(commentOf(data))
		case unix.NFTA_CHAIN_HOOK:
			attributes(data, func(kind uint16, data []byte) {
				switch kind {
				case unix.NFTA_HOOK_HOOKNUM:
					c.hook.number = number32(data)
				case unix.NFTA_HOOK_PRIORITY:
					c.hook.priority = int32(number32(data))
				}
			})
		}
	})
	if table == tableName {
		s.chains[name] = c
	}
}

// setCount is the attribute NFTA_SET_COUNT, of kernels since 6.16.
const setCount = 20

// readSet takes a message about a set.
func (s *state) readSet(b []byte) {
	set := setState{count: -1}
	var table, name string
	attributes(b, func(kind uint16, data []byte) {
		switch kind {
		case unix.NFTA_SET_TABLE:
			table = cText(data)
		case unix.NFTA_SET_NAME:
			name = cText(data)
		case unix.NFTA_SET_FLAGS:
			set.shape.flags = number32(data)
		case unix.NFTA_SET_KEY_TYPE:
			set.shape.keyType = number32(data)
		case unix.NFTA_SET_KEY_LEN:
			set.shape.keyLen = number32(data)
		case unix.NFTA_SET_DATA_TYPE:
			set.shape.dataType = number32(data)
		case unix.NFTA_SET_DATA_LEN:
			set.shape.dataLen = number32(data)
		case setCount:
			set.count = int64(number32(data))
		case unix.NFTA_SET_DESC:
			attributes(data, func(kind uint16, data []byte) {
				if kind == unix.NFTA_SET_DESC_SIZE {
					set.size = number32(data)
				}
			})
		}
	})
	if table == tableName {
		s.sets[name] = set
	}
}

// readRule takes a message about a rule. Messages come in the order of the rules.
func (s *state) readRule(f dataplane.Family, b []byte) {
	var table, name, canonical string
	attributes(b, func(kind uint16, data []byte) {
		switch kind {
		case unix.NFTA_RULE_TABLE:
			table = cText(data)
		case unix.NFTA_RULE_CHAIN:
			name = cText(data)
		case unix.NFTA_RULE_EXPRESSIONS:
			attributes(data, func(_ uint16, data []byte) { canonical += canonicalExpression(f, data) })
		}
	})
	if c, ok := s.chains[name]; ok && table == tableName {
		c.rules = append(c.rules, canonical)
		s.chains[name] = c
	}
}

// found is an element in a message: parts of it.
type found struct{ key, end, to, comment []byte }

// eachElement calls visit for each element in a message.
func eachElement(b []byte, visit func(found)) {
	attributes(b, func(kind uint16, data []byte) {
		if kind == unix.NFTA_SET_ELEM_LIST_ELEMENTS {
			attributes(data, func(_ uint16, data []byte) { visit(readElement(data)) })
		}
	})
}

// readElements takes a message with elements of a set.
func (set *setState) readElements(b []byte) { eachElement(b, set.take) }

// take keeps an element.
func (set *setState) take(e found) {
	if set.rows == nil {
		whole := e.element()
		set.elements[whole.key+whole.end] = whole
		return
	}
	n := len(e.key) - 4
	if n < 0 {
		return
	}
	number := binary.NativeEndian.Uint32(e.key[n:])
	alt, at := number/rowSpan, int(number%rowSpan)*set.width
	to := e.to
	if len(to) != set.width || len(e.comment) > 0 || string(to) == zeros[:set.width] {
		set.odd[string(e.key)] = e.element()
		to = nil
	}
	leads := set.rows[group{string(e.key[:n]), alt}]
	if len(leads) <= at {
		const usual = 16 // most have no more rows
		leads = append(leads, make([]byte, max(at+set.width, usual*set.width, 2*len(leads))-len(leads))...)
		set.rows[group{string(e.key[:n]), alt}] = leads
	}
	place := leads[at : at+set.width]
	if string(place) == zeros[:set.width] {
		set.found++
	}
	for i := copy(place, to); i < len(place); i++ { // odd ones lead to what no row leads to
		place[i] = 0xff
	}
}

func (e found) element() element {
	return element{key: string(e.key), end: string(e.end), to: string(e.to), comment: string(e.comment)}
}

func readElement(b []byte) (e found) {
	attributes(b, func(kind uint16, data []byte) {
		switch kind {
		case unix.NFTA_SET_ELEM_KEY:
			e.key = readValue(data)
		case elementKeyEnd:
			e.end = readValue(data)
		case unix.NFTA_SET_ELEM_USERDATA:
			e.comment = commentOf(data)
		case unix.NFTA_SET_ELEM_DATA:
			attributes(data, func(kind uint16, data []byte) {
				if kind == unix.NFTA_DATA_VALUE {
					e.to = data
					return
				}
				e.to = readVerdict(data)
			})
		}
	})
	return e
}

func readValue(b []byte) (out []byte) {
	attributes(b, func(_ uint16, data []byte) { out = data })
	return out
}

// readVerdict returns the chain that a verdict goes to; what is no goto, in
// words that no chain is called.
func readVerdict(b []byte) []byte {
	var code uint32
	var chain []byte
	attributes(b, func(kind uint16, data []byte) {
		switch kind {
		case unix.NFTA_VERDICT_CODE:
			code = number32(data)
		case unix.NFTA_VERDICT_CHAIN:
			chain = bytes.TrimSuffix(data, []byte{0})
		}
	})
	if code != verdictGoto {
		return fmt.Appendf(nil, "(verdict %d) %s", int32(code), chain)
	}
	return chain
}

// canonicalExpression brings an expression from the kernel into the form in
// which we send it: the kernel adds what we leave to it, and drops what it does
// not keep.
func canonicalExpression(f dataplane.Family, b []byte) string {
	var name string
	var data []byte
	attributes(b, func(kind uint16, d []byte) {
		switch kind {
		case unix.NFTA_EXPR_NAME:
			name = cText(d)
		case unix.NFTA_EXPR_DATA:
			data = d
		}
	})
	if name == "byteorder" && ordersOneByte(data) {
		return ""
	}
	e := parseExpression(f, name, data)
	if e == nil {
		return string(b)
	}
	raw, err := expr.Marshal(protocolFamily(f), e)
	if err != nil {
		return string(b)
	}
	return string(raw)
}

// parseExpression reads an expression of a kind that our rules use; nil for
// others.
func parseExpression(f dataplane.Family, name string, data []byte) expr.Any {
	e, family := expressionNamed(name), protocolFamily(f)
	if e == nil || expr.Unmarshal(family, data, e) != nil {
		return nil
	}
	if im, ok := e.(*expr.Immediate); ok && im.Register == unix.NFT_REG_VERDICT {
		v := &expr.Verdict{}
		if expr.Unmarshal(family, data, v) != nil {
			return nil
		}
		return v
	}
	return e
}

// ordersOneByte reports an expression that turns the bytes of a field around
// that has but one: nft writes it, and it does nothing.
func ordersOneByte(b []byte) bool {
	one := false
	attributes(b, func(kind uint16, data []byte) {
		one = one || kind == unix.NFTA_BYTEORDER_LEN && number32(data) == 1
	})
	return one
}

// expressionNamed returns an empty expression of a kind that our rules use.
func expressionNamed(name string) expr.Any {
	switch name {
	case "payload":
		return &expr.Payload{}
	case "meta":
		return &expr.Meta{}
	case "cmp":
		return &expr.Cmp{}
	case "bitwise":
		return &expr.Bitwise{}
	case "lookup":
		return &expr.Lookup{}
	case "immediate":
		return &expr.Immediate{}
	case "numgen":
		return &expr.Numgen{}
	case "nat":
		return &expr.NAT{}
	case "masq":
		return &expr.Masq{}
	case "reject":
		return &expr.Reject{}
	case "fib":
		return &expr.Fib{}
	case "ct":
		return &expr.Ct{}
	case "dynset":
		return &expr.Dynset{}
	}
	return nil
}
