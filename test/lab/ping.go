package lab

import (
	"errors"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// ipv4Header is what a raw socket gets in front of an answer, without options.
const ipv4Header = 20

// Ping sends one ICMP echo to an address and returns what became of it: OK,
// Refused by an ICMP port unreachable, or Timeout.
func Ping(from *Host, to netip.Addr, timeout time.Duration) Fate {
	from.t.Helper()
	var err error
	from.Do(func() { err = ping(to, timeout) })
	return fateOf(err)
}

func ping(to netip.Addr, timeout time.Duration) error {
	// Type, code, checksum, identifier 7, sequence 1. For IPv6 the kernel fills
	// in the checksum.
	network, question, answer := "ip4:icmp", []byte{8, 0, 0xf7, 0xf7, 0, 7, 0, 1}, byte(0)
	if to.Is6() {
		network, question, answer = "ip6:ipv6-icmp", []byte{128, 0, 0, 0, 0, 7, 0, 1}, 129
	}
	c, err := net.Dial(network, to.String())
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	// EPERM: a rule on the way out stopped it. If it refused it as well, that
	// waits on the socket.
	if _, err := c.Write(question); err != nil && !errors.Is(err, unix.EPERM) {
		return err
	}
	for {
		b := make([]byte, 128)
		n, err := c.Read(b)
		if err != nil {
			return err
		}
		if to.Is4() && n > ipv4Header {
			b = b[ipv4Header:]
		}
		if n > 0 && b[0] == answer {
			return nil
		}
	}
}
