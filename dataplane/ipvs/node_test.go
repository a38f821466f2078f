package ipvs_test

import (
	"context"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/ipvs"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
	"github.com/toyproxy/toyproxy/test/lab"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }

// node is a lab whose node is programmed by a backend with a state of its own.
type node struct {
	*lab.Lab
	t       *testing.T
	backend *ipvs.Backend
	// iptables and ip6tables are the programs of the engine in use.
	iptables, ip6tables string
}

// newNode builds a lab in a kernel with IPVS; elsewhere it skips the test.
func newNode(t *testing.T, c ipvs.Config, opts ...lab.Option) *node {
	t.Helper()
	lab.Require(t, lab.Namespaces, lab.IPVS, lab.IPSet)
	c.StateDir = t.TempDir()
	n := &node{Lab: lab.New(t, opts...), t: t, backend: ipvs.New(c)}
	n.Node.Do(func() {
		found, err := xtables.Detect(context.Background(), c.Engine)
		if err != nil {
			t.Fatal(err)
		}
		n.iptables, n.ip6tables = "iptables-"+found.Engine.String(), "ip6tables-"+found.Engine.String()
	})
	return n
}

// plan plans on the node.
func (n *node) plan(table dataplane.Table) (p dataplane.Plan) {
	n.t.Helper()
	n.Node.Do(func() {
		var err error
		if p, err = n.backend.Plan(context.Background(), table); err != nil {
			n.t.Fatalf("plan: %v", err)
		}
	})
	return p
}

// apply applies a plan on the node.
func (n *node) apply(p dataplane.Plan) {
	n.t.Helper()
	if err := n.tryApply(p); err != nil {
		n.t.Fatalf("apply: %v", err)
	}
}

func (n *node) tryApply(p dataplane.Plan) (err error) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	n.Node.Do(func() { err = p.Apply(ctx) })
	return err
}

// sync makes the node match the table, and checks that nothing is left to do.
func (n *node) sync(table dataplane.Table) []dataplane.Change {
	n.t.Helper()
	p := n.plan(table)
	n.apply(p)
	if left := text(n.plan(table).Changes()); left != "" {
		n.t.Fatalf("a second pass has changes:\n%s", left)
	}
	return p.Changes()
}

// remove takes everything away again.
func (n *node) remove() {
	n.t.Helper()
	var p dataplane.Plan
	n.Node.Do(func() {
		var err error
		if p, err = n.backend.Remove(context.Background()); err != nil {
			n.t.Fatalf("remove: %v", err)
		}
	})
	n.apply(p)
}

// dump is everything a node holds that this backend could have touched, but for
// what changes by itself: counters, dates, sizes, the order of hashes.
func (n *node) dump() string {
	n.t.Helper()
	counters := regexp.MustCompile(`\[\d+:\d+\]|Size in memory: \d+|References: \d+`)
	var b strings.Builder
	for _, c := range []string{
		"ipvsadm -Sn", "ipset -sorted list", "ip route show table local", "ip -6 route show table local", "sysctl net.ipv4.vs", "ip -o addr",
		n.iptables + "-save -t nat", n.iptables + "-save -t filter", n.ip6tables + "-save -t nat", n.ip6tables + "-save -t filter",
	} {
		lines := strings.Split(counters.ReplaceAllString(n.Node.Run(strings.Fields(c)...), ""), "\n")
		lines = slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "#") })
		if strings.HasPrefix(c, "ipvsadm") {
			slices.Sort(lines)
		}
		b.WriteString("# " + c + "\n" + strings.Join(lines, "\n") + "\n")
	}
	return b.String()
}

func text(changes []dataplane.Change) string {
	var b strings.Builder
	for _, c := range changes {
		b.WriteString(c.String() + "\n")
	}
	return b.String()
}

// builder makes tables.
type builder struct{ dataplane.Table }

func newTable() *builder {
	return &builder{dataplane.Table{Node: dataplane.Node{PodRanges: lab.PodRanges(), ServiceRanges: lab.ServiceRanges()}}}
}

// add adds a frontend for a set of endpoints; without any it refuses.
func (b *builder) add(service, addr string, p dataplane.Protocol, port uint16, eps ...dataplane.Endpoint) *builder {
	fe := dataplane.Frontend{Key: key(addr, p, port), Service: service}
	name := service + "/" + fe.Key.String()
	for s := range fe.Routes {
		fe.Routes[s] = dataplane.Route{Set: name, Masquerade: dataplane.Source(s) != dataplane.FromPod}
		if len(eps) == 0 {
			fe.Routes[s] = dataplane.Route{Verdict: dataplane.Refuse}
		}
	}
	b.Frontends = append(b.Frontends, fe)
	if len(eps) > 0 {
		b.Sets = append(b.Sets, dataplane.EndpointSet{Name: name, Service: service, Protocol: p, Endpoints: eps})
	}
	b.Sort()
	return b
}

// edit changes frontend i and its set, if it has one.
func (b *builder) edit(i int, f func(*dataplane.Frontend, *dataplane.EndpointSet)) *builder {
	var set *dataplane.EndpointSet
	for j := range b.Sets {
		if b.Sets[j].Name == b.Frontends[i].Routes[0].Set {
			set = &b.Sets[j]
		}
	}
	f(&b.Frontends[i], set)
	return b
}

func key(addr string, p dataplane.Protocol, port uint16) dataplane.Key {
	return dataplane.Key{Addr: netip.MustParseAddr(addr), Protocol: p, Port: port}
}

// on returns endpoints on hosts, in order of address.
func on(f dataplane.Family, port uint16, hosts ...*lab.Host) []dataplane.Endpoint {
	var out []dataplane.Endpoint
	for _, h := range hosts {
		out = append(out, dataplane.Endpoint{Addr: netip.AddrPortFrom(h.Addr(f), port), Weight: 1, Local: true, Name: "default/" + h.Name})
	}
	return out
}

func addrPort(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }
