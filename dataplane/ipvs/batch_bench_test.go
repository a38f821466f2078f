package ipvs

import (
	"context"
	"fmt"
	"testing"

	"github.com/moby/ipvs"
	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/lab"
)

// BenchmarkServers measures how long it takes to make the virtual servers of many
// Services of ten endpoints, and to read them again: by a library that makes one
// call for each, and as this package does.
func BenchmarkServers(b *testing.B) {
	for _, n := range [...]int{1000, 10_000} {
		b.Run(fmt.Sprintf("%d/moby", n), func(b *testing.B) { benchmarkServers(b, n, mobyWrite, mobyRead) })
		b.Run(fmt.Sprintf("%d/batch", n), func(b *testing.B) { benchmarkServers(b, n, batchWrite, batchRead) })
	}
}

func benchmarkServers(b *testing.B, n int, write func(testing.TB, []virtualServer), read func(testing.TB) int) {
	lab.Require(b, lab.Namespaces, lab.IPVS, lab.IPSet)
	servers := newTarget(many(n), dataplane.IPv4, "rr").servers
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			node := lab.New(b).Node
			b.StartTimer()
			node.Do(func() { write(b, servers) })
		}
	})
	node := lab.New(b).Node
	node.Do(func() { batchWrite(b, servers) })
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			node.Do(func() {
				if got := read(b); got != 11*n {
					b.Fatalf("%d servers, want %d", got, 11*n)
				}
			})
		}
	})
}

// batchWrite is the way of this package.
func batchWrite(b testing.TB, servers []virtualServer) {
	var s steps
	s.raiseServers(target{servers: servers}, observed{})
	if err := (&phase{steps: s}).Apply(context.Background()); err != nil {
		b.Fatal(err)
	}
}

func batchRead(b testing.TB) int {
	k, err := openKernel()
	if err != nil {
		b.Fatal(err)
	}
	defer k.close()
	list, err := k.listServers(context.Background(), 0)
	if err != nil {
		b.Fatal(err)
	}
	n := len(list)
	var real []realServer
	for _, v := range list {
		if real, err = k.readReal(context.Background(), v.serverID, real); err != nil {
			b.Fatal(err)
		}
		n += len(real)
	}
	return n
}

// mobyRead reads what batchRead reads.
func mobyRead(b testing.TB) int {
	h, err := ipvs.New("")
	if err != nil {
		b.Fatal(err)
	}
	defer h.Close()
	list, err := h.GetServices()
	if err != nil {
		b.Fatal(err)
	}
	n := len(list)
	for _, s := range list {
		real, err := h.GetDestinations(s)
		if err != nil {
			b.Fatal(err)
		}
		n += len(real)
	}
	return n
}

// mobyWrite makes one call for each server.
func mobyWrite(b testing.TB, servers []virtualServer) {
	h, err := ipvs.New("")
	if err != nil {
		b.Fatal(err)
	}
	defer h.Close()
	for _, v := range servers {
		s := &ipvs.Service{Address: v.Addr.AsSlice(), Protocol: uint16(v.Protocol), Port: v.Port, AddressFamily: unix.AF_INET,
			SchedName: v.scheduler, Netmask: 0xffffffff}
		if err := h.NewService(s); err != nil {
			b.Fatal(err)
		}
		for _, r := range v.real {
			d := &ipvs.Destination{Address: r.addr.addrPort().Addr().AsSlice(), Port: r.addr.port, Weight: int(r.weight)}
			if err := h.NewDestination(s, d); err != nil {
				b.Fatal(err)
			}
		}
	}
}
