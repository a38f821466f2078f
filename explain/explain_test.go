package explain_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/cluster/manifest"
	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/iptables"
	"github.com/toyproxy/toyproxy/dataplane/ipvs"
	"github.com/toyproxy/toyproxy/dataplane/nftables"
	"github.com/toyproxy/toyproxy/explain"
)

// stateOf resolves manifests for node n1, which has the address 192.0.2.1.
func stateOf(t *testing.T, text string) explain.State {
	t.Helper()
	ranges := func(texts ...string) (out []netip.Prefix) {
		for _, s := range texts {
			out = append(out, netip.MustParsePrefix(s))
		}
		return out
	}
	services := ranges("10.96.0.0/12", "fd00:10:96::/112")
	loaded, err := manifest.Load(t.Context(), manifest.Options{Paths: []string{"-"}, Stdin: strings.NewReader(text), ServiceCIDRs: services})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range loaded.Problems {
		if !p.Warning {
			t.Fatal(p)
		}
	}
	own := []netip.Addr{netip.MustParseAddr("192.0.2.1")}
	node := agent.Node{Name: "n1", PodRanges: ranges("10.244.0.0/16", "fd00:10:244::/56"), ServiceRanges: services, Addrs: own}
	in := agent.Input{Objects: loaded.Objects, Problems: loaded.Problems, Locate: loaded.Locate}
	d := agent.Resolve(in, node, loaded.Objects.Pods)
	return explain.State{Objects: d.Objects, Slices: d.Slices, Table: d.Table, Node: "n1", Own: own, PodLink: "toybr0", Locate: loaded.Locate}
}

// ask explains a target on a backend.
func ask(t *testing.T, b dataplane.Explainer, st explain.State, target, from string) (explain.Explanation, error) {
	t.Helper()
	to, err := st.Target(target, "default", 0)
	if err != nil {
		return explain.Explanation{}, err
	}
	who, err := st.From(from, "default", to)
	if err != nil {
		return explain.Explanation{}, err
	}
	if !to.Key.Addr.IsValid() {
		return st.Nothing(to, who), nil
	}
	tr, err := b.Walk(st.Table, st.Packet(to, who))
	if err != nil {
		return explain.Explanation{}, err
	}
	return st.Explain(to, who, tr), nil
}

// objects is a small world with everything in it that can go wrong.
const objects = `
apiVersion: v1
kind: Pod
metadata: {name: client, labels: {app: client}}
spec: {nodeName: n1, containers: [{name: c, image: x}]}
status: {podIP: 10.244.0.9}
---
apiVersion: v1
kind: Pod
metadata: {name: web-1, labels: {app: web}}
spec: {nodeName: n1, containers: [{name: c, image: x, ports: [{name: http, containerPort: 8080}]}]}
status: {podIP: 10.244.0.11}
---
apiVersion: v1
kind: Pod
metadata: {name: web-2, labels: {app: web}}
spec: {nodeName: m1, containers: [{name: c, image: x, ports: [{name: http, containerPort: 8080}]}]}
status: {podIP: 10.244.1.12}
---
apiVersion: v1
kind: Pod
metadata: {name: web-3, labels: {app: web}}
spec: {nodeName: n1, containers: [{name: c, image: x, ports: [{name: http, containerPort: 8080}]}]}
status: {podIP: 10.244.0.13, conditions: [{type: Ready, status: "False", reason: ContainersNotReady}]}
---
apiVersion: v1
kind: Pod
metadata: {name: slow, labels: {app: slow}}
spec: {nodeName: n1, containers: [{name: c, image: x}]}
status: {podIP: 10.244.0.14, conditions: [{type: Ready, status: "False"}], containerStatuses: [{name: c, image: x, imageID: x, ready: false, restartCount: 3, state: {waiting: {reason: CrashLoopBackOff}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: remote, labels: {app: remote}}
spec: {nodeName: m1, containers: [{name: c, image: x}]}
status: {podIP: 10.244.1.15}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {clusterIP: 10.96.0.10, selector: {app: web}, ports: [{name: http, port: 80, targetPort: http}, {name: dns, port: 53, protocol: UDP, targetPort: 53}]}
---
apiVersion: v1
kind: Service
metadata: {name: typo}
spec: {clusterIP: 10.96.0.11, selector: {app: wep}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: slow}
spec: {clusterIP: 10.96.0.12, selector: {app: slow}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: portless}
spec: {clusterIP: 10.96.0.13, selector: {app: web}, ports: [{port: 80, targetPort: web}]}
---
apiVersion: v1
kind: Service
metadata: {name: headless}
spec: {clusterIP: None, selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: alias}
spec: {type: ExternalName, externalName: db.example.com}
---
apiVersion: v1
kind: Service
metadata: {name: theirs, labels: {service.kubernetes.io/service-proxy-name: other}}
spec: {clusterIP: 10.96.0.14, selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: zweb}
spec: {clusterIP: 10.96.0.20, externalIPs: [203.0.113.5], selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: aweb}
spec: {clusterIP: 10.96.0.21, externalIPs: [203.0.113.5], selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: near}
spec: {clusterIP: 10.96.0.15, internalTrafficPolicy: Local, selector: {app: remote}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: door}
spec: {type: NodePort, clusterIP: 10.96.0.16, externalTrafficPolicy: Local, sessionAffinity: ClientIP, selector: {app: web}, ports: [{port: 80, targetPort: 8080, nodePort: 30080}]}
---
apiVersion: v1
kind: Service
metadata: {name: guarded}
spec: {type: LoadBalancer, clusterIP: 10.96.0.17, loadBalancerSourceRanges: [198.51.100.0/24], selector: {app: web}, ports: [{port: 80, targetPort: 8080, nodePort: 30081}]}
status: {loadBalancer: {ingress: [{ip: 203.0.113.7}]}}
---
apiVersion: v1
kind: Service
metadata: {name: byhand}
spec: {clusterIP: 10.96.0.18, ports: [{port: 80}]}
`

