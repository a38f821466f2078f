package nftables

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// frame adds a mark of a transaction's begin or end. That of its begin may have
// the generation that the transaction has to build upon.
func (b *batch) frame(kind uint16, guard uint32) {
	length := uint32(unix.NLMSG_HDRLEN + 4)
	if guard != 0 {
		length += 8
	}
	b.raw = binary.NativeEndian.AppendUint32(b.raw, length)
	b.raw = binary.NativeEndian.AppendUint16(b.raw, kind)
	b.raw = binary.NativeEndian.AppendUint16(b.raw, unix.NLM_F_REQUEST)
	b.raw = append(b.raw, 0, 0, 0, 0, 0, 0, 0, 0, unix.AF_UNSPEC, 0)
	b.raw = binary.BigEndian.AppendUint16(b.raw, unix.NFNL_SUBSYS_NFTABLES)
	if guard != 0 {
		b.raw = append(binary.NativeEndian.AppendUint16(b.raw, 8), 1, 0) // NFNL_BATCH_GENID
		b.raw = binary.BigEndian.AppendUint32(b.raw, guard)
	}
}

// later is the generation after so many transactions: none has the number zero.
func later(generation, transactions uint32) uint32 {
	now := generation + transactions
	if now < generation || now == 0 {
		now++
	}
	return now
}

// messages calls visit for each netlink message, until it returns an error.
func messages(b []byte, visit func(kind, flags uint16, body []byte) error) error {
	for len(b) >= unix.NLMSG_HDRLEN {
		n := int(binary.NativeEndian.Uint32(b))
		if n < unix.NLMSG_HDRLEN || n > len(b) {
			return nil
		}
		kind, flags := binary.NativeEndian.Uint16(b[4:]), binary.NativeEndian.Uint16(b[6:])
		if err := visit(kind, flags, b[unix.NLMSG_HDRLEN:n]); err != nil {
			return err
		}
		b = b[min((n+3)&^3, len(b)):]
	}
	return nil
}
