package endpoints_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/toyproxy/toyproxy/endpoints"
)

var web = labels{"app": "web"}

func notReadyToo(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true }

func dual(s *corev1.Service) {
	s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
}

// What one Pod is as an endpoint, by its state.
func TestEndpointConditions(t *testing.T) {
	for _, tc := range []struct {
		name      string
		pod       *corev1.Pod
		published string // with publishNotReadyAddresses
		want      string
	}{
		{"no conditions: a Pod of somebody else", newPod("p", "10.0.0.1", web), "rs-", "rs-"},
		{"ready", newPod("p", "10.0.0.1", web, ready(corev1.ConditionTrue)), "rs-", "rs-"},
		{"not ready", newPod("p", "10.0.0.1", web, ready(corev1.ConditionFalse)), "r--", "---"},
		{"unknown", newPod("p", "10.0.0.1", web, ready(corev1.ConditionUnknown)), "r--", "---"},
		{"conditions without Ready", newPod("p", "10.0.0.1", web, func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}}
		}), "r--", "---"},
		{"terminating, serving", newPod("p", "10.0.0.1", web, ready(corev1.ConditionTrue), terminating), "rst", "-st"},
		{"terminating, not serving", newPod("p", "10.0.0.1", web, ready(corev1.ConditionFalse), terminating), "r-t", "--t"},
		{"on the host's network", newPod("p", "10.0.0.1", web, func(p *corev1.Pod) { p.Spec.HostNetwork = true }), "rs-", "rs-"},
		{"running", newPod("p", "10.0.0.1", web, phase(corev1.PodRunning)), "rs-", "rs-"},
		{"succeeded", newPod("p", "10.0.0.1", web, phase(corev1.PodSucceeded)), "", ""},
		{"failed", newPod("p", "10.0.0.1", web, phase(corev1.PodFailed)), "", ""},
		{"no address", newPod("p", "", web), "", ""},
		{"no address of the family", newPod("p", "fd00::1", web), "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			x := indexOf(tc.pod, newService("web", web), newService("all", web, notReadyToo))
			for service, want := range map[string]string{"web": tc.want, "all": tc.published} {
				line := "IPv4 none"
				if want != "" {
					line = "IPv4 http/TCP/8080 10.0.0.1 " + want
				}
				equal(t, service, show(x.Resolve(key("default", service))), []string{line})
			}
		})
	}
}

// A named target port is resolved on each Pod; Pods that differ get slices of
// their own, as do families.
func TestTargetPorts(t *testing.T) {
	sidecar, always := containerPort("web", 7000, "TCP"), corev1.ContainerRestartPolicyAlways
	pods := []any{
		newPod("a", "10.0.0.1", web, containerPort("web", 8080, "TCP")),
		newPod("b", "10.0.0.2", web, containerPort("web", 8081, "TCP"), containerPort("web", 9999, "TCP")),
		newPod("c", "10.0.0.3", web, containerPort("web", 5353, "UDP"), containerPort("web", 8080, "TCP")),
		newPod("d", "10.0.0.4", web, containerPort("other", 8080, "TCP")),
		newPod("e", "10.0.0.5", web, func(p *corev1.Pod) {
			sidecar(p)
			p.Spec.InitContainers, p.Spec.Containers = p.Spec.Containers, nil
			p.Spec.InitContainers[0].RestartPolicy = &always
		}),
		newPod("f", "10.0.0.6", web, func(p *corev1.Pod) {
			sidecar(p)
			p.Spec.InitContainers, p.Spec.Containers = p.Spec.Containers, nil
		}),
	}
	x := indexOf(append(pods, newService("tcp", web, target("web", "TCP")), newService("udp", web, target("web", "UDP")), newService("number", web))...)
	equal(t, "name on TCP", show(x.Resolve(key("default", "tcp"))), []string{
		"IPv4 10.0.0.4 rs-", "IPv4 10.0.0.6 rs-", // no container port of the name
		"IPv4 http/TCP/7000 10.0.0.5 rs-",
		"IPv4 http/TCP/8080 10.0.0.1 rs-", "IPv4 http/TCP/8080 10.0.0.3 rs-",
		"IPv4 http/TCP/8081 10.0.0.2 rs-",
	})
	seen := labels{}
	for _, s := range x.Resolve(key("default", "tcp")) {
		if other, ok := seen[s.Name]; ok {
			t.Errorf("slices for %v and %s have one name", s.Ports, other)
		}
		seen[s.Name] = s.String()
	}
	equal(t, "name on UDP", show(x.Resolve(key("default", "udp")))[5:], []string{"IPv4 http/UDP/5353 10.0.0.3 rs-"})
	if got := x.Resolve(key("default", "number")); len(got) != 1 || len(got[0].Endpoints) != 6 {
		t.Errorf("a numbered target port gave %v", show(got))
	}
}

