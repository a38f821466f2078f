package nftables

import (
	"encoding/binary"
	"fmt"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dataplane"
)

// batch is netlink messages that the kernel takes as one transaction.
type batch struct {
	family dataplane.Family
	// table is the name of the table that is changed.
	table string
	raw   []byte
	// count is the number of messages, elements counted one by one.
	count int
}

// newBatch starts a transaction on our table.
func newBatch(f dataplane.Family) *batch { return &batch{family: f, table: tableName} }

// transactionSize is about how long a transaction becomes before the next one
// is begun: the kernel's work for one grows more than its length, and it takes
// no longer one from who may not enlarge the socket's buffer.
const transactionSize = 200_000

// elementsSize is how long a message with elements becomes: its length, and
// that of the list inside, is a number of 16 bits.
const elementsSize = 60_000

// protocolFamily is the kernel's number of a family.
func protocolFamily(f dataplane.Family) byte {
	if f == dataplane.IPv6 {
		return unix.NFPROTO_IPV6
	}
	return unix.NFPROTO_IPV4
}

// begin starts a message and returns where it starts.
func (b *batch) begin(kind, flags uint16) int {
	at := len(b.raw)
	b.raw = append(b.raw, 0, 0, 0, 0)
	b.raw = binary.NativeEndian.AppendUint16(b.raw, unix.NFNL_SUBSYS_NFTABLES<<8|kind)
	b.raw = binary.NativeEndian.AppendUint16(b.raw, unix.NLM_F_REQUEST|flags)
	b.count++
	b.raw = binary.NativeEndian.AppendUint32(b.raw, uint32(b.count))
	b.raw = append(b.raw, 0, 0, 0, 0, protocolFamily(b.family), 0, 0, 0)
	return at
}

// end fills in the length of a message.
func (b *batch) end(at int) {
	binary.NativeEndian.PutUint32(b.raw[at:], uint32(len(b.raw)-at))
}

// attr adds an attribute.
func (b *batch) attr(kind uint16, data []byte) {
	b.raw = binary.NativeEndian.AppendUint16(b.raw, uint16(4+len(data)))
	b.raw = binary.NativeEndian.AppendUint16(b.raw, kind)
	b.raw = append(b.raw, data...)
	b.pad()
}

func (b *batch) pad() {
	for len(b.raw)%4 != 0 {
		b.raw = append(b.raw, 0)
	}
}

func (b *batch) text(kind uint16, s string) {
	b.raw = binary.NativeEndian.AppendUint16(b.raw, uint16(5+len(s)))
	b.raw = binary.NativeEndian.AppendUint16(b.raw, kind)
	b.raw = append(append(b.raw, s...), 0)
	b.pad()
}

// bytes adds an attribute that holds the bytes of a string.
func (b *batch) bytes(kind uint16, s string) {
	b.raw = binary.NativeEndian.AppendUint16(b.raw, uint16(4+len(s)))
	b.raw = binary.NativeEndian.AppendUint16(b.raw, kind)
	b.raw = append(b.raw, s...)
	b.pad()
}

func (b *batch) number(kind uint16, n uint32) {
	b.attr(kind, binary.BigEndian.AppendUint32(nil, n))
}

// nest starts an attribute that holds attributes, close ends it.
func (b *batch) nest(kind uint16) int {
	at := len(b.raw)
	b.raw = append(b.raw, 0, 0)
	b.raw = binary.NativeEndian.AppendUint16(b.raw, unix.NLA_F_NESTED|kind)
	return at
}

func (b *batch) close(at int) {
	binary.NativeEndian.PutUint16(b.raw[at:], uint16(len(b.raw)-at))
}

// addTable adds our table.
func (b *batch) addTable() {
	m := b.begin(unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE)
	b.text(unix.NFTA_TABLE_NAME, b.table)
	b.number(unix.NFTA_TABLE_FLAGS, 0)
	b.attr(tableUserData, note(tableComment))
	b.end(m)
}

