package conntrack

// Counted is a tracked flow with what the kernel has counted of it: nothing while
// sysctl net.netfilter.nf_conntrack_acct is 0, or if it was when the flow began.
type Counted struct {
	Flow
	// Sent went the way of the first packet, Answered the way back.
	Sent, Answered Volume
	// Over: both sides have done with the connection, and the kernel only remembers
	// it for some time. Always false for UDP.
	Over bool
	// dying: the end of the flow has been told, or is just being told.
	dying bool
}

// Volume is an amount of traffic. Bytes are those of whole IP packets. Where a link
// joins received packets into larger ones (GRO), those are what is counted.
type Volume struct{ Packets, Bytes uint64 }

// Add returns the sum.
func (v Volume) Add(o Volume) Volume { return Volume{v.Packets + o.Packets, v.Bytes + o.Bytes} }

// Since returns what has come since an earlier count, which must not be greater.
func (v Volume) Since(earlier Volume) Volume {
	return Volume{v.Packets - earlier.Packets, v.Bytes - earlier.Bytes}
}

// Less tells whether there is less of one: a later count of one flow never is.
func (v Volume) Less(o Volume) bool { return v.Packets < o.Packets || v.Bytes < o.Bytes }
