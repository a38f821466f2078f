package dataplane

import "context"

// Counter is what the kernel has counted at one frontend since its kernel objects
// were made: a frontend that goes and comes back begins at zero.
type Counter struct {
	// Key is the frontend, with the very address that was dialled: for a NodePort
	// there is one counter for each address of the node. Where a backend counts
	// for several frontends of one Service port at once, it is the first of them.
	Key Key
	// Connections is the number of flows that were given an endpoint.
	Connections uint64
	// PacketsIn and BytesIn came from clients, PacketsOut and BytesOut from
	// endpoints. Bytes are those of whole IP packets.
	PacketsIn, PacketsOut, BytesIn, BytesOut uint64
}

// Counting is a Backend whose kernel objects count what they serve.
type Counting interface {
	// Counters reads the counters of every frontend that is served, sorted by Key.
	// It writes nothing. A kernel that lacks what the backend needs gives an error
	// that wraps ErrUnsupported.
	Counters(context.Context) ([]Counter, error)
}