func TestFamilies(t *testing.T) {
	both := newPod("both", "", web, addrs("10.0.0.1", "FD00:0::1"))
	four, six := newPod("four", "10.0.0.2", web), newPod("six", "fd00::2", web)
	for _, tc := range []struct {
		name string
		edit func(*corev1.Service)
		want []string
	}{
		{"IPv4", func(*corev1.Service) {}, []string{"IPv4 10.0.0.1", "IPv4 10.0.0.2"}},
		{"IPv6", func(s *corev1.Service) { s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol} }, []string{"IPv6 fd00::1", "IPv6 fd00::2"}},
		{"dual stack", dual, []string{"IPv4 10.0.0.1", "IPv4 10.0.0.2", "IPv6 fd00::1", "IPv6 fd00::2"}},
		{"only a ClusterIP", func(s *corev1.Service) { s.Spec.IPFamilies, s.Spec.ClusterIP = nil, "fd00:10:96::1" }, []string{"IPv6 fd00::1", "IPv6 fd00::2"}},
		{"headless, no family", func(s *corev1.Service) { s.Spec.IPFamilies, s.Spec.ClusterIP = nil, "None" },
			[]string{"IPv4 10.0.0.1", "IPv4 10.0.0.2", "IPv6 fd00::1", "IPv6 fd00::2"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			x := indexOf(both, four, six, newService("web", web, tc.edit))
			var got []string
			for _, s := range x.Resolve(key("default", "web")) {
				for _, e := range s.Endpoints {
					got = append(got, fmt.Sprintf("%s %s", s.AddressType, e.Addresses[0]))
				}
			}
			equal(t, "endpoints", got, tc.want)
		})
	}
}

// Everything a slice says, once.
func TestWholeSlice(t *testing.T) {
	pod := newPod("web-0", "10.0.0.1", web, func(p *corev1.Pod) {
		p.UID, p.Spec.NodeName, p.Spec.Hostname, p.Spec.Subdomain = "pod-uid", "n1", "web-0", "web"
	})
	app := "kubernetes.io/h2c"
	svc := newService("web", web, func(s *corev1.Service) {
		s.UID, s.Labels = "svc-uid", labels{"team": "a", corev1.IsHeadlessService: "", discoveryv1.LabelManagedBy: "me"}
		s.Spec.Ports[0].AppProtocol = &app
	})
	x := indexOf(pod, svc)
	got := x.Resolve(key("default", "web"))
	want := []*discoveryv1.EndpointSlice{{
		TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: got[0].Name,
			Labels: labels{"team": "a", discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: endpoints.ManagedBy},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Service", Name: "web", UID: "svc-uid", Controller: new(true), BlockOwnerDeletion: new(true),
			}},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Protocol: new(corev1.ProtocolTCP), Port: new(int32(8080)), AppProtocol: &app}},
		Endpoints: []discoveryv1.Endpoint{{
			Addresses:  []string{"10.0.0.1"},
			Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
			Hostname:   new("web-0"), NodeName: new("n1"),
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "web-0", UID: "pod-uid"},
		}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("slices (-want +got):\n%s", diff)
	}
	x.SetPod(newPod("web-0", "10.0.0.1", web, func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "web-0", "other" }))
	if host := x.Resolve(key("default", "web"))[0].Endpoints[0].Hostname; host != nil {
		t.Errorf("hostname %q for a Pod whose subdomain is another Service", *host)
	}
	x.SetService(newService("web", web, func(s *corev1.Service) { s.Spec.ClusterIP = "None" }))
	if _, ok := x.Resolve(key("default", "web"))[0].Labels[corev1.IsHeadlessService]; !ok {
		t.Error("the slice of a headless Service lacks its label")
	}
}

// Slices hold at most 100 endpoints, have valid names that differ, and depend
// on nothing but the objects.
func TestPacking(t *testing.T) {
	long := newService("a-service-name-of-sixty-three-characters-which-is-all-it-may-be", web, dual)
	var objects []any
	for i := range 250 {
		objects = append(objects, newPod(fmt.Sprintf("p%03d", i), "", web, addrs(fmt.Sprintf("10.0.1.%d", i), fmt.Sprintf("fd00::%x", i+1))))
	}
	forward := indexOf(append(objects, long)...).Resolve(key("default", long.Name))
	slices.Reverse(objects)
	backward := indexOf(append([]any{long}, objects...)...).Resolve(key("default", long.Name))
	if diff := cmp.Diff(forward, backward); diff != "" {
		t.Errorf("slices depend on the order of events:\n%s", diff)
	}
	var sizes []int
	seen := map[string]bool{}
	for _, s := range forward {
		sizes = append(sizes, len(s.Endpoints))
		if problems := validation.IsDNS1123Subdomain(s.Name); len(problems) > 0 || seen[s.Name] {
			t.Errorf("name %q: %v, seen before: %t", s.Name, problems, seen[s.Name])
		}
		seen[s.Name] = true
	}
	equal(t, "sizes", sizes, []int{100, 100, 50, 100, 100, 50})
}

// Two Service ports may lead to one target port (field fault 53), and TCP and
// UDP may share a number (field fault 10).
func TestPortsOfOneService(t *testing.T) {
	svc := newService("web", web, func(s *corev1.Service) {
		s.Spec.Ports = append(s.Spec.Ports,
			corev1.ServicePort{Name: "alt", Protocol: corev1.ProtocolTCP, Port: 81, TargetPort: intstr.FromInt32(8080)},
			corev1.ServicePort{Name: "udp", Protocol: corev1.ProtocolUDP, Port: 80, TargetPort: intstr.FromInt32(8080)})
	})
	x := indexOf(svc, newPod("p", "10.0.0.1", web))
	equal(t, "slices", show(x.Resolve(key("default", "web"))), []string{"IPv4 http/TCP/8080 alt/TCP/8080 udp/UDP/8080 10.0.0.1 rs-"})
}