// tableUserData is the attribute NFTA_TABLE_USERDATA.
const tableUserData = 6

// deleteTable deletes our table with all that is in it.
func (b *batch) deleteTable() {
	m := b.begin(unix.NFT_MSG_DELTABLE, 0)
	b.text(unix.NFTA_TABLE_NAME, b.table)
	b.end(m)
}

// addSet adds a set without elements.
func (b *batch) addSet(s set) {
	sh := shapeOf(b.family, s.kind)
	m := b.begin(unix.NFT_MSG_NEWSET, unix.NLM_F_CREATE)
	b.text(unix.NFTA_SET_TABLE, b.table)
	b.text(unix.NFTA_SET_NAME, s.name)
	b.number(unix.NFTA_SET_FLAGS, sh.flags)
	b.number(unix.NFTA_SET_KEY_TYPE, sh.keyType)
	b.number(unix.NFTA_SET_KEY_LEN, sh.keyLen)
	if s.kind.isMap() {
		b.number(unix.NFTA_SET_DATA_TYPE, sh.dataType)
		b.number(unix.NFTA_SET_DATA_LEN, sh.dataLen)
	}
	b.number(unix.NFTA_SET_ID, uint32(b.count))
	b.attr(unix.NFTA_SET_USERDATA, notes(b.family, s))
	d := b.nest(unix.NFTA_SET_DESC)
	switch s.kind {
	case clients:
		b.number(unix.NFTA_SET_DESC_SIZE, clientsSize)
	case ranges:
		b.rangeFields()
	}
	b.close(d)
	b.end(m)
}

// rangeFields says where the fields of keys that are ranges end.
func (b *batch) rangeFields() {
	const (
		concat    = 2 // NFTA_SET_DESC_CONCAT
		listElem  = 1 // NFTA_LIST_ELEM
		fieldSize = 1 // NFTA_SET_FIELD_LEN
	)
	all := b.nest(concat)
	for _, length := range []uint32{uint32(b.family.Bits() / 8), 1, 2, uint32(b.family.Bits() / 8)} {
		e := b.nest(listElem)
		b.number(fieldSize, length)
		b.close(e)
	}
	b.close(all)
}

func (b *batch) deleteSet(name string) {
	m := b.begin(unix.NFT_MSG_DELSET, 0)
	b.text(unix.NFTA_SET_TABLE, b.table)
	b.text(unix.NFTA_SET_NAME, name)
	b.end(m)
}

// addChain adds a chain without rules.
func (b *batch) addChain(c chain) {
	m := b.begin(unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE)
	b.text(unix.NFTA_CHAIN_TABLE, b.table)
	b.text(unix.NFTA_CHAIN_NAME, c.name)
	if c.isBase() {
		h := b.nest(unix.NFTA_CHAIN_HOOK)
		b.number(unix.NFTA_HOOK_HOOKNUM, c.hook.number)
		b.number(unix.NFTA_HOOK_PRIORITY, uint32(c.hook.priority))
		b.close(h)
		b.number(unix.NFTA_CHAIN_POLICY, 1) // NF_ACCEPT
		b.text(unix.NFTA_CHAIN_TYPE, c.hook.kind)
	}
	if c.comment != "" {
		b.attr(chainUserData, note(c.comment))
	}
	b.end(m)
}

// chainUserData is the attribute NFTA_CHAIN_USERDATA.
const chainUserData = 12

func (b *batch) deleteChain(name string) {
	m := b.begin(unix.NFT_MSG_DELCHAIN, 0)
	b.text(unix.NFTA_CHAIN_TABLE, b.table)
	b.text(unix.NFTA_CHAIN_NAME, name)
	b.end(m)
}

// flush deletes all rules of a chain.
func (b *batch) flush(name string) {
	m := b.begin(unix.NFT_MSG_DELRULE, 0)
	b.text(unix.NFTA_RULE_TABLE, b.table)
	b.text(unix.NFTA_RULE_CHAIN, name)
	b.end(m)
}

