package xtables

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dataplane"
)

// dropMarkedTable deletes a table of nf_tables and the marker chain in it, if
// nothing else stands there, and reports whether it is gone. Both go in one
// transaction: a process that is killed leaves either all of it or nothing, and
// so never an empty table without the mark that it is ours. No option of
// iptables-nft does that, and "nft delete table" deletes what a table holds along
// with it; NLM_F_NONREC makes the kernel refuse instead, so that a rule which
// somebody adds at that very moment is safe.
func dropMarkedTable(f dataplane.Family, table Table) (gone bool, err error) {
	fd, err := netfilterSocket()
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, dropMessages(f, table), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return false, fmt.Errorf("delete of empty table %s: %w", table, err)
	}
	switch err := answers(fd); {
	case err == nil:
		return true, nil
	case errors.Is(err, unix.EBUSY), errors.Is(err, unix.ENOENT):
		return false, nil
	default:
		return false, fmt.Errorf("delete of empty table %s: %w", table, err)
	}
}

// netfilterSocket opens a socket that does not wait for ever.
func netfilterSocket() (fd int, err error) {
	fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return -1, fmt.Errorf("netfilter socket: %w", err)
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5}); err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("netfilter socket timeout: %w", err)
	}
	return fd, nil
}

// Sequence numbers of the messages of a batch. The kernel answers the last one
// in any case, after those that it refuses.
const (
	seqBegin = iota + 1
	seqRules
	seqChain
	seqTable
	seqEnd
)

// dropMessages is a batch: the rules of the marker chain, the chain, and the
// table unless it is in use.
func dropMessages(f dataplane.Family, table Table) []byte {
	family := byte(unix.NFPROTO_IPV4)
	if f == dataplane.IPv6 {
		family = unix.NFPROTO_IPV6
	}
	const subsystem = unix.NFNL_SUBSYS_NFTABLES
	head := []byte{family, 0, 0, 0}
	rules := appendName(appendName(head, unix.NFTA_RULE_TABLE, string(table)), unix.NFTA_RULE_CHAIN, marker)
	chain := appendName(appendName(head, unix.NFTA_CHAIN_TABLE, string(table)), unix.NFTA_CHAIN_NAME, marker)
	batch := []byte{unix.AF_UNSPEC, 0, 0, subsystem}
	b := appendMessage(nil, header{unix.NFNL_MSG_BATCH_BEGIN, 0, seqBegin}, batch)
	b = appendMessage(b, header{subsystem<<8 | unix.NFT_MSG_DELRULE, 0, seqRules}, rules)
	b = appendMessage(b, header{subsystem<<8 | unix.NFT_MSG_DELCHAIN, unix.NLM_F_NONREC, seqChain}, chain)
	b = appendMessage(b, header{subsystem<<8 | unix.NFT_MSG_DELTABLE, unix.NLM_F_ACK | unix.NLM_F_NONREC, seqTable},
		appendName(head, unix.NFTA_TABLE_NAME, string(table)))
	return appendMessage(b, header{unix.NFNL_MSG_BATCH_END, 0, seqEnd}, batch)
}

// appendName returns a body with one more attribute, a text.
func appendName(body []byte, attribute uint16, text string) []byte {
	b := binary.NativeEndian.AppendUint16(append([]byte(nil), body...), uint16(4+len(text)+1))
	b = binary.NativeEndian.AppendUint16(b, attribute)
	b = append(b, text...)
	for b = append(b, 0); len(b)%4 != 0; {
		b = append(b, 0)
	}
	return b
}

// header is what differs between the headers of netlink messages.
type header struct {
	kind, flags uint16
	seq         uint32
}

// appendMessage adds a netlink message.
func appendMessage(b []byte, h header, body []byte) []byte {
	b = binary.NativeEndian.AppendUint32(b, uint32(unix.NLMSG_HDRLEN+len(body)))
	b = binary.NativeEndian.AppendUint16(b, h.kind)
	b = binary.NativeEndian.AppendUint16(b, h.flags|unix.NLM_F_REQUEST)
	b = binary.NativeEndian.AppendUint32(b, h.seq)
	b = binary.NativeEndian.AppendUint32(b, 0) // port: the kernel fills it in
	return append(b, body...)
}

// answers reads the kernel's answers up to that about the table. The first error
// is the reason why nothing was done.
func answers(fd int) error {
	var first error
	reply := make([]byte, 4096)
	for {
		n, _, err := unix.Recvfrom(fd, reply, 0)
		if err != nil {
			return errors.Join(first, err)
		}
		seq, err := answer(reply[:n])
		if first == nil {
			first = err
		}
		// Number 0 or that of the beginning: the batch as a whole was refused.
		if seq == seqTable || seq <= seqBegin {
			return first
		}
	}
}

// answer reads the error of one acknowledgement and which message it is about;
// no error means done.
func answer(reply []byte) (seq uint32, err error) {
	if len(reply) < unix.NLMSG_HDRLEN+4 || binary.NativeEndian.Uint16(reply[4:]) != unix.NLMSG_ERROR {
		return 0, errors.New("answer is no acknowledgement")
	}
	seq = binary.NativeEndian.Uint32(reply[8:])
	if code := int32(binary.NativeEndian.Uint32(reply[unix.NLMSG_HDRLEN:])); code != 0 {
		return seq, unix.Errno(-code)
	}
	return seq, nil
}
