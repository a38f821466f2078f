package balance_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/toyproxy/toyproxy/balance"
)

// scenario is one of the collected scenarios of Kubernetes Services, by its id.
type scenario struct {
	id        string
	service   *corev1.Service
	endpoints []*discoveryv1.EndpointSlice
	flows     []string
}

func run(t *testing.T, scenarios []scenario) {
	t.Helper()
	for _, s := range scenarios {
		t.Run(s.id, func(t *testing.T) { checkFlows(t, openTable(t, s.service, s.endpoints), s.flows...) })
	}
}

// allRefused are flows of every source through every door of openService.
func allRefused() []string {
	var out []string
	for _, from := range []string{"P", "E", "N1"} {
		for _, to := range []string{"CIP:80", "XIP:80", "N1:30080", "LB1:80"} {
			out = append(out, from+" "+to+" = REFUSE")
		}
	}
	return out
}

// No endpoint: every door refuses everybody. With a policy, too.
func TestScenariosA(t *testing.T) {
	run(t, []scenario{
		{"A1 to A4", openService(), pods(), allRefused()},
		{"A1 to A4, no slice at all", openService(), nil, allRefused()},
		{"A1 to A4, none ready", openService(), pods("a@n1 -", "b@n2 t"), allRefused()},
		{"A1 to A4, policies Local", openService(external, internal), pods(), allRefused()},
		{"B19: blocked sources are dropped all the same", openService(ranges("203.0.113.0/25")), pods(),
			[]string{"B LB1:80 = DROP", "E LB1:80 = REFUSE", "B N1:30080 = REFUSE"}},
	})
}

func ranges(texts ...string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = texts }
}

func TestScenariosB(t *testing.T) {
	x := newService("x", "http:80/TCP")
	y := clusterIP(newService("y", "http:80/TCP", "https:443/TCP", "dns:53/UDP", "dns-tcp:53/TCP", "dns-sctp:53/SCTP"), places["Y"])
	slicesOf := map[string][]*discoveryv1.EndpointSlice{
		"x": pods("a@n1"),
		"y": {newSlice("y", ports("http:80/TCP", "https:8443/TCP", "dns:53/UDP", "dns-tcp:5353/TCP", "dns-sctp:53/SCTP"), expand([]string{"a@n1", "b@n2"})...)},
	}
	table, problems := balance.Join(openNode(), []balance.Part{
		balance.MakePart(openNode(), x, slicesOf["x"]), balance.MakePart(openNode(), y, slicesOf["y"]),
	})
	equal(t, "problems", texts(problems), nil)
	for _, s := range []struct{ id, flow string }{
		{"B1", "P CIP:80 = {a:80} -m"},
		{"B2", "a CIP:80 = {a:80} +m"},
		{"B3", "P Y:80 = {a:80,b:80} -m"},
		{"B4", "P Y:443 = {a:8443,b:8443} -m"},
		{"B5", "P Y:53 = {a:5353,b:5353} -m"},
		{"B6", "P Y:53/udp = {a:53,b:53} -m"},
		{"B7", "P Y:53/sctp = {a:53,b:53} -m"},
		{"B8", "P Y:80/udp = REFUSE"},
		{"B9", "P CIP:443 = REFUSE"},
		{"B10", "P FREE:80 = DROP"},
		{"D1: from the node", "N1 CIP:80 = {a:80} +m"},
		{"B22: from outside", "E CIP:80 = {a:80} +m"},
	} {
		t.Run(s.id, func(t *testing.T) { checkFlows(t, table, s.flow) })
	}
}

// Source ranges. The single endpoint has no node; N1 lies in the first range.
func TestScenariosC(t *testing.T) {
	restricted := openService(ranges("192.168.0.0/24", " 203.0.113.0/25"))
	run(t, []scenario{
		{"C1", restricted, pods("a"), []string{"P CIP:80 = {a:80} -m"}},
		{"C2", restricted, pods("a"), []string{"E N1:30080 = {a:80} +m", "B N1:30080 = {a:80} +m", "B XIP:80 = {a:80} +m"}},
		{"C3", restricted, pods("a"), []string{"E LB1:80 = {a:80} +m", "E LB2:80 = {a:80} +m"}},
		{"C4", restricted, pods("a"), []string{"B LB1:80 = DROP", "B LB2:80 = DROP"}},
		{"C5", restricted, pods("a"), []string{"P LB1:80 = DROP", "P LB2:80 = DROP"}},
		{"C6", restricted, pods("a"), []string{"N1 LB1:80 = {a:80} +m", "N1 LB2:80 = {a:80} +m"}},
		{"C7", restricted, pods("a"), []string{"LB1 LB1:80 = {a:80} +m", "LB2 LB2:80 = {a:80} +m"}},
		{"B18: no address of the node in range", openService(ranges("203.0.113.0/25")), pods("a"),
			[]string{"N1 LB1:80 = DROP", "LB1 LB1:80 = DROP", "E LB1:80 = {a:80} +m"}},
		{"B18: the secondary address does not count", openService(ranges("192.168.99.0/24")), pods("a"),
			[]string{"N2 LB1:80 = {a:80} +m", "LB1 LB1:80 = DROP"}},
		{"B18: a range that is everything", openService(ranges("203.0.113.0/25", "0.0.0.0/0")), pods("a"),
			[]string{"B LB1:80 = {a:80} +m", "P LB1:80 = {a:80} +m"}},
	})
}

