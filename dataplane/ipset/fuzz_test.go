package ipset

import (
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// FuzzDecode proves that no message makes the decoders panic, whatever it says,
// and that no client is carried on for longer than asked for.
func FuzzDecode(f *testing.F) {
	f.Add(createRequest(one("A", 60e9)).Serialize()[unix.SizeofNlMsghdr:])
	f.Add([]byte{2, 0, 0, 0, 8, 0, 1, 0, 6, 0, 0, 0})
	f.Add([]byte{0})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := decodeHeader(b)
		if err == nil && len(b) < nl.SizeofNfgenmsg {
			t.Errorf("%d bytes are taken for a message", len(b))
		}
		clients, err := decodeClients(b)
		if err != nil {
			return
		}
		for _, c := range carried(clients, h.seconds, 30) {
			if c.left < 1 || c.left > 30 {
				t.Errorf("%v is to be remembered for %d s of 30", c.addr, c.left)
			}
		}
	})
}
