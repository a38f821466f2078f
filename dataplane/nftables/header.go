package nftables

import (
	"encoding/binary"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dataplane"
)

// clientsSize is how many clients one endpoint can be remembered for: the size
// nft gives to sets that rules write to.
const clientsSize = 65535

// setConcat is the flag NFT_SET_CONCAT: keys have several fields that are ranges.
const setConcat = 0x80

// Numbers by which nft knows the types of fields.
const (
	typeInteger   = 4
	typeIPv4      = 7
	typeIPv6      = 8
	typeProtocol  = 12
	typePort      = 13
	typeVerdict   = 0xffffff00
	typeFieldBits = 6
)

// shape is what the kernel knows of a set besides its name and elements.
type shape struct {
	flags, keyType, keyLen, dataType, dataLen uint32
}

// joined is the number of a type that consists of several.
func joined(types ...uint32) (out uint32) {
	for _, t := range types {
		out = out<<typeFieldBits | t
	}
	return out
}

// shapeOf returns the shape of the sets of a kind.
func shapeOf(f dataplane.Family, k kind) shape {
	address, length := uint32(typeIPv4), uint32(4)
	if f == dataplane.IPv6 {
		address, length = typeIPv6, 16
	}
	s := shape{keyType: joined(address, typeProtocol, typePort), keyLen: length + 8}
	switch k {
	case addresses, clients:
		s = shape{keyType: address, keyLen: length}
	case pairs:
		s = shape{keyType: joined(address, address), keyLen: 2 * length}
	case ranges:
		s.flags, s.keyType, s.keyLen = unix.NFT_SET_INTERVAL|setConcat, joined(address, typeProtocol, typePort, address), 2*length+8
	case endpointRows, chainRows:
		s.keyType, s.keyLen = joined(address, typeProtocol, typePort, typeInteger), length+12
	}
	if k == clients {
		s.flags = unix.NFT_SET_TIMEOUT | unix.NFT_SET_EVAL
	}
	if k == endpointRows {
		s.dataType, s.dataLen = joined(address, typePort), length+4
	}
	if k.toChain() {
		s.dataType, s.dataLen = typeVerdict, 16
	}
	if k.isMap() {
		s.flags |= unix.NFT_SET_MAP
	}
	return s
}

// tlv is a record of the notes that nft leaves for itself in a set: type,
// length, value.
func tlv(kind byte, value ...byte) []byte { return append([]byte{kind, byte(len(value))}, value...) }

// tlvNumber is a record that holds a number.
func tlvNumber(kind byte, n uint32) []byte {
	return tlv(kind, binary.NativeEndian.AppendUint32(nil, n)...)
}

// tlvs is a record that holds records.
func tlvs(kind byte, parts ...[]byte) []byte {
	var all []byte
	for _, p := range parts {
		all = append(all, p...)
	}
	return tlv(kind, all...)
}

// Kinds of records, and numbers of expressions, in nft's notes.
const (
	noteKeyOrder     = 0
	noteDataOrder    = 1
	noteKeyTypeof    = 3
	noteDataTypeof   = 4
	noteDataInterval = 6
	noteSetComment   = 7

	noteExpression = 0
	noteOf         = 1

	exprVerdict = 1
	exprPayload = 7
	exprMeta    = 9
	exprConcat  = 13
	exprNumgen  = 23

	bigEndianOrder = 2
)

// typeofPayload is the note of a field of a header: which header, which field.
func typeofPayload(at byte, header, field uint32) []byte {
	return tlvs(at, tlvNumber(noteExpression, exprPayload), tlvs(noteOf, tlvNumber(0, header), tlvNumber(1, field)))
}

// notes are what nft writes into sets so that it can print them as they were
// written: without them it cannot print the number in the keys of rows.
func notes(f dataplane.Family, s set) []byte {
	header, daddr := uint32(12), uint32(12)
	if f == dataplane.IPv6 {
		header, daddr = 13, 9
	}
	order := uint32(0)
	if s.kind == addresses || s.kind == clients {
		order = bigEndianOrder
	}
	out := tlvNumber(noteKeyOrder, order)
	if s.kind.isMap() {
		out = append(out, tlvNumber(noteDataOrder, 0)...)
	}
	const anyHeader, dport = 11, 2
	switch {
	case s.kind == endpointRows || s.kind == chainRows:
		out = append(out, tlvs(noteKeyTypeof, tlvNumber(noteExpression, exprConcat), tlvs(noteOf,
			typeofPayload(0, header, daddr),
			tlvs(1, tlvNumber(noteExpression, exprMeta), tlvs(noteOf, tlvNumber(0, 16))),
			typeofPayload(2, anyHeader, dport),
			tlvs(3, tlvNumber(noteExpression, exprNumgen), tlvs(noteOf, tlvNumber(0, 1), tlvNumber(1, rowSpan), tlvNumber(2, 0)))))...)
	case order == 0:
		out = append(out, tlvs(noteKeyTypeof, tlvNumber(noteExpression, exprConcat), tlv(noteOf))...)
	}
	switch s.kind {
	case endpointRows:
		out = append(out, tlvs(noteDataTypeof, tlvNumber(noteExpression, exprConcat),
			tlvs(noteOf, typeofPayload(0, header, daddr), typeofPayload(1, anyHeader, dport)))...)
	case chainRows:
		out = append(out, tlvs(noteDataTypeof, tlvNumber(noteExpression, exprVerdict), tlv(noteOf))...)
	}
	if s.kind.isMap() {
		out = append(out, tlvNumber(noteDataInterval, 0)...)
	}
	if s.comment != "" {
		out = append(out, tlv(noteSetComment, append([]byte(s.comment), 0)...)...)
	}
	return out
}

// note is the comment of a table, chain, rule or element, as nft keeps it.
func note(comment string) []byte {
	if comment == "" {
		return nil
	}
	return tlv(0, append([]byte(comment), 0)...)
}

// commentOf reads what note wrote.
func commentOf(b []byte) []byte {
	for len(b) >= 2 && int(b[1]) <= len(b)-2 {
		if b[0] == 0 && b[1] > 0 {
			return b[2 : 1+b[1]]
		}
		b = b[2+b[1]:]
	}
	return nil
}

// comment makes a text safe to stand between quotes: nft knows no way to write
// a quote in one, and takes 128 bytes at most.
func comment(text string) string {
	const most = 128
	text = text[:min(len(text), most)]
	if strings.IndexFunc(text, unsafeInComment) < 0 {
		return text
	}
	b := []byte(text)
	for i, c := range b {
		if unsafeInComment(rune(c)) {
			b[i] = '_'
		}
	}
	return string(b)
}

// unsafeInComment reports what nft or its readers might take for more than a
// letter.
func unsafeInComment(c rune) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
	case c == '-', c == '.', c == '/', c == ':', c == '_', c == ' ', c == ',':
	default:
		return true
	}
	return false
}
