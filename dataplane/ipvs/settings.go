package ipvs

import (
	"fmt"

	"github.com/toyproxy/toyproxy/dataplane/sysctl"
)

// release is a kernel version: 6.1 is {6, 1}.
type release struct{ major, minor int }

func (r release) before(major, minor int) bool {
	return r.major < major || r.major == major && r.minor < minor
}

// String returns "6.1".
func (r release) String() string { return fmt.Sprintf("%d.%d", r.major, r.minor) }

// settings returns the kernel parameters that IPVS needs to serve Services. That
// packets are forwarded at all is the business of whoever connects the Pods.
func settings(kernel release) []sysctl.Setting {
	// Mode 1 gives a reused client port to a fresh server, which is right, but
	// kernels before 5.9 drop the first packet when connections are tracked: a
	// second of delay. Kernels before 4.1 know no modes.
	reuse, why := "1", "a client port that is used again is balanced anew"
	if kernel.before(5, 9) {
		reuse, why = "0", "a client port that is used again must not lose its first packet"
	}
	return []sysctl.Setting{
		{Key: "net.ipv4.vs.conntrack", Want: "1", Why: "rules and masquerading see flows only if they are tracked"},
		{Key: "net.ipv4.vs.expire_nodest_conn", Want: "1", Optional: true,
			Why: "a flow whose real server is gone ends at once instead of hanging"},
		{Key: "net.ipv4.vs.expire_quiescent_template", Want: "1", Optional: true,
			Why: "session affinity must not hold clients at a real server of weight 0"},
		{Key: "net.ipv4.vs.conn_reuse_mode", Want: reuse, Optional: true,
			Why: fmt.Sprintf("%s (kernel %s)", why, kernel)},
	}
}

// arpSettings keep neighbours from learning that the node takes packets for the
// addresses in the ranges of Services. Others are never told: they are local for
// marked packets alone.
func arpSettings() []sysctl.Setting {
	return []sysctl.Setting{
		{Key: "net.ipv4.conf.all.arp_ignore", Want: "1", Why: "ARP answers are for addresses of the very link"},
		{Key: "net.ipv4.conf.all.arp_announce", Want: "2", Why: "ARP requests name an address of the very link"},
	}
}
