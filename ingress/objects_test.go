package ingress

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/toyproxy/toyproxy/cluster"
)

// ing makes an Ingress of namespace default. Rules are "HOST PATH TYPE SERVICE[:PORT]",
// with "-" for no host; types are E, P and I. Later ones are younger.
func ing(name string, age int, rules ...string) *networkingv1.Ingress {
	out := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, Annotations: map[string]string{},
		CreationTimestamp: metav1.NewTime(time.Unix(1_800_000_000+int64(age), 0)),
	}}
	for _, text := range rules {
		f := strings.Fields(text)
		host := strings.TrimPrefix(f[0], "-")
		kind := map[string]networkingv1.PathType{"E": "Exact", "P": "Prefix", "I": "ImplementationSpecific"}[f[2]]
		path := networkingv1.HTTPIngressPath{Path: f[1], PathType: &kind, Backend: *backend(f[3])}
		last := len(out.Spec.Rules) - 1
		if last < 0 || out.Spec.Rules[last].Host != host {
			out.Spec.Rules = append(out.Spec.Rules, networkingv1.IngressRule{Host: host})
			out.Spec.Rules[last+1].HTTP = &networkingv1.HTTPIngressRuleValue{}
			last++
		}
		http := out.Spec.Rules[last].HTTP
		http.Paths = append(http.Paths, path)
	}
	return out
}

// backend reads "SERVICE", "SERVICE:80" and "SERVICE:http".
func backend(text string) *networkingv1.IngressBackend {
	name, port, _ := strings.Cut(text, ":")
	b := &networkingv1.IngressServiceBackend{Name: name}
	if _, err := fmt.Sscan(port, &b.Port.Number); err != nil {
		b.Port.Name = port
	}
	if port == "" {
		b.Port = networkingv1.ServiceBackendPort{Number: 80}
	}
	return &networkingv1.IngressBackend{Service: b}
}

// with sets annotations of ingress-nginx: "canary=true".
func with(o *networkingv1.Ingress, annotations ...string) *networkingv1.Ingress {
	for _, text := range annotations {
		name, value, _ := strings.Cut(text, "=")
		o.Annotations[annotationPrefix+name] = value
	}
	return o
}

func compile(objects ...*networkingv1.Ingress) Output { return Compile(Input{Ingresses: objects}) }

// get asks for a URL without scheme, "a.example/foo?q=1", and returns the name of the
// Service that has it, the refusal, or "404". More fields are headers, "Name: value".
func get(t *testing.T, r *Router, url string, headers ...string) string {
	t.Helper()
	host, path, _ := strings.Cut(url, "/")
	path, query, _ := strings.Cut("/"+path, "?")
	p, err := ParsePath(path)
	if err != nil {
		return "400"
	}
	found := r.Lookup(80, Request{Host: host, Path: p, Method: "GET", Query: query, Headers: headerMap(headers)})
	if found.Route == nil {
		return "404"
	}
	var names []string
	for _, s := range found.Route.Split {
		name := s.Backend.Service.Name
		if len(found.Route.Split) > 1 {
			name = fmt.Sprintf("%s=%d", name, s.Weight)
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

func headerMap(lines []string) map[string][]string {
	out := map[string][]string{}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		out[name] = append(out[name], value)
	}
	return out
}

// wants checks pairs of URL and Service.
func wants(t *testing.T, r *Router, pairs ...string) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if got := get(t, r, pairs[i]); got != pairs[i+1] {
			t.Errorf("%s goes to %s, want %s", pairs[i], got, pairs[i+1])
		}
	}
}

// real are the problems that are not of Services that a test did not care to make.
func real(problems []cluster.Problem) []string {
	var out []string
	for _, p := range problems {
		if !strings.Contains(p.Message, "there is no Service") {
			out = append(out, p.String())
		}
	}
	return out
}

// wantProblems checks that there are exactly as many, each with its text.
func wantProblems(t *testing.T, out Output, texts ...string) {
	t.Helper()
	got := real(out.Problems)
	if len(got) != len(texts) {
		t.Fatalf("problems:\n%s\nwant %d", strings.Join(got, "\n"), len(texts))
	}
	for i, text := range texts {
		if !strings.Contains(got[i], text) {
			t.Errorf("problem %q does not say %q", got[i], text)
		}
	}
}

func sameConfig(t *testing.T, got, want Config) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("another Config:\n%+v\nwant:\n%+v", got, want)
	}
}

func service(name string, ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.ServiceSpec{Ports: ports}}
}
