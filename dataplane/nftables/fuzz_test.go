package nftables

import (
	"testing"

	"github.com/google/nftables/expr"

	"github.com/toyproxy/toyproxy/dataplane"
)

// FuzzState proves that no message makes the readers panic, or read beyond its
// end: what calls itself our table may come from any program.
func FuzzState(f *testing.F) {
	raw, err := expr.Marshal(byte(protocolFamily(dataplane.IPv4)), &expr.Numgen{Register: 1, Modulus: 3, Type: 1})
	if err != nil {
		f.Fatal(err)
	}
	name := append([]byte{byte(len(tableName) + 5), 0, 1, 0}, tableName+"\x00"...)
	for _, seed := range [][]byte{nil, {4, 0, 1, 0}, {3, 0, 1, 0}, {255, 255, 1, 0}, name, raw, append(append([]byte{}, name...), raw...)} {
		f.Add(seed)
	}
	f.Fuzz(func(_ *testing.T, message []byte) {
		s := state{sets: map[string]setState{}, chains: map[string]chainState{}}
		s.readTable(message)
		s.readChain(message)
		s.readSet(message)
		s.readRule(dataplane.IPv6, message)
		for _, k := range []kind{addresses, endpointRows, chainRows} {
			set := setState{shape: shapeOf(dataplane.IPv4, k)}
			set.empty(dataplane.IPv4)
			set.readElements(message)
		}
		canonicalExpression(dataplane.IPv4, message)
		ordersOneByte(message)
	})
}
