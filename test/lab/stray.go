package lab

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Wire hears the TCP segments that come and go by a link, and can say something
// that no connection said.
type Wire struct {
	host *Host
	hear *Capture
	// last is, by both ends, what the sender would send next.
	last map[[2]netip.AddrPort]numbers
}

// numbers are the position of a TCP sender.
type numbers struct{ seq, ack uint32 }

// Wire starts to listen until the end of the test. Begin before the connection
// that is of interest.
func (h *Host) Wire(link string) *Wire {
	h.t.Helper()
	return &Wire{host: h, hear: h.Capture(link), last: map[[2]netip.AddrPort]numbers{}}
}

// Heard reports whether a segment between two ends has passed, in that direction.
func (w *Wire) Heard(from, to netip.AddrPort) bool {
	w.listen()
	_, ok := w.last[[2]netip.AddrPort{from, to}]
	return ok
}

// listen takes in what the kernel keeps for the capture.
func (w *Wire) listen() {
	b := make([]byte, 2048)
	for {
		n, _, err := unix.Recvfrom(w.hear.fd, b, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return
		}
		w.note(b[:n])
	}
}

func (w *Wire) note(b []byte) {
	var source netip.Addr
	to, head := destination(b), 0
	switch {
	case len(b) >= 20 && b[0]>>4 == 4 && b[9] == unix.IPPROTO_TCP:
		source, _ = netip.AddrFromSlice(b[12:16])
		head = int(b[0]&15) * 4
		b = b[:min(len(b), int(binary.BigEndian.Uint16(b[2:])))]
	case len(b) >= 40 && b[0]>>4 == 6 && b[6] == unix.IPPROTO_TCP:
		source, _ = netip.AddrFromSlice(b[8:24])
		head = 40
		b = b[:min(len(b), head+int(binary.BigEndian.Uint16(b[4:])))]
	default:
		return
	}
	if len(b) < head+20 {
		return
	}
	segment := b[head:]
	ends := [2]netip.AddrPort{netip.AddrPortFrom(source, binary.BigEndian.Uint16(segment)), netip.AddrPortFrom(to, binary.BigEndian.Uint16(segment[2:]))}
	length := len(segment) - int(segment[12]>>4)*4 + int(segment[13]&1) + int(segment[13]>>1&1) // FIN and SYN count
	w.last[ends] = numbers{binary.BigEndian.Uint32(segment[4:]) + uint32(length), binary.BigEndian.Uint32(segment[8:])}
}

// beyond is how far behind the end of any window a stray segment lies.
const beyond = 1 << 29

// Stray sends a segment on a connection of the host that lies far beyond the
// window of the other end: what connection tracking takes for no part of it. It
// acknowledges what the host has received, so that who answers it with a reset
// resets the connection.
func (w *Wire) Stray(from, to netip.AddrPort) {
	w.host.t.Helper()
	w.listen()
	at, ok := w.last[[2]netip.AddrPort{from, to}]
	if !ok {
		w.host.t.Fatalf("%s has sent nothing from %s to %s", w.host.Name, from, to)
	}
	// What was received last may not be acknowledged yet.
	if other, ok := w.last[[2]netip.AddrPort{to, from}]; ok {
		at.ack = other.seq
	}
	var err error
	w.host.Do(func() { err = sendSegment(from, to, numbers{at.seq + beyond, at.ack}) })
	if err != nil {
		w.host.t.Fatalf("%s: stray segment: %v", w.host.Name, err)
	}
}

// sendSegment sends a few bytes from one end to the other.
func sendSegment(from, to netip.AddrPort, at numbers) error {
	domain := unix.AF_INET
	if from.Addr().Is6() {
		domain = unix.AF_INET6
	}
	fd, err := unix.Socket(domain, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	if err != nil {
		return fmt.Errorf("raw socket: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, sockaddr(netip.AddrPortFrom(from.Addr(), 0))); err != nil {
		return fmt.Errorf("bind to %s: %w", from.Addr(), err)
	}
	return unix.Sendto(fd, segment(from, to, at), 0, sockaddr(netip.AddrPortFrom(to.Addr(), 0)))
}

// segment writes a TCP segment with a checksum.
func segment(from, to netip.AddrPort, at numbers) []byte {
	const push, ack = 8, 16
	b := binary.BigEndian.AppendUint16(nil, from.Port())
	b = binary.BigEndian.AppendUint16(b, to.Port())
	b = binary.BigEndian.AppendUint32(b, at.seq)
	b = binary.BigEndian.AppendUint32(b, at.ack)
	b = append(b, 5<<4, push|ack, 255, 255, 0, 0, 0, 0)
	b = append(b, "never mind"...)
	pseudo := append(from.Addr().AsSlice(), to.Addr().AsSlice()...)
	pseudo = append(pseudo, 0, unix.IPPROTO_TCP)
	pseudo = binary.BigEndian.AppendUint16(pseudo, uint16(len(b)))
	sum := uint32(0)
	for _, part := range [][]byte{pseudo, b} {
		for i := 0; i+1 < len(part); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(part[i:]))
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	binary.BigEndian.PutUint16(b[16:], ^uint16(sum))
	return b
}
