package meter

import (
	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/sysctl"
)

// Accounting plans to make the kernel count the packets and bytes of each flow that
// begins from then on, in the network namespace of the calling thread. The journal
// is a file of its own that remembers what the parameter was; sysctl.Restore puts
// that back. A kernel that cannot count has no such parameter: there is nothing to
// do, and connections are counted all the same.
func Accounting(journal string) (dataplane.Plan, error) {
	return sysctl.Plan([]sysctl.Setting{{
		Key: "net.netfilter.nf_conntrack_acct", Want: "1", Optional: true,
		Why: "packets and bytes are counted by Service port",
	}}, journal)
}
