package balance_test

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/toyproxy/toyproxy/balance"
	"github.com/toyproxy/toyproxy/dataplane"
)

// Servers of the node at a node port's number, or at an external IP that is the
// node's own, are told; others are not (fault 41).
func TestHiddenServers(t *testing.T) {
	told := func(field, port string) []string {
		return []string{"warning: Service default/web: " + field + ": a server of this node waits on tcp port " + port +
			" too, and is not reached any more except over loopback: the Service goes before; choose another port, or stop the server"}
	}
	nodePort, external := told("spec.ports[0].nodePort", "30080"), told("spec.externalIPs[0]", "80")
	for _, tc := range []struct {
		name, protocol, at string
		want               []string
	}{
		{"on all addresses", "tcp", "0.0.0.0:30080", nodePort},
		{"on all of both families", "tcp", "[::]:30080", nodePort},
		{"on the node's address", "tcp", "192.0.2.1:30080", nodePort},
		{"on an address without node ports", "tcp", "192.0.2.2:30080", nil},
		{"on loopback", "tcp", "127.0.0.1:30080", nil},
		{"another protocol", "udp", "0.0.0.0:30080", nil},
		{"another port", "tcp", "0.0.0.0:30081", nil},
		{"at the ClusterIP's port", "tcp", "192.0.2.1:81", nil},
		{"where an external IP is the node's", "tcp", "192.0.2.1:80", external},
	} {
		t.Run(tc.name, func(t *testing.T) {
			svc := openService(func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"192.0.2.1", "198.51.100.10"} })
			n := openNode()
			n.Addrs = addrsOf("192.0.2.1")
			table, _ := build(n, pods("a"), svc)
			server := balance.Server{Protocol: dataplane.TCP, At: netip.MustParseAddrPort(tc.at)}
			if tc.protocol == "udp" {
				server.Protocol = dataplane.UDP
			}
			got := balance.HiddenServers(table, []*corev1.Service{svc}, addrsOf("192.0.2.1", "192.0.2.2"), []balance.Server{server, server})
			equal(t, "problems", texts(got), tc.want)
		})
	}
}