// cases say what is asked and what the answer begins with; "because" lines follow.
var cases = []struct {
	name, target, from string
	want               []string
}{
	{"served, one Pod not ready", "svc/web", "client", []string{
		"OK: Pod default/client (10.244.0.9) to 10.96.0.10:80/tcp, ClusterIP of Service default/web:http, reaches 2 endpoints; its source is kept",
		"10.244.0.11:8080   50%     default/web-1   n1     kept",
		"10.244.1.12:8080   50%     default/web-2   m1     kept",
		"10.244.0.13:8080   -       default/web-3   -      not used: it is not ready: ContainersNotReady",
		"note: ports of Service default/web: 80/tcp (http) and 53/udp (dns)"}},
	{"by port name", "svc/web:http", "client", []string{"OK: Pod default/client (10.244.0.9) to 10.96.0.10:80/tcp"}},
	{"by itself", "svc/web", "web-1", []string{"its source is kept, but rewritten where it reaches itself",
		"← Pod default/web-1 is an endpoint of the Service it dials", "10.244.0.11:8080   50%     default/web-1   n1     rewritten"}},
	{"from the node", "svc/web", "node", []string{"OK: the node (192.0.2.1) to", "its source is rewritten to an address of the node",
		"← the sender is no Pod: answers have to come back through this node"}},
	{"from a stranger", "svc/web", "198.51.100.9", []string{"OK: 198.51.100.9 to", "← 198.51.100.9 is neither a Pod nor the node: from outside"}},
	{"nobody named", "svc/web", "", []string{"  from Pod default/client (10.244.0.9), since nobody was named"}},
	{"wrong port", "10.96.0.10:81", "client", []string{"REFUSED: Pod default/client (10.244.0.9) to 10.96.0.10:81/tcp is refused at once",
		"because spec.ports of Service default/web (-:41): no port 81/tcp; it has 80/tcp (http) and 53/udp (dns)"}},
	{"wrong protocol", "10.96.0.10:53", "client", []string{"REFUSED", "because spec.ports[1].protocol of Service default/web (-:41): the port is udp, not tcp: dial 10.96.0.10:53/udp"}},
	{"no such address", "10.96.9.9:80", "client", []string{"TIMEOUT: Pod default/client (10.244.0.9) to 10.96.9.9:80/tcp is dropped, and nobody is told",
		"because 10.96.9.9 is in the range of Services (--service-cidr), and no Service has it"}},
	{"selector matches nothing", "svc/typo", "client", []string{"REFUSED",
		"because spec.selector: app=wep of Service default/typo (-:46): it matches no Pod; the nearest, Pod default/web-1, has app=web"}},
	{"nothing ready", "svc/slow", "client", []string{"REFUSED", "because spec.selector: app=slow of Service default/slow (-:51): it matches 1 Pod, and none is ready",
		"because Pod default/slow (-:26): it is not ready: container c: CrashLoopBackOff"}},
	{"no port of that name", "svc/portless", "client", []string{"REFUSED",
		"because spec.ports[0].targetPort: web of Service default/portless (-:56): no container of the 3 Pods that match has a tcp port of that name; they have http (8080/tcp)"}},
	{"headless", "svc/headless", "client", []string{"NONE: Service default/headless has no frontend, there is no path to walk",
		"because spec.clusterIP: None of Service default/headless (-:61): it is headless"}},
	{"alias", "svc/alias", "client", []string{"NONE: Service default/alias", "because spec.type: ExternalName of Service default/alias (-:66): it is another name of db.example.com"}},
	{"another proxy's", "svc/theirs", "client", []string{"NONE: Service default/theirs", `the proxy "other" serves it, not this one`}},
	{"another proxy's address", "10.96.0.14:80", "client", []string{"TIMEOUT", `because metadata.labels[service.kubernetes.io/service-proxy-name] of Service default/theirs (-:70): the proxy "other"`}},
	{"claimed twice", "203.0.113.5:80", "198.51.100.9", []string{"OK: 198.51.100.9 to 203.0.113.5:80/tcp, ExternalIP of Service default/aweb, reaches 2 endpoints",
		"note: Service default/zweb claims 203.0.113.5:80/tcp too, and takes over when Service default/aweb goes"}},
	{"policy leaves none here", "svc/near", "client", []string{"TIMEOUT",
		"because spec.internalTrafficPolicy: Local of Service default/near (-:86): it leaves no endpoint here, on node n1; ready elsewhere: 1 on m1"}},
	{"door for clients outside", "192.0.2.1:30080", "198.51.100.9", []string{
		"OK: 198.51.100.9 to 192.0.2.1:30080/tcp, NodePort of Service default/door, reaches 1 endpoint; its source is kept",
		"← spec.ports[0].nodePort of Service default/door (-:91)",
		"10.244.1.12:8080   -       default/web-2   -      not used: spec.externalTrafficPolicy: Local, and it is on node m1"}},
	{"door for a Pod", "192.0.2.1:30080", "client", []string{"reaches one of 2 endpoints, and comes back to it", "it binds clients outside; Pods and the node reach all endpoints"}},
	{"not allowed", "203.0.113.7:80", "192.0.2.77", []string{"TIMEOUT",
		"because spec.loadBalancerSourceRanges of Service default/guarded (-:96): 192.0.2.77 is in none of 198.51.100.0/24"}},
	{"allowed", "203.0.113.7:80", "198.51.100.9", []string{"OK", "← status.loadBalancer.ingress[0].ip and spec.ports[0].port of Service default/guarded",
		"note: also reached at port 30081/tcp of the node (NodePort) and 10.96.0.17:80/tcp (ClusterIP)"}},
	{"no slices", "svc/byhand", "client", []string{"REFUSED",
		"because spec.selector of Service default/byhand (-:102): it has no selector, and no IPv4 EndpointSlice has the label kubernetes.io/service-name=byhand"}},
	{"a Pod itself", "10.244.0.11:8080", "client", []string{"UNTOUCHED", "because 10.244.0.11 is the address of Pod default/web-1 itself"}},
	{"the node itself", "192.0.2.1:22", "198.51.100.9", []string{"UNTOUCHED", "because spec.ports of Service default/door (-:91): its node port is 30080/tcp, not 22/tcp"}},
	{"a node port on loopback", "127.0.0.1:30080", "node", []string{"UNTOUCHED",
		"because spec.ports[0].nodePort of Service default/door (-:91): node ports do not answer on loopback addresses, unless --nodeport-addresses asks for it: dial 192.0.2.1:30080"}},
	{"loopback", "127.0.0.1:22", "node", []string{"UNTOUCHED", "because 127.0.0.1 is a loopback address, where no Service answers"}},
	{"loopback of a Pod", "127.0.0.1:30080", "client", []string{"UNTOUCHED", "because 127.0.0.1 is the loopback address of Pod default/client itself"}},
	{"anywhere else", "198.51.100.1:80", "client", []string{"UNTOUCHED", "because no Service has the address 198.51.100.1"}},
}

