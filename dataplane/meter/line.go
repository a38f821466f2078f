package meter

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/conntrack"
)

// Line is what one Service port has carried.
type Line struct {
	// Service is the origin of its frontends: "namespace/name:port".
	Service  string
	Protocol dataplane.Protocol
	Count
	// Endpoints are those it has now and those that still have flows, by address.
	Endpoints []Endpoint
}

// Endpoint is the part of one endpoint in a Line.
type Endpoint struct {
	Addr netip.AddrPort
	// Name is the Pod, "namespace/name"; empty when it is not known.
	Name string
	Count
}

// Count is an amount of traffic.
type Count struct {
	// Connections is the number of flows that were given an endpoint: connections of
	// TCP and SCTP, for UDP what one client port sends without a long pause.
	Connections uint64
	// Active is how many of them there are now. It is as of the last dump.
	Active int
	// In came from clients, Out from endpoints.
	In, Out conntrack.Volume
}

// Since returns what has come since an earlier count; Active is that of now. A
// count that has begun anew is taken whole.
func (c Count) Since(earlier Count) Count {
	if c.Connections < earlier.Connections || c.In.Less(earlier.In) || c.Out.Less(earlier.Out) {
		return c
	}
	return Count{c.Connections - earlier.Connections, c.Active, c.In.Since(earlier.In), c.Out.Since(earlier.Out)}
}

func (c *Count) add(in, out conntrack.Volume) {
	c.In, c.Out = c.In.Add(in), c.Out.Add(out)
}

// Compare orders lines by Service and protocol.
func (l Line) Compare(o Line) int {
	return cmp.Or(cmp.Compare(l.Service, o.Service), cmp.Compare(l.Protocol, o.Protocol))
}

// Since returns what lines have carried since earlier ones, both sorted. A line
// that was not there before counts from zero.
func Since(now, earlier []Line) []Line {
	out := make([]Line, len(now))
	for i, l := range now {
		out[i] = l
		j, found := slices.BinarySearchFunc(earlier, l, Line.Compare)
		if !found {
			continue
		}
		out[i].Count = l.Count.Since(earlier[j].Count)
		out[i].Endpoints = endpointsSince(l.Endpoints, earlier[j].Endpoints)
	}
	return out
}

func endpointsSince(now, earlier []Endpoint) []Endpoint {
	out := slices.Clone(now)
	for i, e := range now {
		j, found := slices.BinarySearchFunc(earlier, e, func(a, b Endpoint) int { return a.Addr.Compare(b.Addr) })
		if found {
			out[i].Count = e.Count.Since(earlier[j].Count)
		}
	}
	return out
}
