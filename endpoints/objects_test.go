package endpoints_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/toyproxy/toyproxy/endpoints"
)

type labels = map[string]string

func key(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// newPod is a Pod with an address and no conditions, in namespace default.
func newPod(name, ip string, with labels, edits ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: with},
		Status:     corev1.PodStatus{PodIP: ip},
	}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

func ready(status corev1.ConditionStatus) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
	}
}

func terminating(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }

func phase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

func addrs(ips ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.PodIP = ips[0]
		for _, ip := range ips {
			p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: ip})
		}
	}
}

func containerPort(name string, number int32, protocol corev1.Protocol) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{
			Ports: []corev1.ContainerPort{{Name: name, ContainerPort: number, Protocol: protocol}},
		})
	}
}

// newService is a single-stack Service in namespace default with port 80→8080.
func newService(name string, selector labels, edits ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.ServiceSpec{
			Selector: selector, ClusterIP: "10.96.0.10", IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromInt32(8080)}},
		},
	}
	for _, edit := range edits {
		edit(s)
	}
	return s
}

func target(name string, protocol corev1.Protocol) func(*corev1.Service) {
	return func(s *corev1.Service) {
		s.Spec.Ports[0].TargetPort, s.Spec.Ports[0].Protocol = intstr.FromString(name), protocol
	}
}

func newSlice(name, of string, ips ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels{}},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	if of != "" {
		s.Labels[discoveryv1.LabelServiceName] = of
	}
	for _, ip := range ips {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{ip}})
	}
	return s
}

func indexOf(objects ...any) *endpoints.Index {
	x := endpoints.New()
	for _, o := range objects {
		set(x, o)
	}
	return x
}

func set(x *endpoints.Index, object any) {
	switch o := object.(type) {
	case *corev1.Pod:
		x.SetPod(o)
	case *corev1.Service:
		x.SetService(o)
	case *discoveryv1.EndpointSlice:
		x.SetSlice(o)
	case *corev1.Node:
		x.SetNode(o)
	}
}

// selected returns the names of the Pods a Service of namespace default selects.
func selected(x *endpoints.Index, service string) []string {
	var names []string
	for p := range x.Selected(key("default", service)) {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return names
}

// show renders slices one endpoint a line: "IPv4 http/TCP/8080 10.0.0.1 rst":
// the letters are the conditions ready, serving, terminating that hold.
func show(all []*discoveryv1.EndpointSlice) []string {
	var lines []string
	for _, s := range all {
		head := string(s.AddressType)
		for _, p := range s.Ports {
			head += fmt.Sprintf(" %s/%s/%d", *p.Name, *p.Protocol, *p.Port)
		}
		if len(s.Endpoints) == 0 {
			lines = append(lines, head+" none")
		}
		for _, e := range s.Endpoints {
			lines = append(lines, fmt.Sprintf("%s %s %s", head, e.Addresses[0], conditions(e.Conditions)))
		}
	}
	return lines
}

func conditions(c discoveryv1.EndpointConditions) string {
	text := ""
	for i, held := range []*bool{c.Ready, c.Serving, c.Terminating} {
		if held != nil && *held {
			text += "rst"[i : i+1]
		} else {
			text += "-"
		}
	}
	return text
}

func equal[T comparable](t *testing.T, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}
