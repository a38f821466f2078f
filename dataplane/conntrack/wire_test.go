package conntrack

import (
	"encoding/binary"
	"testing"

	"github.com/toyproxy/toyproxy/dataplane"
)

// message makes what the kernel would send for a flow.
func message(f Flow) []byte {
	// The request has the family, the original tuple and the identity.
	b := deleteRequest(f)
	reply := deleteRequest(Flow{Protocol: f.Protocol, Original: f.Reply})
	for tag, v := range attributes(reply[headerSize:]) {
		if tag == ctaTupleOrig {
			b = attribute(b, ctaTupleReply|nested, v)
		}
	}
	status := uint32(statusSeenReply)
	if f.Opening {
		status = 0
	}
	if f.Rewritten {
		status |= statusDstNAT
	}
	b = attribute(b, ctaStatus, binary.BigEndian.AppendUint32(nil, status))
	kind, state := map[dataplane.Protocol]uint16{dataplane.TCP: ctaInfoTCP, dataplane.SCTP: ctaInfoSCTP}[f.Protocol], byte(3)
	if f.Opening {
		state = map[dataplane.Protocol]byte{dataplane.TCP: stateSynSent, dataplane.SCTP: stateCookieWait}[f.Protocol]
	}
	if kind != 0 {
		b = attribute(b, ctaProtoInfo|nested, attribute(nil, kind|nested, attribute(nil, ctaInfoState, []byte{state})))
	}
	return b
}

func TestDecode(t *testing.T) {
	for _, text := range []string{
		"udp 10.244.0.2:4000 10.96.0.53:53 10.244.0.5:53",
		"udp 10.244.0.2:4000 10.96.0.53:53 10.96.0.53:53",
		"udp [fd00:10:244::2]:4000 [fd00:10:96::53]:53 [fd00:10:244::5]:53",
		"tcp 10.244.0.2:4000 10.96.0.53:53 10.244.0.5:53",
		"tcp 10.244.0.2:4000 10.96.0.53:53 10.96.0.53:53 opening",
		"sctp [fd00:10:244::2]:4000 [fd00:10:96::53]:53 [fd00:10:244::5]:53 opening",
		"sctp 10.244.0.2:4000 10.96.0.53:53 10.244.0.5:53",
	} {
		want := flow(text)
		want.ID = 0xfeedbeef
		if got, ok := decode(message(want)); !ok || got != want {
			t.Errorf("%s: %+v, %t", text, got, ok)
		}
	}
}

func TestDecodeOthers(t *testing.T) {
	udp := message(flow("udp 10.244.0.2:4000 10.96.0.53:53 10.244.0.5:53"))
	icmp := flow("udp 10.244.0.2:4000 10.96.0.53:53 10.244.0.5:53")
	icmp.Protocol = 1
	unanswered := flow("tcp 10.244.0.2:4000 10.96.0.53:53 10.244.0.5:53")
	for name, m := range map[string][]byte{
		"nothing": nil, "header": udp[:4], "half": udp[:40], "ICMP": message(icmp),
		"a zone": attribute(udp, ctaZone, []byte{0, 7}),
	} {
		if f, ok := decode(m); ok {
			t.Errorf("%s: %s", name, f)
		}
	}
	// A connection that was picked up in the middle has had no answer either.
	m := message(unanswered)
	m = attribute(m, ctaStatus, []byte{0, 0, 0, 0})
	if f, ok := decode(m); !ok || f.Opening {
		t.Errorf("picked up in the middle: %+v, %t", f, ok)
	}
}

// FuzzDecode proves that no message of the kernel, whatever is in it, ends the
// program.
func FuzzDecode(f *testing.F) {
	f.Add(message(flow("tcp 10.244.0.2:4000 10.96.0.53:53 10.244.0.5:53 opening")))
	f.Add(message(flow("udp [fd00:10:244::2]:4000 [fd00:10:96::53]:53 [fd00:10:244::5]:53")))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, ok := decode(b); ok && (!got.Original.Source.IsValid() || !got.Reply.Destination.IsValid()) {
			t.Errorf("%+v", got)
		}
	})
}
