package main

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/cluster/manifest"
	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
	"github.com/toyproxy/toyproxy/test/lab"
)

// choice is a backend as the command line names it, and what the kernel needs for
// it.
type choice struct {
	name    string
	backend backendName
	engine  xtables.Engine
	needs   []lab.Feature
}

func choices() []choice {
	return []choice{
		{"iptables-nft", backendIPTables, xtables.NFT, []lab.Feature{lab.IptablesNFT}},
		{"iptables-legacy", backendIPTables, xtables.Legacy, []lab.Feature{lab.IptablesLegacy}},
		{"nftables", backendNftables, xtables.Auto, []lab.Feature{lab.Nftables}},
		{"ipvs", backendIPVS, xtables.Auto, []lab.Feature{lab.IPVS, lab.IPSet}},
	}
}

// beside returns the choice with the engine of the other one if it has none, so that
// they share chains.
func (c choice) beside(other choice) choice {
	if c.backend == backendIPVS {
		c.engine = cmp.Or(other.engine, xtables.Legacy) // which every guest has
	}
	return c
}

// switchedObjects are Services with every door, for TCP and UDP, in both families.
const switchedObjects = `
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  type: LoadBalancer
  selector: {app: web}
  clusterIP: 10.96.0.10
  clusterIPs: [10.96.0.10, "fd00:10:96::10"]
  ipFamilyPolicy: RequireDualStack
  externalIPs: [203.0.113.7, "fd00:203:113::7"]
  ports:
  - {name: http, port: 80, targetPort: 8080, nodePort: 30080}
  - {name: dns, port: 53, targetPort: 8053, nodePort: 30053, protocol: UDP}
status: {loadBalancer: {ingress: [{ip: 203.0.113.9}, {ip: "fd00:203:113::9"}]}}
---
apiVersion: v1
kind: Service
metadata: {name: local}
spec:
  type: NodePort
  externalTrafficPolicy: Local
  selector: {app: web}
  clusterIP: 10.96.0.11
  clusterIPs: [10.96.0.11, "fd00:10:96::11"]
  ipFamilyPolicy: RequireDualStack
  externalIPs: [203.0.113.8, "fd00:203:113::8"]
  ports: [{port: 80, targetPort: 8080, nodePort: 30081}]
---
apiVersion: v1
kind: Pod
metadata: {name: p2, labels: {app: web}}
spec: {nodeName: node-n, containers: [{name: c, image: web}]}
status: {phase: Running, podIP: 10.244.0.12, podIPs: [{ip: 10.244.0.12}, {ip: "fd00:10:244::12"}], conditions: [{type: Ready, status: "True"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: p3, labels: {app: web}}
spec: {nodeName: node-n, containers: [{name: c, image: web}]}
status: {phase: Running, podIP: 10.244.0.13, podIPs: [{ip: 10.244.0.13}, {ip: "fd00:10:244::13"}], conditions: [{type: Ready, status: "True"}]}
---
# No Pod of another node: its endpoints are reached by nobody outside.
apiVersion: v1
kind: Pod
metadata: {name: q1, labels: {app: web}}
spec: {nodeName: node-m, containers: [{name: c, image: web}]}
status: {phase: Running, podIP: 10.244.1.11, podIPs: [{ip: 10.244.1.11}, {ip: "fd00:10:244:1::11"}], conditions: [{type: Ready, status: "True"}]}
`

// door is where clients dial.
type door struct {
	protocol dataplane.Protocol
	at       netip.AddrPort
}

// switchedDoors are all of the Services.
func switchedDoors() (out []door) {
	for _, addr := range []string{"10.96.0.10", "192.0.2.1", "203.0.113.7", "203.0.113.9", "10.96.0.11", "203.0.113.8"} {
		v4 := netip.MustParseAddr(addr)
		v6, _ := lab.Twin(v4)
		for _, a := range []netip.Addr{v4, v6} {
			tcp, udp := uint16(80), uint16(53)
			if addr == "192.0.2.1" {
				tcp, udp = 30080, 30053
				out = append(out, door{dataplane.TCP, netip.AddrPortFrom(a, 30081)})
			}
			out = append(out, door{dataplane.TCP, netip.AddrPortFrom(a, tcp)})
			if addr != "10.96.0.11" && addr != "203.0.113.8" {
				out = append(out, door{dataplane.UDP, netip.AddrPortFrom(a, udp)})
			}
		}
	}
	return out
}

