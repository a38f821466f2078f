package coredns

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	mdns "github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/dns"
	"github.com/toyproxy/toyproxy/test/coredns/apiserver"
)

// large yields n Services with a ClusterIP, 10 endpoints and 10 Pods each.
func large(n int, yield func(metav1.Object)) {
	vip, addr := netip.MustParseAddr("10.96.0.1"), netip.MustParseAddr("10.128.0.1")
	http, tcp, target, ready := "http", corev1.ProtocolTCP, int32(8080), true
	for i := range n {
		namespace := fmt.Sprintf("namespace-%d", i%100)
		if i < 100 {
			yield(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
		}
		s := &corev1.Service{ObjectMeta: meta(fmt.Sprintf("service-%d", i), namespace)}
		s.Spec.ClusterIP, s.Spec.ClusterIPs = vip.String(), []string{vip.String()}
		s.Spec.Ports = []corev1.ServicePort{{Name: http, Port: 80, Protocol: tcp}}
		e := &discoveryv1.EndpointSlice{ObjectMeta: meta(s.Name+"-abcde", namespace), AddressType: discoveryv1.AddressTypeIPv4}
		e.Labels = map[string]string{discoveryv1.LabelServiceName: s.Name}
		e.Ports = []discoveryv1.EndpointPort{{Name: &http, Port: &target, Protocol: &tcp}}
		for j := range 10 {
			p := &corev1.Pod{ObjectMeta: meta(fmt.Sprintf("%s-%d", s.Name, j), namespace)}
			p.Labels = map[string]string{"app": s.Name, "pod-template-hash": "abcdef1234"}
			p.Status.PodIP, p.Status.PodIPs = addr.String(), []corev1.PodIP{{IP: addr.String()}}
			node := fmt.Sprintf("node-%d", j)
			e.Endpoints = append(e.Endpoints, discoveryv1.Endpoint{Addresses: []string{addr.String()}, NodeName: &node,
				TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: p.Name}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}})
			yield(p)
			addr = addr.Next()
		}
		yield(s)
		yield(e)
		vip = vip.Next()
	}
}

// BenchmarkMemory tells what 10,000 Services, 100,000 endpoints and as many Pods cost:
// CoreDNS by its resident memory, with them less without them; the zone by its heap.
func BenchmarkMemory(b *testing.B) {
	const services = 10_000
	resident := func(n int) float64 {
		api := apiserver.New()
		large(n, func(obj metav1.Object) {
			if err := api.Set(obj); err != nil {
				b.Fatal(err)
			}
		})
		j := startJudge(b, api, "127.0.0.1:9")
		last, lastAddr := fmt.Sprintf("namespace-%d", (n-1)%100), netip.AddrFrom4([4]byte{10, 128 + byte(n*10>>16), byte(n * 10 >> 8), byte(n * 10)})
		for _, name := range []string{fmt.Sprintf("service-%d.%s.svc", n-1, last), dashes(lastAddr) + "." + last + ".pod",
			fmt.Sprintf("%s.service-%d.%s.svc", dashes(lastAddr), n-1, last)} {
			j.await(b, mdns.Question{Name: name + "." + domain + ".", Qtype: mdns.TypeA, Qclass: mdns.ClassINET},
				func(m *mdns.Msg) bool { return len(m.Answer) == 1 })
		}
		return residentMB(b, j.pid)
	}
	few, many := resident(1), resident(services)
	z := dns.New(dns.Options{Domain: domain, TTL: 5})
	before := heapMB()
	large(services, func(obj metav1.Object) { z.Load([]cluster.Event{event(obj)}, time.Unix(1_800_000_000, 0)) })
	b.ReportMetric(many-few, "coredns-MB")
	b.ReportMetric(heapMB()-before, "zone-MB")
	b.ReportMetric(0, "ns/op")
	runtime.KeepAlive(z)
}

func heapMB() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / 1e6
}

func residentMB(b *testing.B, pid int) float64 {
	b.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "status"))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	var kB float64
	if _, err := fmt.Sscan(rest, &kB); err != nil {
		b.Fatal(err)
	}
	return kB / 1e3
}
