package coredns

import (
	"testing"

	mdns "github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// change edits a third of the cluster, and waits until CoreDNS has seen all.
func (b *bench) change(t *testing.T) {
	t.Helper()
	for _, obj := range append(b.objects[:0:0], b.objects...) {
		if !b.chance(3) {
			continue
		}
		switch obj := obj.(type) {
		case *corev1.Service:
			b.changeService(t, obj)
		case *discoveryv1.EndpointSlice:
			b.changeSlice(t, obj)
		case *corev1.Pod:
			b.changePod(t, obj)
		}
	}
	b.awaitAll(t)
}

func (b *bench) changeService(t *testing.T, obj *corev1.Service) {
	next := obj.DeepCopy()
	switch {
	case b.chance(3):
		b.delete(t, obj)
		return
	case obj.Spec.Type == corev1.ServiceTypeExternalName:
		next.Spec.ExternalName = pick(b.generator, "other.example.com", "web.default.svc."+domain)
	case b.chance(2):
		next.Spec.Ports = append(next.Spec.Ports[:0:0], pick(b.generator, portLists...)...)
	default:
		next.Spec.PublishNotReadyAddresses = false
	}
	b.replace(next)
	b.set(t, next)
}

func (b *bench) changeSlice(t *testing.T, obj *discoveryv1.EndpointSlice) {
	next := obj.DeepCopy()
	switch {
	case b.chance(4):
		b.delete(t, obj)
		return
	case len(next.Endpoints) > 0 && b.chance(2):
		next.Endpoints = next.Endpoints[1:]
	default:
		ready := b.chance(2)
		for i := range next.Endpoints {
			next.Endpoints[i].Conditions.Ready = &ready
		}
	}
	b.replace(next)
	b.set(t, next)
}

func (b *bench) changePod(t *testing.T, obj *corev1.Pod) {
	if b.chance(2) {
		b.delete(t, obj)
		return
	}
	next := obj.DeepCopy()
	if len(next.Status.PodIPs) > 1 {
		next.Status.PodIPs = next.Status.PodIPs[:1]
	}
	b.replace(next)
	b.set(t, next)
}

// awaitAll sets an object of each kind, of which CoreDNS learns after all others of it.
func (b *bench) awaitAll(t *testing.T) {
	t.Helper()
	s := &corev1.Service{ObjectMeta: meta("last", "default")}
	s.Spec.ClusterIP, s.Spec.ClusterIPs = corev1.ClusterIPNone, []string{corev1.ClusterIPNone}
	e := &discoveryv1.EndpointSlice{ObjectMeta: meta("last-a", "default"), AddressType: discoveryv1.AddressTypeIPv4}
	e.Labels = map[string]string{discoveryv1.LabelServiceName: "last"}
	e.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"10.244.9.9"}}}
	p := &corev1.Pod{ObjectMeta: meta("last", "default")}
	p.Status.PodIPs = []corev1.PodIP{{IP: "10.244.9.9"}}
	b.set(t, s)
	b.set(t, e)
	b.set(t, p)
	b.objects = append(b.objects, s, e, p)
	for _, name := range []string{"last.default.svc." + domain + ".", "10-244-9-9.default.pod." + domain + "."} {
		b.judge.await(t, mdns.Question{Name: name, Qtype: mdns.TypeA, Qclass: mdns.ClassINET},
			func(m *mdns.Msg) bool { return m.Rcode == mdns.RcodeSuccess && len(m.Answer) == 1 })
	}
}
