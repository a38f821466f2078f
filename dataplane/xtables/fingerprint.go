package xtables

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dataplane"
)

// Fingerprint returns a value that is another one when any rule of either engine
// and any family has changed, in the network namespace of the calling thread, as
// dataplane.Fingerprinter wants it: no child process, no rule taken apart. For the
// nft engine that is the number that every change of nf_tables raises. The legacy
// engine has none, so its tables are copied as they stand in the kernel and
// hashed.
func Fingerprint() (string, error) {
	generation, err := generation()
	if err != nil {
		return "", err
	}
	out := fmt.Sprintf("nft %d", generation)
	for _, f := range []dataplane.Family{dataplane.IPv4, dataplane.IPv6} {
		sum, err := legacySum(formatOf(f))
		if err != nil {
			return "", fmt.Errorf("legacy tables of %s: %w", f, err)
		}
		out += fmt.Sprintf(" legacy %s %x", f, sum)
	}
	return out, nil
}

// generation is the number of the rules of nf_tables; zero where it is not in the
// kernel.
func generation() (uint32, error) {
	fd, err := netfilterSocket()
	if errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.EAFNOSUPPORT) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	question := appendMessage(nil, header{unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETGEN, 0, 1}, []byte{unix.AF_UNSPEC, 0, 0, 0})
	if err := unix.Sendto(fd, question, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, fmt.Errorf("generation of nf_tables: %w", err)
	}
	reply := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, reply, 0)
	if err != nil {
		return 0, fmt.Errorf("generation of nf_tables: %w", err)
	}
	if _, err := answer(reply[:n]); errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
		return 0, nil
	}
	return generationIn(reply[:n])
}

// generationIn reads the answer, whose first attribute is the number.
func generationIn(reply []byte) (uint32, error) {
	const at = unix.NLMSG_HDRLEN + 4 + unix.NLA_HDRLEN // behind the header of netfilter
	if len(reply) < at+4 || binary.NativeEndian.Uint16(reply[at-2:]) != unix.NFTA_GEN_ID {
		return 0, fmt.Errorf("generation of nf_tables: answer of %d bytes", len(reply))
	}
	return binary.BigEndian.Uint32(reply[at:]), nil
}

// format is how the kernel lays out the legacy tables of a family for a process of
// 64 bits: linux/netfilter_ipv4/ip_tables.h and its like for IPv6.
type format struct {
	// names lists the tables that exist. To ask for one that does not would make it.
	names string
	// domain and level are those of the socket to ask.
	domain, level int
	// next is where an entry holds its own length, counters where the counts of
	// packets and bytes begin.
	next, counters int
}

func formatOf(f dataplane.Family) format {
	if f == dataplane.IPv6 {
		return format{"/proc/thread-self/net/ip6_tables_names", unix.AF_INET6, unix.IPPROTO_IPV6, 142, 152}
	}
	return format{"/proc/thread-self/net/ip_tables_names", unix.AF_INET, unix.IPPROTO_IP, 90, 96}
}

const (
	getInfo    = 64 // IPT_SO_GET_INFO
	getEntries = 65 // IPT_SO_GET_ENTRIES
	// tableName is the length of the field for the name of a table.
	tableName = 32
	// infoLength is the length of struct ipt_getinfo; its last number is the size
	// of the entries.
	infoLength = 84
	// entriesHeader is what stands before the entries: name, size, padding.
	entriesHeader = 40
	// counterLength is the length of the counts in an entry.
	counterLength = 16
)

// legacySum hashes all legacy tables of a family, without counts.
func legacySum(f format) (uint64, error) {
	names, err := os.ReadFile(f.names)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var h maphash.Hash
	h.SetSeed(seed)
	if len(names) == 0 {
		return h.Sum64(), nil
	}
	fd, err := unix.Socket(f.domain, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return 0, fmt.Errorf("raw socket: %w", err)
	}
	defer unix.Close(fd)
	for _, name := range strings.Fields(string(names)) {
		if err := f.hashTable(fd, name, &h); err != nil {
			return 0, fmt.Errorf("table %s: %w", name, err)
		}
	}
	return h.Sum64(), nil
}

// seed makes hashes comparable within this process.
var seed = maphash.MakeSeed()

// hashTable adds a table to a hash. It is as large as its rules, some 300 bytes
// each, so it is not left to the garbage collector. A table that grows in between
// is asked for again.
func (f format) hashTable(fd int, name string, h *maphash.Hash) (err error) {
	for range 10 {
		if err = f.hashOnce(fd, name, h); !errors.Is(err, unix.EAGAIN) {
			break
		}
	}
	return err
}

func (f format) hashOnce(fd int, name string, h *maphash.Hash) error {
	info := make([]byte, infoLength)
	copy(info[:tableName-1], name)
	if err := f.ask(fd, getInfo, info); err != nil {
		return err
	}
	size := binary.NativeEndian.Uint32(info[infoLength-4:])
	room, err := unix.Mmap(-1, 0, entriesHeader+int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return fmt.Errorf("memory for %d bytes of rules: %w", size, err)
	}
	defer func() { _ = unix.Munmap(room) }()
	copy(room[:tableName-1], name)
	binary.NativeEndian.PutUint32(room[tableName:], size)
	if err := f.ask(fd, getEntries, room); err != nil {
		return err
	}
	_, _ = h.Write(info) // where the built-in chains begin and end
	return f.hashEntries(room[entriesHeader:], h)
}

// hashEntries adds entries to a hash, without their counts.
func (f format) hashEntries(entries []byte, h *maphash.Hash) error {
	for len(entries) > 0 {
		length := 0
		if len(entries) >= f.counters+counterLength {
			length = int(binary.NativeEndian.Uint16(entries[f.next:]))
		}
		if length < f.counters+counterLength || length > len(entries) {
			return fmt.Errorf("entry of %d bytes in %d", length, len(entries))
		}
		_, _ = h.Write(entries[:f.counters])
		_, _ = h.Write(entries[f.counters+counterLength : length])
		entries = entries[length:]
	}
	return nil
}

// ask reads a socket option into room, whose beginning is the question.
func (f format) ask(fd, option int, room []byte) error {
	length := uint32(len(room))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(f.level), uintptr(option),
		uintptr(unsafe.Pointer(&room[0])), uintptr(unsafe.Pointer(&length)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}