// switchStage is a node on which one backend takes the place of another.
type switchStage struct {
	*testing.T
	*lab.Lab
	turn     *sync.Mutex
	stateDir string
	input    agent.Input
}

// newSwitchStage makes a node when its turn has come.
func newSwitchStage(t *testing.T, turn *sync.Mutex) *switchStage {
	turn.Lock()
	defer turn.Unlock()
	s := &switchStage{T: t, turn: turn, Lab: lab.New(t, lab.SecondNode()), stateDir: t.TempDir()}
	file := filepath.Join(s.stateDir, "objects.yaml")
	if err := os.WriteFile(file, []byte(switchedObjects), 0o600); err != nil {
		t.Fatal(err)
	}
	loaded, err := manifest.Load(context.Background(), manifest.Options{Paths: []string{file}, ServiceCIDRs: lab.ServiceRanges()})
	if err != nil || len(loaded.Problems) > 0 {
		t.Fatal(err, loaded.Problems)
	}
	s.input = agent.Input{Objects: loaded.Objects}
	for _, p := range append(s.Pods[1:], s.Remote) {
		p.Serve(dataplane.TCP, 8080)
		p.Serve(dataplane.UDP, 8053)
	}
	return s
}

// agent returns the node's agent for a backend, wired as a command wires it.
func (s *switchStage) agent(c choice) *agent.Agent {
	nf := &nodeFlags{backend: c.backend, engine: engineFlag{engine: c.engine}}
	nf.virtual.scheduler.value, nf.virtual.drain, nf.virtual.udp = "rr", timeoutFlag(time.Minute), timeoutFlag(switchedUDPTimeout)
	sc := scope{stateDir: s.stateDir}
	return &agent.Agent{
		Node:    agent.Node{Name: "node-n", PodRanges: lab.PodRanges(), ServiceRanges: lab.ServiceRanges(), Addrs: []netip.Addr{s.Node.IPv4, s.Node.IPv6}},
		Backend: nf.newBackend(c.backend, sc), Others: nf.leftovers(c.backend, sc),
		Flows: nf.newFlows(sc),
	}
}

// switchedUDPTimeout is how long IPVS waits for the next datagram of a flow: here
// shorter than usual, because the test waits for the end of it.
const switchedUDPTimeout = 15 * time.Second

// pass makes a pass with a backend and returns its plan.
func (s *switchStage) pass(c choice) (p *agent.Plan) {
	s.Helper()
	var err error
	s.Node.Do(func() {
		ctx := context.Background()
		if p, err = s.agent(c).Plan(ctx, s.input); err == nil {
			err = p.Apply(ctx)
		}
	})
	if err != nil {
		s.Fatalf("pass with backend %s: %v", c.name, err)
	}
	return p
}

// clients are those that dial each door.
func (s *switchStage) clients() []*lab.Host { return []*lab.Host{s.Pod(1), s.Node, s.Outside} }

// lasting are flows that are open over the change.
type lasting struct {
	conns []*lab.Conn
	udp   []*datagrams
	// rounds is how often all of them have been asked.
	rounds int
}

// datagrams are what one client sends from one port.
type datagrams struct {
	from     *lab.Host
	to       netip.AddrPort
	port     uint16
	source   netip.Addr
	endpoint string
	// asked is when, lapsed how often the time between two was too long.
	asked  time.Time
	lapsed int
}

// ask sends one and returns what is wrong with its answer. As from a socket that is
// connected, all come from the same address, whatever routes come and go. On a very
// slow machine it may come so late that its flow has ended: then it begins another.
func (d *datagrams) ask() error {
	if d.endpoint != "" && time.Since(d.asked) > switchedUDPTimeout*3/4 {
		d.endpoint = ""
		d.lapsed++
	}
	d.asked = time.Now()
	o := lab.Probe(d.from, dataplane.UDP, d.to, lab.Options{From: d.source, Source: d.port, Timeout: patience})
	if d.endpoint == "" {
		d.source, d.endpoint = o.Source.Addr(), o.Endpoint
	}
	if o.Fate != lab.OK || o.Endpoint != d.endpoint {
		return fmt.Errorf("UDP flow from %s to %s: %s, want %s", d.from.Name, d.to, o, d.endpoint)
	}
	return nil
}

// lastingPort and the next few are the ports that UDP flows last on, below those that
// the kernel gives away.
const lastingPort = 20100

// patience is long, as the machine may have other work. Within it TCP sends a packet
// that got lost again: those are counted (lostOpenings).
const patience = 15 * time.Second

