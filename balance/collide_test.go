package balance_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/balance"
	"github.com/toyproxy/toyproxy/dataplane"
)

// named is a Service of its own ClusterIP and nothing else.
func named(name, vip string, edits ...func(*corev1.Service)) *corev1.Service {
	s := clusterIP(newService(name, "http:80/TCP"), vip)
	for _, edit := range edits {
		edit(s)
	}
	return s
}

func withNodePort(number int32) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.Type, s.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, number }
}

func withExternal(ips ...string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.ExternalIPs = ips }
}

func withBalancer(ip string) func(*corev1.Service) {
	return func(s *corev1.Service) {
		s.Spec.Type = corev1.ServiceTypeLoadBalancer
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip}}
	}
}

func born(year int) func(*corev1.Service) {
	return func(s *corev1.Service) { s.CreationTimestamp = metav1.Date(year, 1, 1, 0, 0, 0, 0, time.UTC) }
}

// ownersOf returns the Service ports that have the frontend of a key.
func ownersOf(frontends []dataplane.Frontend, key string) []string {
	var out []string
	for _, fe := range frontends {
		if fe.Key.String() == key {
			out = append(out, fe.Service)
		}
	}
	return out
}

// B25: whoever claims what, through whatever door: the older has it, the other
// is told and takes over when the older goes.
func TestDoorsCollide(t *testing.T) {
	const rest = ", which is older or first by name: choose another address or port, or leave it out to be given one"
	for _, tc := range []struct {
		name          string
		winner, loser *corev1.Service
		key, problem  string
	}{
		{"node port and node port", named("a", "10.96.1.1", withNodePort(30080)), named("b", "10.96.1.2", withNodePort(30080)), "0.0.0.0:30080/tcp",
			"spec.ports[0].nodePort: 0.0.0.0:30080/tcp already belongs to Service default/a"},
		{"external IP and external IP", named("a", "10.96.1.1", withExternal("198.51.100.9")), named("b", "10.96.1.2", withExternal("198.51.100.9")), "198.51.100.9:80/tcp",
			"spec.externalIPs[0]: 198.51.100.9:80/tcp already belongs to Service default/a"},
		{"load balancer and external IP", named("z", "10.96.1.1", withBalancer("198.51.100.9"), born(2024)), named("b", "10.96.1.2", withExternal("198.51.100.9"), born(2025)), "198.51.100.9:80/tcp",
			"spec.externalIPs[0]: 198.51.100.9:80/tcp already belongs to Service default/z"},
		{"external IP and load balancer", named("z", "10.96.1.1", withExternal("198.51.100.9"), born(2024)), named("b", "10.96.1.2", withBalancer("198.51.100.9"), born(2025)), "198.51.100.9:80/tcp",
			"status.loadBalancer.ingress[0].ip: 198.51.100.9:80/tcp already belongs to Service default/z"},
		{"load balancer and load balancer, one with ranges", named("a", "10.96.1.1", withBalancer("198.51.100.9")), named("b", "10.96.1.2", withBalancer("198.51.100.9"), ranges("10.0.0.0/8")), "198.51.100.9:80/tcp",
			"status.loadBalancer.ingress[0].ip: 198.51.100.9:80/tcp already belongs to Service default/a"},
		{"two ClusterIPs, one Service not seen before", named("z", "10.96.1.1", born(2024)), named("b", "10.96.1.1"), "10.96.1.1:80/tcp",
			"spec.clusterIP: 10.96.1.1:80/tcp already belongs to Service default/z"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, services := range [][]*corev1.Service{{tc.winner, tc.loser}, {tc.loser, tc.winner}} {
				table, problems := build(openNode(), pods("a@n1"), services...)
				equal(t, "owner", ownersOf(table.Frontends, tc.key), []string{"default/" + tc.winner.Name + ":http"})
				equal(t, "problems", texts(problems), []string{"Service default/" + tc.loser.Name + ": " + tc.problem + rest})
				if len(table.Sets) != len(services) && tc.loser.Spec.ClusterIP+":80/tcp" != tc.key {
					t.Errorf("the loser lost more than the claim: %v", show(table))
				}
			}
			table, problems := build(openNode(), pods("a@n1"), tc.loser)
			equal(t, "owner after the winner is gone", ownersOf(table.Frontends, tc.key), []string{"default/" + tc.loser.Name + ":http"})
			equal(t, "problems", texts(problems), nil)
		})
	}
}

// A ClusterIP is nobody else's, however old he is who writes it into another
// field.
func TestClusterIPGoesFirst(t *testing.T) {
	for _, edit := range []func(*corev1.Service){withExternal("10.96.1.1"), withBalancer("10.96.1.1")} {
		for _, year := range []int{2024, 2026} {
			a, b := named("a", "10.96.1.2", edit, born(year)), named("b", "10.96.1.1", born(2025))
			for _, services := range [][]*corev1.Service{{a, b}, {b, a}} {
				table, problems := build(openNode(), pods("a@n1"), services...)
				equal(t, "owner", ownersOf(table.Frontends, "10.96.1.1:80/tcp"), []string{"default/b:http"})
				if got := texts(problems); len(got) != 1 || !strings.Contains(got[0], "10.96.1.1:80/tcp is the ClusterIP of Service default/b") {
					t.Errorf("problems: %v", got)
				}
			}
		}
	}
}