// addRule adds a rule at the end of a chain.
func (b *batch) addRule(chain string, r rule) error {
	m := b.begin(unix.NFT_MSG_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_APPEND)
	b.text(unix.NFTA_RULE_TABLE, b.table)
	b.text(unix.NFTA_RULE_CHAIN, chain)
	all := b.nest(unix.NFTA_RULE_EXPRESSIONS)
	encoded, err := encodeRule(b.family, r)
	if err != nil {
		return err
	}
	for _, e := range encoded {
		b.bytes(unix.NLA_F_NESTED|unix.NFTA_LIST_ELEM, e)
	}
	b.close(all)
	b.end(m)
	return nil
}

// encodeRule returns the expressions of a rule as the kernel takes them.
func encodeRule(f dataplane.Family, r rule) ([]string, error) {
	var out []string
	for _, s := range r {
		for _, e := range s.expressions(f) {
			raw, err := expr.Marshal(protocolFamily(f), e)
			if err != nil {
				return nil, fmt.Errorf("expression of %q: %w", s.text(f), err)
			}
			out = append(out, string(raw))
		}
	}
	return out, nil
}

// element adds one element to an open list.
func (b *batch) element(e element, k kind, deletes bool) {
	one := b.nest(unix.NFTA_LIST_ELEM)
	b.value(unix.NFTA_SET_ELEM_KEY, e.key)
	if e.end != "" {
		b.value(elementKeyEnd, e.end)
	}
	switch {
	case deletes:
	case k == endpointRows:
		b.value(unix.NFTA_SET_ELEM_DATA, e.to)
	case k.toChain():
		d := b.nest(unix.NFTA_SET_ELEM_DATA)
		v := b.nest(unix.NFTA_DATA_VERDICT)
		b.number(unix.NFTA_VERDICT_CODE, verdictGoto)
		b.text(unix.NFTA_VERDICT_CHAIN, e.to)
		b.close(v)
		b.close(d)
	}
	if e.comment != "" && !deletes {
		b.attr(unix.NFTA_SET_ELEM_USERDATA, note(e.comment))
	}
	b.close(one)
	b.count++
}

const (
	// elementKeyEnd is the attribute NFTA_SET_ELEM_KEY_END.
	elementKeyEnd = 10
	// verdictGoto is NFT_GOTO, -4, as the kernel sends it.
	verdictGoto = 0xfffffffc
)

// value adds bytes inside of what the kernel calls data.
func (b *batch) value(kind uint16, data string) {
	d := b.nest(kind)
	b.bytes(unix.NFTA_DATA_VALUE, data)
	b.close(d)
}

// elementList writes elements to a set, or deletes them, in messages that are as
// long as the kernel can take.
type elementList struct {
	*batch
	to      set
	deletes bool
	// message is where the open message begins, all its list; open: there is one.
	message, all int
	open         bool
}

// write adds an element.
func (l *elementList) write(e element) {
	if l.open && len(l.raw)-l.message >= elementsSize {
		l.finish()
	}
	if !l.open {
		kindOf, flags := uint16(unix.NFT_MSG_NEWSETELEM), uint16(unix.NLM_F_CREATE)
		if l.deletes {
			kindOf, flags = unix.NFT_MSG_DELSETELEM, 0
		}
		l.open, l.message = true, l.begin(kindOf, flags)
		l.text(unix.NFTA_SET_ELEM_LIST_TABLE, l.table)
		l.text(unix.NFTA_SET_ELEM_LIST_SET, l.to.name)
		l.all = l.nest(unix.NFTA_SET_ELEM_LIST_ELEMENTS)
	}
	l.element(e, l.to.kind, l.deletes)
}

// finish ends what was written.
func (l *elementList) finish() {
	if l.open {
		l.close(l.all)
		l.end(l.message)
		l.open = false
	}
}
