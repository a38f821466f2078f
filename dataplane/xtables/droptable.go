package xtables

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dataplane"
)

// dropEmptyTable deletes a table of nf_tables if nothing at all stands in it.
// No option of iptables-nft does that, and "nft delete table" deletes what a
// table holds along with it; NLM_F_NONREC makes the kernel refuse instead, in
// one step, so that a rule which somebody adds at that very moment is safe.
func dropEmptyTable(f dataplane.Family, table Table) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return fmt.Errorf("netfilter socket: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5}); err != nil {
		return fmt.Errorf("netfilter socket timeout: %w", err)
	}
	if err := unix.Sendto(fd, dropMessage(f, table), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("delete of empty table %s: %w", table, err)
	}
	reply := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, reply, 0)
	if err != nil {
		return fmt.Errorf("delete of empty table %s: %w", table, err)
	}
	err = answer(reply[:n])
	if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete of empty table %s: %w", table, err)
	}
	return nil
}

// dropMessage is a batch of one message: delete the table unless it is in use.
func dropMessage(f dataplane.Family, table Table) []byte {
	family := byte(unix.NFPROTO_IPV4)
	if f == dataplane.IPv6 {
		family = unix.NFPROTO_IPV6
	}
	name := append([]byte(table), 0)
	attr := binary.NativeEndian.AppendUint16(nil, uint16(4+len(name)))
	attr = binary.NativeEndian.AppendUint16(attr, unix.NFTA_TABLE_NAME)
	attr = append(attr, name...)
	for len(attr)%4 != 0 {
		attr = append(attr, 0)
	}
	const subsystem = unix.NFNL_SUBSYS_NFTABLES
	var b []byte
	b = appendMessage(b, unix.NFNL_MSG_BATCH_BEGIN, 0, []byte{unix.AF_UNSPEC, 0, 0, subsystem})
	b = appendMessage(b, subsystem<<8|unix.NFT_MSG_DELTABLE, unix.NLM_F_ACK|unix.NLM_F_NONREC,
		append([]byte{family, 0, 0, 0}, attr...))
	return appendMessage(b, unix.NFNL_MSG_BATCH_END, 0, []byte{unix.AF_UNSPEC, 0, 0, subsystem})
}

// appendMessage adds a netlink message with the given type, flags and body.
func appendMessage(b []byte, kind, flags uint16, body []byte) []byte {
	b = binary.NativeEndian.AppendUint32(b, uint32(unix.NLMSG_HDRLEN+len(body)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = binary.NativeEndian.AppendUint16(b, flags|unix.NLM_F_REQUEST)
	b = binary.NativeEndian.AppendUint32(b, 1) // sequence number
	b = binary.NativeEndian.AppendUint32(b, 0) // port: the kernel fills it in
	return append(b, body...)
}

// answer reads the error code of an acknowledgement; 0 means done.
func answer(reply []byte) error {
	if len(reply) < unix.NLMSG_HDRLEN+4 || binary.NativeEndian.Uint16(reply[4:]) != unix.NLMSG_ERROR {
		return errors.New("answer is no acknowledgement")
	}
	code := int32(binary.NativeEndian.Uint32(reply[unix.NLMSG_HDRLEN:]))
	if code == 0 {
		return nil
	}
	return unix.Errno(-code)
}
