package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/explain"
	"github.com/toyproxy/toyproxy/ingress"
	"github.com/toyproxy/toyproxy/ingress/gateway"
)

// httpQuestion is what explain asks of a URL, beside the packet.
type httpQuestion struct {
	method  string
	headers []string
	// publish is the Service of the ingress.
	publish string
}

func (h *httpQuestion) register(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVarP(&h.method, "request", "X", http.MethodGet, "of a URL: the method")
	fl.StringArrayVarP(&h.headers, "header", "H", nil, "of a URL: a header, such as 'X-Canary: always'; repeats")
	fl.StringVar(&h.publish, "publish-service", "kube-system/toyproxy-ingress", "of a URL: the Service of the ingress")
}

// isURL tells whether a target is one.
func isURL(target string) bool {
	return strings.HasPrefix(target, "http://") || strings.HasPrefix(target, "https://")
}

// readURL parses a target and the flags that go with it.
func (h *httpQuestion) readURL(target string) (u *url.URL, port uint16, req ingress.Request, err error) {
	if u, err = url.Parse(target); err != nil || u.Host == "" {
		return nil, 0, req, fmt.Errorf("%q is no URL: write http://HOST/PATH", target)
	}
	number := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	n, err := strconv.ParseUint(number, 10, 16)
	if err != nil || n == 0 {
		return nil, 0, req, fmt.Errorf("%q: port %s: want a number from 1 to 65535", target, number)
	}
	path, err := ingress.ParsePath(u.EscapedPath())
	if err != nil {
		return nil, 0, req, fmt.Errorf("%q: the ingress answers 400: %w", target, err)
	}
	req = ingress.Request{Host: u.Host, Path: path, Method: h.method, Headers: http.Header{}, Query: u.RawQuery}
	for _, line := range h.headers {
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, 0, req, fmt.Errorf("header %q: want NAME: VALUE", line)
		}
		name = http.CanonicalHeaderKey(strings.TrimSpace(name))
		req.Headers[name] = append(req.Headers[name], strings.TrimSpace(value))
	}
	return u, uint16(n), req, nil
}

// httpExplanation is what explain prints of a URL with -o json.
type httpExplanation struct {
	Request string `json:"request"`
	ingress.Explanation
	// Packet is the way of the client's packets to the ingress; absent when the ingress
	// has no Service.
	Packet any `json:"packet,omitempty"`
}

// answerURL explains which rule has a request and where it goes, then how its
// packets reach the ingress.
func (q *question) answerURL(cmd *cobra.Command, target string) error {
	u, port, req, err := q.http.readURL(target)
	if err != nil {
		return exit(exitUsage, err)
	}
	d, err := q.begin(cmd)
	if err != nil {
		return err
	}
	e := ingress.Question{Router: ingress.NewRouter(frontDoors(d)), Port: port, TLS: u.Scheme == "https",
		Request: req, Services: d.Objects.Services, Slices: d.Slices}.Explain()
	e.Position = where(d, e)
	request := req.Method + " " + target
	packet, why, err := q.toIngress(cmd.Context(), d, port)
	if err != nil {
		return err
	}
	w := cmd.OutOrStdout()
	if q.out.isJSON() {
		out := httpExplanation{Request: request, Explanation: e}
		if packet != nil {
			out.Packet = packet.Document(string(q.nf.backend), q.live)
		}
		return printJSON(w, out)
	}
	if _, err := io.WriteString(messages{w}, e.Text(request)); err != nil {
		return err
	}
	if packet == nil {
		_, err = fmt.Fprintf(w, "\nnote: %s\n", why)
		return err
	}
	if _, err := fmt.Fprintf(w, "\nThe way to the ingress\n"); err != nil {
		return err
	}
	return q.print(w, *packet)
}

// where is the line of the manifests behind the rule, "" when it is not known.
func where(d agent.Desired, e ingress.Explanation) string {
	if e.Route == nil || d.Locate == nil {
		return ""
	}
	at := d.Locate(e.Route.Object, e.Route.Field)
	if at.File == "" {
		return ""
	}
	return at.String()
}

// frontDoors is what an ingress serves for a set of objects.
func frontDoors(d agent.Desired) ingress.Config {
	own := ingress.Compile(ingress.Input{Ingresses: d.Objects.Ingresses, Classes: d.Objects.IngressClasses,
		Services: d.Objects.Services, Secrets: d.Objects.Secrets})
	gates := gateway.Compile(gateway.Input{Objects: d.Objects})
	return ingress.Join(own.Config, gates.Config)
}

// toIngress walks a packet to a port of the ingress, from outside if it has an
// address for that. Without a way there the reason is returned.
func (q *question) toIngress(ctx context.Context, d agent.Desired, port uint16) (*explain.Explanation, string, error) {
	namespace, name, ok := strings.Cut(q.http.publish, "/")
	if !ok {
		return nil, "", exit(exitUsage, fmt.Errorf("--publish-service %s: want NAMESPACE/NAME", q.http.publish))
	}
	id := types.NamespacedName{Namespace: namespace, Name: name}
	at := slices.IndexFunc(d.Objects.Services, func(s *corev1.Service) bool { return s.Namespace == namespace && s.Name == name })
	if at < 0 {
		return nil, fmt.Sprintf("no packet is walked to the ingress: there is no Service %s (--publish-service)", id), nil
	}
	svc := d.Objects.Services[at]
	if !slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == int32(port) }) {
		return nil, fmt.Sprintf("no packet is walked to the ingress: Service %s has no port %d", id, port), nil
	}
	for _, text := range doorAddresses(svc) {
		if addr, err := netip.ParseAddr(text); err == nil {
			e, err := q.explain(ctx, d, netip.AddrPortFrom(addr, port).String())
			return &e, "", err
		}
	}
	return nil, fmt.Sprintf("no packet is walked to the ingress: Service %s has no address", id), nil
}

// doorAddresses are those of a Service, from outside first.
func doorAddresses(svc *corev1.Service) (out []string) {
	for _, i := range svc.Status.LoadBalancer.Ingress {
		out = append(out, i.IP)
	}
	return slices.Concat(out, svc.Spec.ExternalIPs, svc.Spec.ClusterIPs)
}