func (s *switchStage) open() *lasting {
	l := &lasting{}
	for i, d := range switchedDoors() {
		for _, from := range s.clients() {
			if d.protocol == dataplane.TCP {
				l.conns = append(l.conns, lab.Open(from, d.at))
				continue
			}
			flow := &datagrams{from: from, to: d.at, port: uint16(lastingPort + i)}
			if err := flow.ask(); err != nil {
				s.Fatal(err)
			}
			l.udp = append(l.udp, flow)
		}
	}
	return l
}

// talk says words on every flow without a break, until the returned function is
// called; then once more.
func (l *lasting) talk(t *testing.T) (stop func()) {
	failed := map[int]bool{}
	round := func() {
		for i, flow := range l.all() {
			if err := flow(); err != nil && !failed[i] {
				failed[i] = true
				t.Error(err)
			}
		}
		l.rounds++
	}
	end := repeat(20*time.Millisecond, round)
	return func() { end(); round() }
}

// lapsed is how many flows of UDP have ended for want of a datagram.
func (l *lasting) lapsed() (n int) {
	for _, d := range l.udp {
		n += d.lapsed
	}
	return n
}

// all are the questions to ask, one a flow.
func (l *lasting) all() (out []func() error) {
	for _, c := range l.conns {
		out = append(out, func() error {
			if err := c.Echo(); err != nil {
				return fmt.Errorf("connection from %s by %s: %w", c.Outcome.Source, c.Outcome.Name(), err)
			}
			return nil
		})
	}
	for _, d := range l.udp {
		out = append(out, d.ask)
	}
	return out
}

// repeat does something again and again until the returned function is called.
func repeat(pause time.Duration, what func()) (stop func()) {
	done := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(pause):
				what()
			}
		}
	})
	return sync.OnceFunc(func() { close(done); wait.Wait() })
}

// dialling is new flows that never cease.
type dialling struct {
	stop func()
	mu   sync.Mutex
	// tried counts, failed has the first of each kind.
	tried  int
	failed map[string]string
}

// dial begins to dial every door without a break from every client.
func (s *switchStage) dial() *dialling {
	d := &dialling{failed: map[string]string{}}
	pause := 2 * time.Millisecond
	if inGuest() {
		pause = 10 * time.Millisecond // or it has time for nothing else
	}
	var stops []func()
	for _, from := range s.clients() {
		for _, p := range []dataplane.Protocol{dataplane.TCP, dataplane.UDP} {
			doors := slices.DeleteFunc(switchedDoors(), func(d door) bool { return d.protocol != p })
			i := 0
			stops = append(stops, repeat(pause, func() {
				d.one(from, doors[i%len(doors)])
				i++
			}))
		}
	}
	d.stop = func() {
		for _, stop := range stops {
			stop()
		}
	}
	s.Cleanup(d.stop)
	return d
}

func (d *dialling) one(from *lab.Host, to door) {
	o := lab.Probe(from, to.protocol, to.at, lab.Options{Timeout: patience})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tried++
	if key := fmt.Sprintf("%s from %s to %s", to.protocol, from.Name, to.at); o.Fate != lab.OK && d.failed[key] == "" {
		d.failed[key] = o.String()
	}
}

// lostOpenings is how many first packets of connections their clients have sent again
// so far, but for those that a busy server has turned away.
func (s *switchStage) lostOpenings() int {
	s.Helper()
	lost := 0
	for _, client := range s.clients() {
		lost += tcpCounter(s.T, client, "TCPSynRetrans")
	}
	for _, server := range append(s.Pods[1:], s.Remote) {
		lost -= tcpCounter(s.T, server, "ListenDrops")
	}
	return lost
}

