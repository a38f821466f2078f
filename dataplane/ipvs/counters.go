package ipvs

import (
	"context"
	"slices"

	"github.com/toyproxy/toyproxy/dataplane"
)

var _ dataplane.Counting = (*Backend)(nil)

// Counters reads what the kernel has counted at each virtual server of ours. It
// adds up what several have counted for one frontend. The kernel brings its
// numbers up to date every two seconds.
func (b *Backend) Counters(ctx context.Context) ([]dataplane.Counter, error) {
	b.modules.Do(func() { loadModules(ctx) })
	k, err := openKernel()
	if err != nil {
		return nil, err
	}
	defer k.close()
	var list []countedServer
	err = k.eachServer(ctx, func() { list = list[:0] }, func(body []byte) error {
		c, err := decodeCounted(body)
		list = append(list, c)
		return err
	})
	if err != nil {
		return nil, err
	}
	sums := map[dataplane.Key]dataplane.Counter{}
	for _, f := range families() {
		o := observed{family: f.family}
		if err := k.readOwnership(ctx, &o); err != nil {
			return nil, err
		}
		o.count(list, sums)
	}
	return sortedCounters(sums), nil
}

// count adds what virtual servers of ours have counted to the sums.
func (o observed) count(list []countedServer, sums map[dataplane.Key]dataplane.Counter) {
	marked := o.marked()
	for _, v := range list {
		if dataplane.FamilyOf(v.Addr) != o.family || !o.owns(v.serverID) {
			continue
		}
		key := v.Key
		if v.mark != 0 {
			key = marked[v.mark]
		}
		sums[key] = v.counted.add(sums[key], key)
	}
}

// marked returns for each mark the first of the frontends, all of one Service
// port, whose packets it chooses a virtual server for.
func (o observed) marked() map[uint32]dataplane.Key {
	out := map[uint32]dataplane.Key{}
	for _, k := range []setKind{markPod, markNode, markOutside} {
		for e := range o.entries(k) {
			if first, ok := out[e.mark]; !ok || e.key().Compare(first) < 0 {
				out[e.mark] = e.key()
			}
		}
	}
	return out
}

func sortedCounters(sums map[dataplane.Key]dataplane.Counter) []dataplane.Counter {
	out := make([]dataplane.Counter, 0, len(sums))
	for _, c := range sums {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b dataplane.Counter) int { return a.Key.Compare(b.Key) })
	return out
}

// countedServer is a virtual server with what was counted at it.
type countedServer struct {
	serverID
	counted
}

// counted are the kernel's numbers of one virtual server.
type counted struct{ connections, packetsIn, packetsOut, bytesIn, bytesOut uint64 }

// add returns the sum of a counter and these numbers, as that of a frontend.
func (c counted) add(sum dataplane.Counter, key dataplane.Key) dataplane.Counter {
	return dataplane.Counter{
		Key: key, Connections: sum.Connections + c.connections,
		PacketsIn: sum.PacketsIn + c.packetsIn, PacketsOut: sum.PacketsOut + c.packetsOut,
		BytesIn: sum.BytesIn + c.bytesIn, BytesOut: sum.BytesOut + c.bytesOut,
	}
}
