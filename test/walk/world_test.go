package walk

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/toyproxy/toyproxy/balance"
	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/lab"
)

// How many objects of a kind the world can have.
const (
	mostServices = 8
	mostSlices   = 3
	podsHere     = 5
)

// world is the objects at one moment, and the dice that change them.
type world struct {
	*rand.Rand
	pods     map[string]*corev1.Pod
	services map[string]*corev1.Service
	slices   map[string]*discoveryv1.EndpointSlice
	nodes    map[string]*corev1.Node
	facts    balance.Node
}

func newWorld(seed uint64) *world {
	w := &world{Rand: rand.New(rand.NewPCG(seed, seed)), facts: balance.Node{
		Name: "n", PodRanges: lab.PodRanges(), ServiceRanges: lab.ServiceRanges(), Addrs: nodeAddrs(),
	}}
	w.fill()
	return w
}

func (w *world) clear() {
	w.pods, w.services = map[string]*corev1.Pod{}, map[string]*corev1.Service{}
	w.slices, w.nodes = map[string]*discoveryv1.EndpointSlice{}, map[string]*corev1.Node{}
}

// objects returns everything as a source would.
func (w *world) objects() cluster.Objects {
	return cluster.Objects{Services: sorted(w.services), Pods: sorted(w.pods), EndpointSlices: sorted(w.slices), Nodes: sorted(w.nodes)}
}

func sorted[T metav1.Object](of map[string]T) []T {
	return slices.SortedFunc(maps.Values(of), func(a, b T) int { return cmp.Compare(a.GetName(), b.GetName()) })
}

// chance is true so many times in a hundred.
func (w *world) chance(percent int) bool { return w.IntN(100) < percent }

// one draws one of several.
func one[T any](w *world, of ...T) T { return of[w.IntN(len(of))] }

// change takes one random step and says which.
func (w *world) change() string {
	switch n := w.IntN(100); {
	case n < 40:
		return w.changePod()
	case n < 72:
		return w.changeService()
	case n < 82:
		return w.changeSlice()
	case n < 90:
		return w.changeNode()
	case n < 93:
		return w.changeFacts()
	case n < 97:
		return w.changeSome()
	case n < 99:
		w.fill()
		return "everything is another"
	}
	w.clear()
	return "everything is gone"
}

func (w *world) changeSome() string {
	said := ""
	for range 2 + w.IntN(5) {
		said += one(w, w.changePod, w.changeService, w.changeSlice, w.changeNode)() + "; "
	}
	return said
}

// fill makes every object anew.
func (w *world) fill() {
	w.clear()
	for range 3 * mostServices {
		w.changeService()
	}
	for range 3 * podsHere {
		w.changePod()
	}
	w.changeSlice()
	w.changeNode()
	w.changeNode()
}

// hostNames are the hosts that a Pod or an endpoint can be at.
func hostNames() []string {
	out := []string{"q1"}
	for i := range podsHere {
		out = append(out, fmt.Sprintf("p%d", i+1))
	}
	return out
}

// hostAddr returns the lab's address of a Pod's host.
func hostAddr(name string, f dataplane.Family) netip.Addr {
	v4 := netip.AddrFrom4([4]byte{10, 244, 0, 10 + name[1] - '0'})
	if name[0] == 'q' {
		v4 = netip.AddrFrom4([4]byte{10, 244, 1, 10 + name[1] - '0'})
	}
	if f == dataplane.IPv4 {
		return v4
	}
	return twin(v4)
}

// nodeOf is the node that a host is on: there is no other truth about it.
func nodeOf(host string) string {
	if host[0] == 'q' {
		return "m"
	}
	return "n"
}

func twin(v4 netip.Addr) netip.Addr {
	v6, ok := lab.Twin(v4)
	if !ok {
		panic(v4.String() + " has no twin")
	}
	return v6
}

// nodeAddrs are the addresses that node ports answer on.
func nodeAddrs() []netip.Addr {
	v4 := netip.MustParseAddr("192.0.2.1")
	return []netip.Addr{v4, twin(v4)}
}

// changeFacts changes what the node is told, which takes a whole pass.
func (w *world) changeFacts() string {
	all, n := nodeAddrs(), &w.facts
	switch w.IntN(4) {
	case 0:
		n.MasqueradeAll = !n.MasqueradeAll
	case 1:
		n.Addrs = one(w, all, all, all[:1], all[1:], nil)
	case 2:
		n.MasqueradeMark = one[uint32](w, 0, 1<<4, 1<<20)
	default: // how Pods are told from what is outside
		n.PodRanges, n.PodInterfaces = lab.PodRanges(), nil
		if w.chance(60) {
			n.PodRanges, n.PodInterfaces = nil, []string{one(w, lab.Bridge, lab.Bridge[:2]+"+")}
		}
	}
	return fmt.Sprintf("facts: masquerade all %t, mark %#x, node ports on %v, Pods by %v%v", n.MasqueradeAll, n.MasqueradeMark, n.Addrs, n.PodRanges, n.PodInterfaces)
}

// changeNode makes a Node come, go, or be in another zone.
func (w *world) changeNode() string {
	name := one(w, "n", "m")
	if w.nodes[name] != nil && w.chance(25) {
		delete(w.nodes, name)
		return "Node " + name + " is gone"
	}
	zone := one(w, "", "z1", "z2")
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: zone}}}
	if name == "n" && w.chance(50) {
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: nodeAddrs()[0].String()}}
	}
	w.nodes[name] = n
	return fmt.Sprintf("Node %s in zone %q, addresses %v", name, zone, n.Status.Addresses)
}