func TestScenariosF(t *testing.T) {
	eps := pods("a", "b@n1")
	run(t, []scenario{
		{"eTP Local", openService(external), eps, []string{
			"P CIP:80 = {a:80,b:80} -m",
			"P XIP:80 = {a:80,b:80} -m", "P LB1:80 = {a:80,b:80} -m", "P N1:30080 = {a:80,b:80} -m",
			"E XIP:80 = {b:80} -m", "E LB1:80 = {b:80} -m", "E N1:30080 = {b:80} -m",
			"N1 XIP:80 = {a:80,b:80} +m", "N1 LB1:80 = {a:80,b:80} +m", "N1 N1:30080 = {a:80,b:80} +m"}},
		{"eTP Cluster", openService(), eps, []string{
			"P CIP:80 = {a:80,b:80} -m",
			"P XIP:80 = {a:80,b:80} +m", "P LB1:80 = {a:80,b:80} +m", "P N1:30080 = {a:80,b:80} +m",
			"E XIP:80 = {a:80,b:80} +m", "E LB1:80 = {a:80,b:80} +m", "E N1:30080 = {a:80,b:80} +m"}},
		{"C6: none here", openService(external), pods("a", "b@n2"), []string{
			"E XIP:80 = DROP", "E LB1:80 = DROP", "E N1:30080 = DROP", "P LB1:80 = {a:80,b:80} -m", "N1 LB1:80 = {a:80,b:80} +m", "E CIP:80 = {a:80,b:80} +m"}},
		{"C2: both policies Local", openService(external, internal), pods("a@n1", "b@n2"), []string{
			"P CIP:80 = {a:80} -m", "P LB1:80 = {a:80,b:80} -m", "E LB1:80 = {a:80} -m"}},
		{"C2: internal Local does not concern other doors", openService(internal), pods("a@n1", "b@n2"), []string{
			"P CIP:80 = {a:80} -m", "E CIP:80 = {a:80} +m", "E LB1:80 = {a:80,b:80} +m", "P N1:30080 = {a:80,b:80} +m"}},
	})
}

func TestScenariosH(t *testing.T) {
	for _, s := range []struct {
		id        string
		edit      []func(*corev1.Service)
		endpoints []*discoveryv1.EndpointSlice
		want      string
	}{
		{"H1", nil, pods("a@n1", "b@n2", "c@n2"), "{a:80,b:80,c:80} -m"},
		{"H2", []func(*corev1.Service){internal}, pods("a@n1", "b@n2", "c@n2"), "{a:80} -m"},
		{"H3", []func(*corev1.Service){internal}, pods("a@n1", "b@n1", "c@n2"), "{a:80,b:80} -m"},
		{"H4", []func(*corev1.Service){internal}, pods("a@n2", "b@n2", "c@n2"), "DROP"},
	} {
		t.Run(s.id, func(t *testing.T) {
			svc := openService(s.edit...)
			checkFlows(t, openTable(t, svc, s.endpoints), "P CIP:80 = "+s.want)
			checkFlows(t, openTable(t, svc, nil), "P CIP:80 = REFUSE")
		})
	}
}

// What terminates still serves when nothing else does, in each scope for itself.
func TestScenariosIJ(t *testing.T) {
	mixed := []string{"a@n1 rs", "b@n1 rs", "c@n1 st", "d@n1 t", "e@n2 rs"}
	for _, s := range []struct {
		id        string
		local     bool
		endpoints []string
		pod, ext  string
	}{
		{"I1", true, mixed, "{a:80,b:80,e:80} -m", "{a:80,b:80} -m"},
		{"I2", true, []string{"b@n1 st", "c@n1 st", "d@n1 t", "e@n2 rs"}, "{e:80} -m", "{b:80,c:80} -m"},
		{"I3", true, []string{"e@n2 st"}, "{e:80} -m", "DROP"},
		{"I4", true, []string{"d@n1 t", "e@n2 t"}, "REFUSE", "REFUSE"},
		{"J1", false, mixed, "{a:80,b:80,e:80} -m", "{a:80,b:80,e:80} +m"},
		{"J2", false, []string{"b@n1 st", "c@n1 st", "d@n1 t", "e@n2 st"}, "{b:80,c:80,e:80} -m", "{b:80,c:80,e:80} +m"},
		{"J3", false, []string{"e@n2 st"}, "{e:80} -m", "{e:80} +m"},
		{"J4", false, []string{"d@n1 t", "e@n2 t"}, "REFUSE", "REFUSE"},
	} {
		t.Run(s.id, func(t *testing.T) {
			svc := openService()
			if s.local {
				external(svc)
			}
			checkFlows(t, openTable(t, svc, pods(s.endpoints...)), "P CIP:80 = "+s.pod, "E LB1:80 = "+s.ext)
			checkFlows(t, openTable(t, svc, nil), "P CIP:80 = REFUSE", "E LB1:80 = REFUSE")
		})
	}
}
