package walk

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/endpoints"
)

// changePod makes a Pod come, go, or change in one or all respects.
func (w *world) changePod() string {
	name := one(w, hostNames()...)
	old := w.pods[name]
	if old != nil && w.chance(12) {
		delete(w.pods, name)
		return "Pod " + name + " is gone"
	}
	edits := []func(*corev1.Pod){w.label, w.condition, w.leave, w.weigh, w.port, w.address}
	if old != nil && w.chance(70) {
		next := old.DeepCopy()
		one(w, edits...)(next)
		w.pods[name] = next
		return "Pod " + name + " changes: " + describePod(next)
	}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.PodSpec{NodeName: nodeOf(name), Containers: []corev1.Container{{Name: "server"}}},
	}
	for _, edit := range edits {
		edit(p)
	}
	w.pods[name] = p
	return "Pod " + name + " comes: " + describePod(p)
}

func describePod(p *corev1.Pod) string {
	return fmt.Sprint(p.Labels, p.Annotations, p.Status.Phase, p.Status.PodIPs, p.Status.Conditions[0].Status,
		" terminating ", p.DeletionTimestamp != nil, " web is ", p.Spec.Containers[0].Ports[0].ContainerPort)
}

func (w *world) label(p *corev1.Pod) {
	p.Labels = map[string]string{"app": one(w, "a", "b", "c"), "version": one(w, "v1", "v2")}
}

func (w *world) condition(p *corev1.Pod) {
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: one(w, corev1.ConditionTrue, corev1.ConditionTrue, corev1.ConditionTrue, corev1.ConditionFalse)}}
	p.Status.Phase = corev1.PodRunning
	if w.chance(5) {
		p.Status.Phase = corev1.PodFailed
	}
}

func (w *world) leave(p *corev1.Pod) {
	p.DeletionTimestamp = nil
	if w.chance(15) {
		at := metav1.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		p.DeletionTimestamp = &at
	}
}

func (w *world) weigh(p *corev1.Pod) {
	p.Annotations = nil
	if w.chance(30) {
		p.Annotations = map[string]string{endpoints.WeightAnnotation: one(w, "1", "2", "5", "none")}
	}
}

// port says what the name of the port stands for in this Pod.
func (w *world) port(p *corev1.Pod) {
	p.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "web", ContainerPort: one[int32](w, 8080, 8081), Protocol: corev1.ProtocolTCP}}
}

func (w *world) address(p *corev1.Pod) {
	v4, v6 := hostAddr(p.Name, dataplane.IPv4).String(), hostAddr(p.Name, dataplane.IPv6).String()
	ips := one(w, []string{v4, v6}, []string{v4, v6}, []string{v4, v6}, []string{v6, v4}, []string{v4}, []string{v6}, nil)
	p.Status.PodIP, p.Status.PodIPs = "", nil
	for i, ip := range ips {
		if i == 0 {
			p.Status.PodIP = ip
		}
		p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: ip})
	}
}

// changeSlice makes an EndpointSlice by hand, or takes one away.
func (w *world) changeSlice() string {
	name := fmt.Sprintf("given-%d", w.IntN(mostSlices))
	if w.slices[name] != nil && w.chance(30) {
		delete(w.slices, name)
		return "EndpointSlice " + name + " is gone"
	}
	family := one(w, dataplane.IPv4, dataplane.IPv6)
	owner := serviceName(w.IntN(mostServices))
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: owner}},
		AddressType: discoveryv1.AddressType(family.String()),
	}
	for _, port := range portKinds() {
		if w.chance(70) {
			number := port.TargetPort.IntVal
			if number == 0 {
				number = one[int32](w, 8080, 8081)
			}
			s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: &port.Name, Protocol: &port.Protocol, Port: &number})
		}
	}
	weights := map[string]int{}
	for _, host := range hostNames() {
		if w.chance(50) {
			s.Endpoints = append(s.Endpoints, w.endpoint(host, family))
			weights[hostAddr(host, family).String()] = one(w, 1, 1, 3)
		}
	}
	if w.chance(30) {
		text, _ := json.Marshal(weights) // numbers by text cannot fail
		s.Annotations = map[string]string{endpoints.WeightsAnnotation: string(text)}
	}
	w.slices[name] = s
	return fmt.Sprintf("EndpointSlice %s of %s: %s %s", name, owner, family, describeEndpoints(s.Endpoints))
}

func describeEndpoints(eps []discoveryv1.Endpoint) string {
	var out []string
	for _, e := range eps {
		out = append(out, e.Addresses[0])
	}
	return strings.Join(out, ",")
}

func (w *world) endpoint(host string, f dataplane.Family) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{Addresses: []string{hostAddr(host, f).String()}}
	condition := func() *bool { return one(w, nil, new(true), new(true), new(false)) }
	e.Conditions = discoveryv1.EndpointConditions{Ready: condition(), Serving: condition(), Terminating: one(w, nil, nil, new(true))}
	if w.chance(70) {
		node := nodeOf(host)
		e.NodeName = &node
	}
	if w.chance(40) {
		e.Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: one(w, "z1", "z2")}}}
	}
	if w.chance(50) {
		e.TargetRef = &corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: host}
	}
	return e
}
