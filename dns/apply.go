package dns

import (
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
)

// Change is what one event changed in the zone, for the history. Records are in
// the form of a zone file: "web.default.svc.cluster.local. 5 IN A 10.96.0.10". Both
// lists are sorted.
type Change struct {
	Object         cluster.Ref
	Added, Removed []string
}

// Apply takes events of Services, EndpointSlices, Pods and Namespaces (others are
// ignored) that happened by a time, which becomes the zone's serial, and returns what
// they changed, events without effect left out. An event's Old is not looked at: an
// object may be told again.
//
// An answer given after Apply returns has all of it. Each event costs what the names of
// its own Service or Pod cost.
func (z *Zone) Apply(events []cluster.Event, now time.Time) []Change {
	z.writing.Lock()
	defer z.writing.Unlock()
	var changes []Change
	for _, e := range events {
		before, after := z.take(e, true)
		if c := z.difference(e.Object, before, after); c != nil {
			changes = append(changes, *c)
		}
	}
	z.stamp(events, now)
	return changes
}

// Load is Apply for a first, large set of objects, when nobody asks what changed.
func (z *Zone) Load(events []cluster.Event, now time.Time) {
	z.writing.Lock()
	defer z.writing.Unlock()
	for _, e := range events {
		z.take(e, false)
	}
	z.stamp(events, now)
}