// tcpCounter is one of the TCP counters of a host's kernel.
func tcpCounter(t *testing.T, h *lab.Host, name string) int {
	t.Helper()
	var names []string
	for line := range strings.Lines(h.Run("cat", "/proc/net/netstat")) {
		words := strings.Fields(line)
		at := slices.Index(names, name)
		if words[0] != "TcpExt:" || at < 0 {
			names = words
			continue
		}
		n, err := strconv.Atoi(words[at])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	t.Fatalf("the kernel has no counter %s", name)
	return 0
}

// TestSwitch changes between every two backends, back and forth, while clients dial all
// doors and have flows open: nobody notices. What the new backend does not
// need is gone afterwards: at once, or where IPVS carries flows when they have ended.
func TestSwitch(t *testing.T) {
	requireRoot(t)
	var one sync.Mutex // they wait beside each other, and do nothing else
	for i, to := range choices() {
		for _, from := range choices()[i+1:] {
			if inGuest() != (from.backend == backendIPVS) {
				continue
			}
			// IPVS brings rules of the engine that iptables uses.
			from, to := from.beside(to), to.beside(from)
			t.Run(from.name+" and "+to.name, func(t *testing.T) {
				t.Parallel()
				lab.Require(t, slices.Concat(from.needs, to.needs, []lab.Feature{lab.Namespaces})...)
				newSwitchStage(t, &one).over(from, to)
			})
		}
	}
}

// over changes and looks at what stays.
func (s *switchStage) over(from, to choice) {
	s.change(from, to)
	s.ends(from, to)
	s.ends(to, from) // without anybody, for what stays
}

// change makes the changes while flows are open and others begin, and ends them.
func (s *switchStage) change(from, to choice) {
	s.turn.Lock()
	defer s.turn.Unlock()
	shutForward(s.Node, from, to)
	s.pass(from)
	flows, lost := s.open(), s.lostOpenings()
	clients, quiet := s.dial(), flows.talk(s.T)
	time.Sleep(50 * time.Millisecond)
	start, way := time.Now(), []choice{to, from, to}
	var removed []string
	for _, now := range way {
		for _, c := range s.pass(now).Flows.Changes() {
			// Others are of clients that are done, and that IPVS has forgotten.
			if strings.Contains(c.Object, fmt.Sprintf(":%d", lastingPort/100)) {
				removed = append(removed, fmt.Sprintf("with %s a flow in progress is removed: %s", now.name, c))
			}
		}
		for _, c := range s.pass(now).Changes() {
			if !strings.HasSuffix(c.Reason, "all its connections have ended") && c.Op != dataplane.Remove {
				s.Errorf("with %s a second pass changes: %s", now.name, c)
			}
		}
	}
	took := time.Since(start)
	quiet()
	clients.stop()
	if flows.lapsed() == 0 && len(removed) > 0 {
		s.Error(strings.Join(removed, "\n"))
	}
	if lost = s.lostOpenings() - lost; lost > 0 {
		s.Errorf("%d first packets of connections got lost", lost)
	}
	for what, fate := range clients.failed {
		s.Errorf("new flow, %s: %s", what, fate)
	}
	s.Logf("%d changes in %s; %d new flows, %d failed; %d flows kept, asked %d times each, %d lapsed",
		len(way), took.Round(time.Millisecond), clients.tried, len(clients.failed), len(flows.all()), flows.rounds, flows.lapsed())
	for _, c := range flows.conns {
		c.Reset()
	}
}

// shutForward makes a node forward nothing by itself, where one engine of iptables is
// the only one that has a say: what another accepts is not accepted.
func shutForward(node *lab.Host, from, to choice) {
	if engine := to.engine; engine == from.engine && from.backend != backendNftables && to.backend != backendNftables {
		for _, tool := range []string{"iptables-", "ip6tables-"} {
			node.Run(tool+engine.String(), "-P", "FORWARD", "DROP")
		}
		// Neighbours on the bridge of Pods ask for each other by way of it.
		node.Run("ip6tables-"+engine.String(), "-A", "FORWARD", "-p", "icmpv6", "-j", "ACCEPT")
	}
}

// ends waits until the node holds what the backend makes on one that has never had
// another.
func (s *switchStage) ends(from, c choice) {
	fresh := lab.New(s.T, lab.WithPods(0))
	shutForward(fresh.Node, from, c)
	alone := *s
	alone.Lab, alone.stateDir = fresh, s.TempDir()
	alone.pass(c)
	commands := append(lab.Rules(), "ip rule", "ip -6 rule")
	want := fresh.Node.Dump(commands)
	for deadline := time.Now().Add(longest); ; time.Sleep(500 * time.Millisecond) {
		s.pass(c)
		left := lab.Differences(want, s.Node.Dump(commands))
		if left == "" {
			break
		}
		if time.Now().After(deadline) {
			left = left[:min(len(left), 2000)]
			s.Fatalf("all flows have ended, and the kernel is not as if %s had always been there:\n%s", c.name, left)
		}
	}
	if notes := filepath.Join(s.stateDir, "sysctls-ipvs.json"); c.backend != backendIPVS && exists(notes) {
		s.Errorf("kernel parameters are not put back: %s is there", notes)
	}
}
