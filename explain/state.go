package explain

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/dataplane"
)

// State is what a node is to hold, and the objects it follows from.
type State struct {
	// Objects are the Services, Nodes and Pods; Pods with the status they have or
	// will have.
	Objects cluster.Objects
	// Slices are the EndpointSlices of all Services.
	Slices []*discoveryv1.EndpointSlice
	Table  dataplane.Table
	// Node is the name of the node.
	Node string
	// Own are the addresses of the node, as far as they are known.
	Own []netip.Addr
	// PodLink is the link by which Pods of this node send.
	PodLink string
	// Locate finds where a field of an object stands in the manifests. May be nil.
	Locate func(cluster.Ref, string) cluster.Position
}

// Cause is a field of an object, and what it brings about.
type Cause struct {
	cluster.Position
	// Object is the object; zero for what is no object's, such as a flag.
	Object cluster.Ref
	// Fields are paths within the object; Value is what the only one says, where
	// that is worth showing.
	Fields []string
	Value  string
	// Text says what the fields bring about, for people. It may be empty: then
	// the fields are all there is to say.
	Text string
}

// String returns "spec.clusterIP and spec.ports[0].port of Service default/web
// (web.yaml:12): text".
func (c Cause) String() string {
	out := strings.Join(c.Fields, " and ")
	if c.Value != "" {
		out += ": " + c.Value
	}
	if c.Object.Kind != "" {
		if out != "" {
			out += " of "
		}
		out += c.Object.String()
	}
	if p := c.Position; p.File != "" {
		p.Column = 0
		out += " (" + p.String() + ")"
	}
	switch {
	case out == "":
		return c.Text
	case c.Text == "":
		return out
	}
	return out + ": " + c.Text
}

// cause names fields of a Service.
func (s State) cause(svc *corev1.Service, text string, fields ...string) Cause {
	return s.causeOf(cluster.MakeRef(cluster.Service, svc.Namespace, svc.Name), text, fields...)
}

// causeOf names fields of an object, where one may be "path: value".
func (s State) causeOf(ref cluster.Ref, text string, fields ...string) Cause {
	c := Cause{Object: ref, Text: quote(text)}
	for _, f := range fields {
		path, value, _ := strings.Cut(f, ": ")
		c.Fields, c.Value = append(c.Fields, path), quote(value)
	}
	if s.Locate != nil {
		c.Position = s.Locate(ref, strings.Join(first(c.Fields, 1), ""))
	}
	return c
}

// service returns a Service by name, or nil.
func (s State) service(namespace, name string) *corev1.Service {
	i := slices.IndexFunc(s.Objects.Services, func(o *corev1.Service) bool { return o.Namespace == namespace && o.Name == name })
	if i < 0 {
		return nil
	}
	return s.Objects.Services[i]
}

// origin returns the Service that a frontend was made for, and which of its
// ports; nil when it is not among the objects.
func (s State) origin(fe dataplane.Frontend) (svc *corev1.Service, port int) {
	full, portName, _ := strings.Cut(fe.Service, ":")
	namespace, name, _ := strings.Cut(full, "/")
	svc = s.service(namespace, name)
	if svc == nil {
		return nil, -1
	}
	return svc, slices.IndexFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool {
		return p.Name == portName && protocolOf(p.Protocol) == fe.Protocol
	})
}

// protocolOf translates the protocol of a port; empty means TCP, as in the API.
func protocolOf(p corev1.Protocol) dataplane.Protocol {
	switch p {
	case corev1.ProtocolUDP:
		return dataplane.UDP
	case corev1.ProtocolSCTP:
		return dataplane.SCTP
	}
	return dataplane.TCP
}

// slicesOf returns the slices of a Service in one family.
func (s State) slicesOf(svc *corev1.Service, f dataplane.Family) []*discoveryv1.EndpointSlice {
	return slices.DeleteFunc(slices.Clone(s.Slices), func(e *discoveryv1.EndpointSlice) bool {
		return e.Namespace != svc.Namespace || e.Labels[discoveryv1.LabelServiceName] != svc.Name || string(e.AddressType) != f.String()
	})
}

// podAt returns the Pod that has an address, or nil. Pods on the host's network
// have none of their own.
func (s State) podAt(a netip.Addr) *corev1.Pod {
	for _, p := range s.Objects.Pods {
		if slices.Contains(addressesOf(p), a) && !p.Spec.HostNetwork {
			return p
		}
	}
	return nil
}

// addressesOf returns the addresses of a Pod.
func addressesOf(p *corev1.Pod) []netip.Addr {
	texts := []string{p.Status.PodIP}
	for _, ip := range p.Status.PodIPs {
		texts = append(texts, ip.IP)
	}
	var out []netip.Addr
	for _, t := range texts {
		if a, err := netip.ParseAddr(t); err == nil && !slices.Contains(out, a.Unmap()) {
			out = append(out, a.Unmap())
		}
	}
	return out
}

func podName(p *corev1.Pod) string { return "Pod " + p.Namespace + "/" + p.Name }