// TestExplain proves what is answered to every question that has a different
// answer, the same on every backend.
func TestExplain(t *testing.T) {
	st := stateOf(t, objects)
	for name, b := range map[string]dataplane.Explainer{"iptables": iptables.New(iptables.Config{}), "nftables": nftables.New(nftables.Config{}), "ipvs": ipvs.New(ipvs.Config{})} {
		for _, tc := range cases {
			t.Run(name+"/"+tc.name, func(t *testing.T) {
				e, err := ask(t, b, st, tc.target, tc.from)
				if err != nil {
					t.Fatal(err)
				}
				text := e.Text(name + ", as rendered")
				for i, want := range tc.want {
					if i == 0 && !strings.HasPrefix(text, want) && !strings.Contains(strings.SplitAfterN(text, "\n\n", 2)[0], want) || !strings.Contains(text, want) {
						t.Errorf("lacks %q\n%s", want, text)
					}
				}
			})
		}
	}
}

// TestMistakes proves that names and texts that mean nothing are said to, with
// what was perhaps meant.
func TestMistakes(t *testing.T) {
	st := stateOf(t, objects)
	for _, tc := range []struct {
		target, from, want string
		is                 error
	}{
		{"svc/wbe", "", "Service default/wbe not found: is it default/web?", explain.ErrNotFound},
		{"svc/web:https", "", `port "https" of Service default/web not found: it has 80/tcp (http) and 53/udp (dns)`, explain.ErrNotFound},
		{"svc/web", "clinet", "Pod default/clinet not found: is it default/client?", explain.ErrNotFound},
		{"web", "", `target "web" not understood: write 10.96.0.10:80, [fd00::a]:53/udp, svc/NAME or svc/NAME:PORT`, explain.ErrSyntax},
		{"web", "", `or svc/NAME:PORT: is it svc/web?`, explain.ErrSyntax},
		{"default/web", "", `target "default/web" not understood: write 10.96.0.10:80, [fd00::a]:53/udp, svc/NAME or svc/NAME:PORT: is it svc/web?`, explain.ErrSyntax},
		{"default/web:http", "", `: is it svc/web:http?`, explain.ErrSyntax},
		{"10.96.0.10:0", "", `target "10.96.0.10:0" not understood`, explain.ErrSyntax},
		{"nobody/web", "", `target "nobody/web" not understood`, explain.ErrSyntax},
		{"pod/client", "", `target "pod/client" not understood: write 10.96.0.10:80, [fd00::a]:53/udp, svc/NAME or svc/NAME:PORT; a Pod is no target but who sends: --from client`, explain.ErrSyntax},
		{"10.96.0.10:80/icmp", "", `protocol "icmp" not understood: write /tcp, /udp or /sctp`, explain.ErrSyntax},
		{"10.96.0.10", "", "a port is needed, as in 10.96.0.10:80; it has 80/tcp (default/web:http) and 53/udp (default/web:dns)", explain.ErrSyntax},
		{"svc/web", "2001:db8::1", "source 2001:db8::1 not understood: the target is an IPv4 address", explain.ErrSyntax},
		{"[fd00:10:96::99]:80", "client", "IPv6 address of Pod default/client not found: it cannot send", explain.ErrNotFound},
	} {
		_, err := ask(t, iptables.New(iptables.Config{}), st, tc.target, tc.from)
		if !errors.Is(err, tc.is) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s from %q: %v, want %s", tc.target, tc.from, err, tc.want)
		}
	}
}