// stamp sets the serial.
func (z *Zone) stamp(events []cluster.Event, now time.Time) {
	if len(events) == 0 {
		return
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	z.serial = uint32(now.Unix())
}

// take takes one event in. If it is to tell, it returns the records that the objects
// concerned had before and have now.
func (z *Zone) take(e cluster.Event, tell bool) (before, after records) {
	id := e.Object.NamespacedName
	switch e.Object.Kind {
	case cluster.Service:
		obj, _ := e.New.(*corev1.Service)
		return z.replace(id.Name+"."+id.Namespace, tell, func(s *service) *service { return s.withObject(obj) })
	case cluster.EndpointSlice:
		obj, _ := e.New.(*discoveryv1.EndpointSlice)
		return z.takeSlice(id, obj, tell)
	case cluster.Pod:
		obj, _ := e.New.(*corev1.Pod)
		return z.takePod(id, obj)
	case cluster.Namespace:
		z.mu.Lock()
		defer z.mu.Unlock()
		sp := z.spaces[id.Name]
		sp.object = e.New != nil
		z.keep(id.Name, sp)
	}
	return nil, nil
}

// withObject returns the Service as its object now says, its slices kept; nil takes
// all but these away.
func (s *service) withObject(obj *corev1.Service) *service {
	next := &service{name: s.name, namespace: s.namespace}
	if obj != nil {
		next = newService(obj)
	}
	next.slices = s.slices
	return next
}

// takeSlice puts a slice to the Service that its label names, and takes it from the
// one that it named before.
func (z *Zone) takeSlice(id types.NamespacedName, obj *discoveryv1.EndpointSlice, tell bool) (before, after records) {
	owner, had := z.sliceOf[id]
	var next string
	if obj != nil && obj.Labels[discoveryv1.LabelServiceName] != "" {
		next = obj.Labels[discoveryv1.LabelServiceName] + "." + id.Namespace
	}
	if had && owner != next {
		before, after = z.replace(owner, tell, func(s *service) *service { return s.withSlice(id.Name, nil) })
		delete(z.sliceOf, id)
	}
	if next == "" {
		return before, after
	}
	z.sliceOf[id] = next
	b, a := z.replace(next, tell, func(s *service) *service { return s.withSlice(id.Name, newSlice(obj)) })
	return before.addAll(b), after.addAll(a)
}

// replace puts another value in the place of a Service's, with what is indexed by it.
func (z *Zone) replace(key string, tell bool, change func(*service) *service) (before, after records) {
	old := z.services[key]
	if old == nil {
		name, namespace := last(key)
		old = &service{name: name, namespace: namespace}
	}
	next := change(old)
	was, is := addressSet(old), addressSet(next)
	next.repeats = next.total() != len(is)
	if tell {
		before, after = z.recordsOf(old), z.recordsOf(next)
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if next.exists || len(next.slices) > 0 {
		z.services[key] = next
	} else {
		delete(z.services, key)
	}
	for addr := range was {
		if _, ok := is[addr]; !ok {
			z.disown(addr, key)
		}
	}
	for addr := range is {
		if _, ok := was[addr]; !ok {
			z.own(addr, key)
		}
	}
	z.use(next.namespace, count(next.exists)-count(old.exists))
	return before, after
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

func addressSet(s *service) map[netip.Addr]struct{} {
	m := map[netip.Addr]struct{}{}
	for a := range s.addresses {
		m[a] = struct{}{}
	}
	return m
}

// own adds a Service to those that know an address.
func (z *Zone) own(addr netip.Addr, key string) {
	if _, taken := z.owners[addr]; taken {
		z.shared[addr] = append(slices.Clone(z.shared[addr]), key)
		return
	}
	z.owners[addr] = key
}

// disown takes it away.
func (z *Zone) disown(addr netip.Addr, key string) {
	rest := slices.DeleteFunc(slices.Clone(z.shared[addr]), func(k string) bool { return k == key })
	if z.owners[addr] == key {
		if len(rest) == 0 {
			delete(z.owners, addr)
			return
		}
		z.owners[addr], rest = rest[0], rest[1:]
	}
	if len(rest) == 0 {
		delete(z.shared, addr)
		return
	}
	z.shared[addr] = rest
}

// use counts the objects in a namespace.
func (z *Zone) use(namespace string, n int) {
	if n != 0 {
		sp := z.spaces[namespace]
		sp.uses += n
		z.keep(namespace, sp)
	}
}

func (z *Zone) keep(namespace string, sp space) {
	if sp == (space{}) {
		delete(z.spaces, namespace)
		return
	}
	z.spaces[namespace] = sp
}

// takePod takes a Pod's addresses. One that terminates has its names to the end.
func (z *Zone) takePod(id types.NamespacedName, obj *corev1.Pod) (before, after records) {
	was, is := z.podAddrs[id], podAddrs(obj)
	_, had := z.podAddrs[id]
	has := obj != nil
	z.mu.Lock()
	defer z.mu.Unlock()
	for _, addr := range was {
		before = before.addAll(z.podRecord(id.Namespace, addr))
		if key := (podAddr{id.Namespace, addr}); z.pods[key] > 1 {
			z.pods[key]--
		} else {
			delete(z.pods, key)
		}
		after = after.addAll(z.podRecord(id.Namespace, addr))
	}
	for _, addr := range is {
		before = before.addAll(z.podRecord(id.Namespace, addr))
		z.pods[podAddr{id.Namespace, addr}]++
		after = after.addAll(z.podRecord(id.Namespace, addr))
	}
	if has {
		z.podAddrs[id] = is
	} else {
		delete(z.podAddrs, id)
	}
	z.use(id.Namespace, count(has)-count(had))
	return before, after
}

// podAddrs are those of a Pod that may run: one that has ended may have lost its address
// to another.
func podAddrs(obj *corev1.Pod) []netip.Addr {
	if obj == nil {
		return nil
	}
	switch obj.Status.Phase {
	case corev1.PodSucceeded, corev1.PodFailed, corev1.PodUnknown:
		return nil
	}
	var addrs []netip.Addr
	ips := obj.Status.PodIPs
	if len(ips) == 0 && obj.Status.PodIP != "" {
		ips = []corev1.PodIP{{IP: obj.Status.PodIP}}
	}
	for _, ip := range ips {
		if addr, err := netip.ParseAddr(ip.IP); err == nil && !slices.Contains(addrs, addr.Unmap()) {
			addrs = append(addrs, addr.Unmap())
		}
	}
	return addrs
}
