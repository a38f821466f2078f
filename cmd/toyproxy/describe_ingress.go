package main

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/toyproxy/toyproxy/agent"
)

// describeIngress prints what kubectl prints of an Ingress, in its order.
func describeIngress(w io.Writer, i *networkingv1.Ingress, l look) error {
	p := newPage(w, "")
	p.say("Name", i.Name)
	p.sayMap("Labels", i.Labels, "=")
	p.say("Namespace", i.Namespace)
	p.say("Address", strings.Join(ingressAddresses(i), ","))
	p.say("Ingress Class", orNone(valueOf(i.Spec.IngressClassName)))
	fallback := "<default>"
	if i.Spec.DefaultBackend != nil {
		fallback = backendText(l.Desired, i.Namespace, i.Spec.DefaultBackend)
	}
	p.say("Default backend", fallback)
	if err := p.flush(); err != nil {
		return err
	}
	describeIngressTLS(w, i.Spec.TLS)
	if err := describeIngressRules(w, i, fallback, l); err != nil {
		return err
	}
	p = newPage(w, "")
	p.sayMap("Annotations", i.Annotations, ": ")
	return p.flush()
}

func describeIngressTLS(w io.Writer, tls []networkingv1.IngressTLS) {
	if len(tls) == 0 {
		return
	}
	fmt.Fprintln(w, "TLS:")
	for _, t := range tls {
		hosts := strings.Join(t.Hosts, ",")
		if t.SecretName == "" {
			fmt.Fprintf(w, "  SNI routes %s\n", hosts)
		} else {
			fmt.Fprintf(w, "  %s terminates %s\n", t.SecretName, hosts)
		}
	}
}

func describeIngressRules(w io.Writer, i *networkingv1.Ingress, fallback string, l look) error {
	fmt.Fprintln(w, "Rules:")
	c := newColumns(w)
	c.row("  Host", "Path", "Backends")
	c.row("  ----", "----", "--------")
	described := false
	for _, r := range i.Spec.Rules {
		if r.HTTP == nil {
			continue
		}
		described = true
		c.row("  "+cmp.Or(r.Host, "*"), "")
		for j := range r.HTTP.Paths {
			path := &r.HTTP.Paths[j]
			c.row("", path.Path, backendText(l.Desired, i.Namespace, &path.Backend))
		}
	}
	if !described {
		c.row("  *", "*", fallback)
	}
	return c.flush()
}

// backendText names what requests go to, with its endpoints: "web:80 (10.244.0.5:8080)".
func backendText(d agent.Desired, namespace string, b *networkingv1.IngressBackend) string {
	switch {
	case b.Resource != nil:
		return fmt.Sprintf("APIGroup: %s, Kind: %s, Name: %s", valueOf(b.Resource.APIGroup), b.Resource.Kind, b.Resource.Name)
	case b.Service == nil:
		return "<none>"
	}
	port := b.Service.Port
	name := cmp.Or(port.Name, strconv.Itoa(int(port.Number)))
	return fmt.Sprintf("%s:%s (%s)", b.Service.Name, name, servedBy(d, namespace, b.Service.Name, func(p corev1.ServicePort) bool {
		return port.Name != "" && p.Name == port.Name || port.Name == "" && p.Port == port.Number
	}))
}

// servedBy are the endpoints of the port of a Service that is meant, or says what
// is wrong.
func servedBy(d agent.Desired, namespace, name string, meant func(corev1.ServicePort) bool) string {
	for _, s := range d.Objects.Services {
		if s.Namespace != namespace || s.Name != name {
			continue
		}
		if s.Spec.Type == corev1.ServiceTypeExternalName {
			return s.Spec.ExternalName
		}
		for _, p := range s.Spec.Ports {
			if meant(p) {
				return strings.Join(firstThree(endpointsOf(d, s, p)), ",")
			}
		}
		return fmt.Sprintf("<error: service %q has no such port>", name)
	}
	return fmt.Sprintf("<error: services %q not found>", name)
}