// TestCompare proves that what the kernel does otherwise is named.
func TestCompare(t *testing.T) {
	st := stateOf(t, objects)
	b := iptables.New(iptables.Config{})
	wanted, err := ask(t, b, st, "svc/web", "client")
	if err != nil {
		t.Fatal(err)
	}
	held := wanted
	held.Compare(wanted)
	if len(held.Differences) > 0 {
		t.Errorf("equal paths differ: %q", held.Differences)
	}
	held, err = ask(t, b, st, "10.96.0.10:81", "client")
	if err != nil {
		t.Fatal(err)
	}
	held.Compare(wanted)
	got := strings.Join(held.Differences, "\n")
	for _, want := range []string{"the manifests say OK, the kernel does REFUSED", "the kernel's path lacks, in nat PREROUTING: -A TOY-10.96.0.0/28 -d 10.96.0.10/32 -p tcp -m tcp --dport 80 -g TOY-SVC-",
		"the kernel's path has besides, in nat PREROUTING: -A TOY-REFUSE", "endpoint 10.244.0.11:8080 gets 0%, not 50%"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nlacks %q", got, want)
		}
	}
}

// TestProbe proves what is said of a packet that was really sent.
func TestProbe(t *testing.T) {
	st := stateOf(t, objects)
	b := nftables.New(nftables.Config{})
	for _, tc := range []struct {
		target string
		probe  explain.Verdict
		want   string
		agrees bool
	}{
		{"svc/web", explain.OK, "  probe: OK, as the path says\n", true},
		{"svc/web", explain.Refused, "  probe: REFUSED: no rule of toyproxy's refuses it; perhaps nothing listens at the endpoint\n", false},
		{"svc/web", explain.Timeout, "  probe: TIMEOUT: no answer; rules of others, or the way to the endpoint, are in between\n", false},
		{"svc/web", explain.Reset, "  probe: RESET: not what the path says; rules of others, or a flow that is tracked already, are in between\n", false},
		{"svc/typo", explain.Refused, "  probe: REFUSED, as the path says\n", true},
		{"198.51.100.1:80", explain.Unreachable, "  probe: UNREACHABLE: no rule of toyproxy's has a say in it\n", true},
	} {
		e, err := ask(t, b, st, tc.target, "client")
		if err != nil {
			t.Fatal(err)
		}
		e.Probe = tc.probe
		d := e.Document("nftables", true)
		if text := e.Text("nftables"); !strings.Contains(text, tc.want) || d.Probe.Agrees != tc.agrees {
			t.Errorf("%s, probe %s, agrees %t:\n%s\nlacks %q", tc.target, tc.probe, d.Probe.Agrees, text, tc.want)
		}
	}
}
