package conntrack

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/lab"
)

// watched opens a watch of the node whose buffer for events has that size.
func watched(s *stage, buffer int) *Watch {
	var w *Watch
	s.Node.Do(func() {
		var err error
		if w, err = OpenWatch(); err != nil {
			lab.Skip(s.t, err)
		}
		_ = w.events.Close()
		if w.events, err = openSocket(buffer, 1<<(unix.NFNLGRP_CONNTRACK_DESTROY-1)); err != nil {
			s.t.Fatal(err)
		}
	})
	s.t.Cleanup(func() { _ = w.Close() })
	return w
}

// TestWatch: a dump has the flows with their counts, and their ends are told once.
func TestWatch(t *testing.T) {
	eachFamily(t, func(s *stage) {
		const flows = 20
		s.Node.Sysctl("net.netfilter.nf_conntrack_acct", "1")
		w := watched(s, eventBuffer)
		s.Pod(2).Serve(dataplane.UDP, 8080)
		to := s.at("10.96.0.10:53")
		s.rules(s.service(newTable(), dataplane.ClusterIP, "10.96.0.10:53", dataplane.UDP, "10.244.0.12:8080").Table)
		if got := lab.ProbeMany(s.Pod(1), dataplane.UDP, to, flows); got.Fates[lab.OK] != flows {
			t.Fatalf("%v: %v", got.Fates, got.Failure)
		}
		var seen, ended []Counted
		collect := func(into *[]Counted) func(Counted) {
			return func(c Counted) {
				if c.Original.Destination == to {
					*into = append(*into, c)
				}
			}
		}
		if err := w.Dump(t.Context(), collect(&seen)); err != nil {
			t.Fatal(err)
		}
		s.Node.Run("conntrack", "-D", "-f", map[dataplane.Family]string{dataplane.IPv4: "ipv4", dataplane.IPv6: "ipv6"}[s.family], "-p", "udp", "--dport", "53")
		for deadline := time.Now().Add(time.Minute); packets(ended) < flows && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			if err := w.Ended(collect(&ended)); err != nil {
				t.Fatal(err)
			}
		}
		for _, all := range [][]Counted{seen, ended} {
			if packets(all) != flows || len(all) != len(seen) {
				t.Fatalf("%d flows of %d packets in the dump, %d of %d at their ends, want %d packets", len(seen), packets(seen), len(ended), packets(ended), flows)
			}
			for _, c := range all {
				if c.Sent.Packets == 0 || c.Answered.Packets != c.Sent.Packets || c.Sent.Bytes < 28 || c.Answered.Bytes < 48 || c.Over || c.Endpoint().Addr() != s.Pod(2).Addr(s.family) {
					t.Errorf("%s: %+v", c.Flow, c)
				}
			}
		}
	})
}

// packets are those sent over some flows. Two probes may get the same port from the
// kernel, one after the other, and so be one flow of two packets.
func packets(all []Counted) (n uint64) {
	for _, c := range all {
		n += c.Sent.Packets
	}
	return n
}

// TestWatchOverflow: ends that did not fit are told of as lost, once; what fits, and
// what comes later, is told.
func TestWatchOverflow(t *testing.T) {
	s := newStage(t, dataplane.IPv4)
	const flows = 200
	w := watched(s, 8<<10)
	s.Pod(2).Serve(dataplane.UDP, 8080)
	s.rules(s.service(newTable(), dataplane.ClusterIP, "10.96.0.10:53", dataplane.UDP, "10.244.0.12:8080").Table)
	end := func(flows int) (ended int, err error) {
		lab.ProbeMany(s.Pod(1), dataplane.UDP, netip.MustParseAddrPort("10.96.0.10:53"), flows)
		s.Node.Run("conntrack", "-D", "-p", "udp", "--dport", "53")
		err = w.Ended(func(c Counted) {
			if c.Original.Destination.Port() == 53 {
				ended++
			}
		})
		return ended, err
	}
	if n, err := end(flows); !errors.Is(err, ErrLost) || n == 0 || n >= flows {
		t.Errorf("%d of %d ends told, error %v; want some, and ErrLost", n, flows, err)
	}
	if n, err := end(2); err != nil || n != 2 {
		t.Errorf("afterwards: %d of 2 ends told, error %v", n, err)
	}
}

// BenchmarkDecode is what an entry of a dump costs beside what the kernel does.
func BenchmarkDecode(b *testing.B) {
	m := message(flow("tcp 10.244.0.2:4000 10.96.0.53:53 10.244.0.5:53"))
	m = attribute(m, ctaCountersOrig|nested, attribute(attribute(nil, ctaCountPackets, make([]byte, 8)), ctaCountBytes, make([]byte, 8)))
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := decodeCounted(m); !ok {
			b.Fatal("not decoded")
		}
	}
}

// TestDecodeCounts: counts, the end, and whether it is being told.
func TestDecodeCounts(t *testing.T) {
	m := message(flow("tcp 10.244.0.2:4000 10.96.0.53:53 10.244.0.5:53"))
	volume := func(packets, bytes uint64) []byte {
		b := attribute(nil, ctaCountPackets, binary.BigEndian.AppendUint64(nil, packets))
		return attribute(b, ctaCountBytes, binary.BigEndian.AppendUint64(nil, bytes))
	}
	m = attribute(m, ctaCountersOrig|nested, volume(1, 2))
	m = attribute(m, ctaCountersReply|nested, volume(3, 1<<40))
	m = attribute(m, ctaStatus, binary.BigEndian.AppendUint32(nil, statusDying))
	c, ok := decodeCounted(m)
	if want := (Volume{1, 2}); !ok || c.Sent != want || c.Answered != (Volume{3, 1 << 40}) || c.Over || !c.dying {
		t.Errorf("%+v, %v", c, ok)
	}
	for _, tc := range []struct {
		kind  uint16
		p     dataplane.Protocol
		state byte
		want  bool
	}{
		{ctaInfoTCP, dataplane.TCP, 3, false}, {ctaInfoTCP, dataplane.TCP, stateTimeWait, true}, {ctaInfoTCP, dataplane.TCP, stateTCPClosed, true},
		{ctaInfoSCTP, dataplane.SCTP, 4, false}, {ctaInfoSCTP, dataplane.SCTP, stateSCTPClosed, true}, {ctaInfoSCTP, dataplane.SCTP, 7, true},
	} {
		f := flow("tcp 10.244.0.2:4000 10.96.0.53:53 10.244.0.5:53")
		f.Protocol = tc.p
		m := attribute(message(f), ctaProtoInfo|nested, attribute(nil, tc.kind|nested, attribute(nil, ctaInfoState, []byte{tc.state})))
		if c, ok := decodeCounted(m); !ok || c.Over != tc.want {
			t.Errorf("%s in state %d: over %v", tc.p, tc.state, c.Over)
		}
	}
}
