package balance_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/toyproxy/toyproxy/balance"
)

// hintedPods are endpoints written "a@n1 rs > z1 z2 n:n1": hints for zones, and
// with n: before it for a node.
func hintedPods(texts ...string) []*discoveryv1.EndpointSlice {
	var plain []string
	for _, text := range texts {
		before, _, _ := strings.Cut(text, " >")
		plain = append(plain, before)
	}
	out := pods(plain...)
	for i, text := range texts {
		_, after, _ := strings.Cut(text, " >")
		for _, word := range strings.Fields(after) {
			ep := &out[0].Endpoints[i]
			if ep.Hints == nil {
				ep.Hints = &discoveryv1.EndpointHints{}
			}
			if node, ok := strings.CutPrefix(word, "n:"); ok {
				ep.Hints.ForNodes = append(ep.Hints.ForNodes, discoveryv1.ForNode{Name: node})
			} else {
				ep.Hints.ForZones = append(ep.Hints.ForZones, discoveryv1.ForZone{Name: word})
			}
		}
	}
	return out
}

// C17, C18, C20: which hints are followed by node n1 in zone z1.
func TestHints(t *testing.T) {
	for _, tc := range []struct {
		id        string
		edit      func(*corev1.Service)
		endpoints []string
		flows     []string
	}{
		{"C17: own zone", nil, []string{"a@n1 rs > z1", "b@n2 rs > z2"}, []string{"P CIP:80 = {a:80} -m", "E LB1:80 = {a:80} +m"}},
		{"C17: several zones", nil, []string{"a@n2 rs > z2 z1", "b@n2 rs > z2"}, []string{"P CIP:80 = {a:80} -m"}},
		{"C17: one without a hint", nil, []string{"a@n1 rs > z1", "b@n2 rs"}, []string{"P CIP:80 = {a:80,b:80} -m"}},
		{"C17: no zone matches", nil, []string{"a@n1 rs > z3", "b@n2 rs > z2"}, []string{"P CIP:80 = {a:80,b:80} -m"}},
		{"C17: one not ready without a hint", nil, []string{"a@n1 rs > z1", "b@n2 rs > z2", "c@n2 -", "d@n2 st"}, []string{"P CIP:80 = {a:80} -m"}},
		{"C17: hinted here, not ready", nil, []string{"a@n1 - > z1", "b@n2 rs > z2"}, []string{"P CIP:80 = {b:80} -m"}},
		{"C17: none ready, leaving ones need no hint", nil, []string{"a@n1 st > z2", "b@n2 st"}, []string{"P CIP:80 = {a:80,b:80} -m"}},
		{"C18: own node before own zone", nil, []string{"a@n1 rs > z1 n:n1", "b@n2 rs > z1 n:n2"}, []string{"P CIP:80 = {a:80} -m"}},
		{"C18: no node matches, a zone does", nil, []string{"a@n3 rs > z1 n:n3", "b@n2 rs > z2 n:n2"}, []string{"P CIP:80 = {a:80} -m"}},
		{"C18: one without a node hint", nil, []string{"a@n1 rs > z1 n:n1", "b@n2 rs > z1"}, []string{"P CIP:80 = {a:80,b:80} -m"}},
		{"C18: nodes only", nil, []string{"a@n1 rs > n:n1", "b@n2 rs > n:n2"}, []string{"P CIP:80 = {a:80} -m"}},
		{"C20: the local scope ignores hints", external, []string{"a@n1 rs > z2", "b@n1 rs > z1", "c@n2 rs > z2"},
			[]string{"E LB1:80 = {a:80,b:80} -m", "P CIP:80 = {b:80} -m", "P LB1:80 = {b:80} -m", "N1 LB1:80 = {b:80} +m"}},
		{"C20: internal Local, too", internal, []string{"a@n1 rs > z2", "b@n2 rs > z1"}, []string{"P CIP:80 = {a:80} -m", "P LB1:80 = {b:80} +m"}},
		{"C20: the policies' scopes fall back on their own", external, []string{"a@n1 st", "b@n2 rs > z1", "c@n2 rs > z2"},
			[]string{"E LB1:80 = {a:80} -m", "P LB1:80 = {b:80} -m"}},
	} {
		t.Run(tc.id, func(t *testing.T) {
			svc := openService()
			if tc.edit != nil {
				tc.edit(svc)
			}
			checkFlows(t, openTable(t, svc, hintedPods(tc.endpoints...)), tc.flows...)
		})
	}
}

// C21: what the node does not know of itself is not followed.
func TestHintsOfAnUnknownNode(t *testing.T) {
	eps := hintedPods("a@n1 rs > z1 n:n1", "b@n2 rs > z2 n:n2")
	for _, tc := range []struct {
		name string
		edit func(*balance.Node)
		want string
	}{
		{"known", func(*balance.Node) {}, "{a:80} -m"},
		{"other node of the zone", func(n *balance.Node) { n.Name, n.Zone = "n9", "z2" }, "{b:80} -m"},
		{"no zone label", func(n *balance.Node) { n.Name, n.Zone = "n9", "" }, "{a:80,b:80} -m"},
		{"nothing", func(n *balance.Node) { n.Name, n.Zone = "", "" }, "{a:80,b:80} -m"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := openNode()
			tc.edit(&n)
			table, _ := build(n, eps, openService())
			checkFlows(t, table, "P CIP:80 = "+tc.want)
		})
	}
}