// One address through two doors of one Service: the restricted one counts.
func TestDoorsOfOneServiceCollide(t *testing.T) {
	svc := openService(ranges("203.0.113.0/25"), withExternal(places["LB1"]))
	checkFlows(t, openTable(t, svc, pods("a@n1")), "B LB1:80 = DROP", "E LB1:80 = {a:80} +m")
	table, problems := build(openNode(), pods("a@n1"), openService(ranges("bad"), withExternal(places["LB1"])))
	checkFlows(t, table, "E LB1:80 = NONE", "P CIP:80 = {a:80} -m")
	if len(problems) != 1 {
		t.Errorf("problems: %v", texts(problems))
	}
	svc = openService(withExternal("10.96.0.10"))
	checkFlows(t, openTable(t, svc, pods("a@n1")), "P CIP:80 = {a:80} -m")
	svc = newService("web", "http:80/TCP", "alt:81/TCP")
	svc.Spec.Type = corev1.ServiceTypeNodePort
	svc.Spec.Ports[0].NodePort, svc.Spec.Ports[1].NodePort = 30080, 30080
	table, problems = build(openNode(), nil, svc)
	equal(t, "table", show(table), []string{"0.0.0.0:30080/tcp refuse", "10.96.0.10:80/tcp refuse", "10.96.0.10:81/tcp refuse"})
	equal(t, "problems", texts(problems), []string{"Service default/web: spec.ports: 0.0.0.0:30080/tcp occurs twice in this Service, the first is used: give each port its own number and protocol"})
}

// An external IP that is the node's own address goes before a node port there if
// its Service is older; on the other addresses the node port answers. If it is
// younger it is not given, and the node port answers everywhere.
func TestNodePortAndAddressOfNode(t *testing.T) {
	a := named("a", "10.96.1.1", withNodePort(30080), born(2025))
	for _, tc := range []struct {
		name    string
		edits   []func(*corev1.Service)
		flow    string
		problem string
	}{
		{"older", []func(*corev1.Service){withExternal(places["N1"]), born(2024)}, "E N1:30080 = {b:80} +m",
			"warning: Service default/a: spec.ports[0].nodePort: node port 30080 does not answer on 192.168.0.2:30080/tcp, which Service default/b has as its ExternalIP: choose another node port"},
		{"younger", []func(*corev1.Service){withExternal("198.51.100.9", places["N1"]), born(2026)}, "E N1:30080 = {a:80} +m",
			"Service default/b: spec.externalIPs[1]: 192.168.0.2:30080/tcp is an address of this node with the node port of Service default/a, which is older or first by name: choose another address or port"},
		{"younger balancer", []func(*corev1.Service){withBalancer(places["N1"]), born(2026)}, "E N1:30080 = {a:80} +m",
			"Service default/b: status.loadBalancer.ingress[0].ip: 192.168.0.2:30080/tcp is an address of this node with the node port of Service default/a, which is older or first by name: choose another address or port"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := named("b", "10.96.1.2", append(tc.edits, func(s *corev1.Service) { s.Spec.Ports[0].Port = 30080 })...)
			table, problems := balance.Join(openNode(), []balance.Part{
				balance.MakePart(openNode(), a, pods("a@n1")), balance.MakePart(openNode(), b, pods("b@n1")),
			})
			checkFlows(t, table, tc.flow, "E N2:30080 = {a:80} +m")
			equal(t, "problems", texts(problems), []string{tc.problem})
		})
	}
}

// What a node port takes from a younger Service that one has again when the node
// port goes, in one change with it; and whose node port it is, it is told.
func TestLedgerPassesOnNodePorts(t *testing.T) {
	n := openNode()
	part := func(svc *corev1.Service) balance.Part { return balance.MakePart(n, svc, pods("a@n1")) }
	np := named("np", "10.96.1.1", withNodePort(80), born(2024))
	young := named("y", "10.96.1.2", withExternal(places["N1"]), born(2025))
	l := balance.NewLedger(n, []balance.Part{part(young)})
	d, _ := l.Update([]balance.Part{part(np)}, nil)
	equal(t, "before the node port", keysOf(d.Before), []string{"10.96.1.2:80/tcp", "192.168.0.2:80/tcp"})
	equal(t, "after it came", keysOf(d.After), []string{"0.0.0.0:80/tcp", "10.96.1.1:80/tcp", "10.96.1.2:80/tcp"})
	older := named("older", "10.96.1.3", withNodePort(80), born(2023))
	_, told := l.Update([]balance.Part{part(older)}, nil)
	equal(t, "told of another node port", told, []types.NamespacedName{nameIn("np"), nameIn("older"), nameIn("y")})
	if got := texts(l.ProblemsOf(nameIn("y"))); len(got) != 1 || !strings.Contains(got[0], "the node port of Service default/older,") {
		t.Errorf("problems: %v", got)
	}
	l.Update(nil, []types.NamespacedName{nameIn("older")})
	d, told = l.Update(nil, []types.NamespacedName{nameIn("np")})
	equal(t, "after it went", keysOf(d.After), []string{"10.96.1.2:80/tcp", "192.168.0.2:80/tcp"})
	equal(t, "told", told, []types.NamespacedName{nameIn("np"), nameIn("y")})
}
