package ingress

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// slice makes an EndpointSlice of a Service: "NAME=PORT" and addresses, each with
// "!" behind it when not ready.
func slice(service, port string, addresses ...string) *discoveryv1.EndpointSlice {
	name, number, _ := strings.Cut(port, "=")
	s := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: service + number, Labels: map[string]string{discoveryv1.LabelServiceName: service},
	}, AddressType: discoveryv1.AddressTypeIPv4}
	p := discoveryv1.EndpointPort{Name: &name, Port: new(int32)}
	if _, err := fmt.Sscan(number, p.Port); err != nil {
		panic(err)
	}
	s.Ports = []discoveryv1.EndpointPort{p}
	for _, text := range addresses {
		address, ready := strings.CutSuffix(text, "!")
		if strings.Contains(address, ":") {
			s.AddressType = discoveryv1.AddressTypeIPv6
		}
		e := discoveryv1.Endpoint{Addresses: []string{address}, TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "p" + address}}
		if ready {
			// Serving and terminating: what Services fall back to, and Ingress does not.
			e.Conditions = discoveryv1.EndpointConditions{Ready: new(false), Serving: new(true), Terminating: new(true)}
		}
		s.Endpoints = append(s.Endpoints, e)
	}
	return s
}

func port(name string, number int32, target any) corev1.ServicePort {
	p := corev1.ServicePort{Name: name, Port: number, Protocol: corev1.ProtocolTCP}
	switch target := target.(type) {
	case int:
		p.TargetPort = intstr.FromInt32(int32(target))
	case string:
		p.TargetPort = intstr.FromString(target)
	}
	return p
}

func alias(svc *corev1.Service, name string) *corev1.Service {
	svc.Spec.Type, svc.Spec.ExternalName = corev1.ServiceTypeExternalName, name
	return svc
}

func to(text string) Backend {
	b := backend(text).Service
	return Backend{Service: types.NamespacedName{Namespace: "default", Name: b.Name}, Port: uint16(b.Port.Number), PortName: b.Port.Name}
}

// show is a Resolved as text: addresses, or the external name, or the reason.
func show(r Resolved) string {
	var out []string
	for _, e := range r.Endpoints {
		out = append(out, e.Address.String())
	}
	if r.External != "" {
		out = append(out, fmt.Sprintf("%s:%d", r.External, r.ExternalPort))
	}
	if r.Reason != Usable {
		out = append(out, r.Reason.String())
	}
	return strings.Join(out, " ")
}

// TestResolve has the cases of kubernetes-retired/contrib#781 and kubernetes/ingress-nginx#10811, #4508,
// #5854 and #12158: named ports that differ from Pod to Pod, targetPort, aliases, headless Services.
func TestResolve(t *testing.T) {
	t.Parallel()
	web := service("web", corev1.ServicePort{Name: "web", Port: 80, Protocol: corev1.ProtocolUDP}, port("web", 80, "http"), port("admin", 81, 9000))
	one := service("web", port("", 80, 8080))
	dual := service("web", port("", 80, 8080))
	dual.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
	headless := service("web", port("", 80, 8080))
	headless.Spec.ClusterIP = corev1.ClusterIPNone
	pods := []*discoveryv1.EndpointSlice{slice("web", "web=9090", "10.0.0.3"), slice("web", "web=8080", "10.0.0.2", "10.0.0.1"),
		slice("web", "admin=9000", "10.0.0.1!"), slice("other", "web=1", "10.9.9.9")}
	for _, tc := range []struct {
		name    string
		backend string
		service *corev1.Service
		slices  []*discoveryv1.EndpointSlice
		want    string
	}{
		{"by name", "web:web", web, pods, "10.0.0.1:8080 10.0.0.2:8080 10.0.0.3:9090"},
		{"by number", "web:80", web, pods, "10.0.0.1:8080 10.0.0.2:8080 10.0.0.3:9090"},
		{"only terminating", "web:admin", web, pods, "no endpoint is ready"},
		{"name of the target port", "web:http", web, pods, "the Service has no such TCP port"},
		{"number of the target port", "web:8080", web, pods, "the Service has no such TCP port"},
		{"no slices", "web:80", web, nil, "the Service has no endpoints"},
		{"no Service", "web:80", nil, pods, "there is no such Service"},
		{"one without name", "web:80", one, []*discoveryv1.EndpointSlice{slice("web", "=8080", "10.0.0.1", "10.0.0.2!")}, "10.0.0.1:8080"},
		{"an endpoint twice", "web:80", one, []*discoveryv1.EndpointSlice{slice("web", "=8080", "10.0.0.1!"), slice("web", "=8080", "10.0.0.1")}, "10.0.0.1:8080"},
		{"the first family", "web:80", dual, []*discoveryv1.EndpointSlice{slice("web", "=8080", "10.0.0.1"), slice("web", "=8080", "fd00::1")}, "[fd00::1]:8080"},
		{"the other family", "web:80", dual, []*discoveryv1.EndpointSlice{slice("web", "=8080", "10.0.0.1"), slice("web", "=8080", "fd00::1!")}, "10.0.0.1:8080"},
		{"headless", "web:80", headless, []*discoveryv1.EndpointSlice{slice("web", "=8080", "10.0.0.1")}, "10.0.0.1:8080"},
		{"alias", "x:80", alias(service("x"), "a.example."), nil, "a.example:80"},
		{"alias by name, targetPort", "x:http", alias(service("x", port("http", 80, 8443)), "a.example"), nil, "a.example:8443"},
		{"alias without targetPort", "x:80", alias(service("x", port("", 80, nil)), "a.example"), nil, "a.example:80"},
		{"alias with a named targetPort", "x:80", alias(service("x", port("", 80, "http")), "a.example"), nil, "a.example:80"},
		{"alias, unknown name", "x:zzz", alias(service("x"), "a.example"), nil, "the Service has no such TCP port"},
		{"alias, unknown number", "x:81", alias(service("x", port("", 80, nil)), "a.example"), nil, "the Service has no such TCP port"},
		{"alias, left-over slices", "web:80", alias(service("web", port("web", 80, nil)), "a.example"), pods, "a.example:80"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := show(Resolve(to(tc.backend), tc.service, tc.slices)); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

// TestServiceChangesKind has the case of kubernetes/ingress-nginx#8308, #8440 and #11844: nothing of
// what a Service was before is left in what it comes to. There is no memory to go stale.
func TestServiceChangesKind(t *testing.T) {
	t.Parallel()
	was := alias(service("s", port("", 80, nil)), "old.example")
	is := service("s", port("", 80, 8080))
	is.Spec.ClusterIP = "10.96.0.44"
	headless := service("s", port("", 80, 8080))
	headless.Spec.ClusterIP = corev1.ClusterIPNone
	slices := []*discoveryv1.EndpointSlice{slice("s", "=8080", "10.244.0.12")}
	for _, svc := range []*corev1.Service{was, is, headless, was, is} {
		want := "10.244.0.12:8080"
		if svc == was {
			want = "old.example:80"
		}
		if got := show(Resolve(to("s:80"), svc, slices)); got != want {
			t.Errorf("%s %s resolves to %s, want %s", svc.Spec.Type, svc.Spec.ClusterIP, got, want)
		}
	}
}

// TestUnknownPort: the path with a port that is not there is reported, and other paths are none the worse.
func TestUnknownPort(t *testing.T) {
	t.Parallel()
	web := service("web", port("http", 80, "http"))
	in := Input{Services: []*corev1.Service{web}}
	in.Ingresses = append(in.Ingresses, ing("x", 1, "a.example / P web:http", "a.example /zzz P web:zzz", "a.example /81 P web:81", "a.example /gone P gone"))
	out := Compile(in)
	var got []string
	for _, p := range out.Problems {
		if !p.Warning {
			t.Errorf("%v is no warning: the path is served, with 503", p)
		}
		got = append(got, p.String())
	}
	want := []string{
		"Ingress default/x: spec.rules[0].http.paths[1].backend.service.port: Service default/web has no TCP port zzz: the requests get 503 until it has",
		"Ingress default/x: spec.rules[0].http.paths[2].backend.service.port: Service default/web has no TCP port 81: the requests get 503 until it has",
		"Ingress default/x: spec.rules[0].http.paths[3].backend.service.name: there is no Service default/gone: the requests get 503 until there is",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("problems:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	wants(t, NewRouter(out.Config), "a.example/x", "web", "a.example/gone", "gone")
}

func TestProtocols(t *testing.T) {
	t.Parallel()
	for app, want := range map[string]Protocol{
		"": HTTP1, "http": HTTP1, "kubernetes.io/ws": HTTP1, "example.com/own": HTTP1, "kubernetes.io/h2c": H2C, "grpc": H2C,
		"https": HTTPS, "HTTPS": HTTPS, "kubernetes.io/wss": HTTPS,
	} {
		p := port("", 80, 80)
		p.AppProtocol = &app
		svc := service("s", p)
		if got := Resolve(to("s:80"), svc, nil).Protocol; got != want {
			t.Errorf("appProtocol %q is %v, want %v", app, got, want)
		}
		b := to("s:80")
		b.Protocol = new(HTTP1)
		if got := Resolve(b, svc, nil).Protocol; got != HTTP1 {
			t.Errorf("the annotation gives way to appProtocol %q", app)
		}
	}
}

func TestAffinity(t *testing.T) {
	t.Parallel()
	svc := service("s", port("", 80, 80))
	if got := Resolve(to("s:80"), svc, nil).Affinity; got != 0 {
		t.Errorf("affinity of none is %v", got)
	}
	svc.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
	if got := Resolve(to("s:80"), svc, nil).Affinity; got != 3*time.Hour {
		t.Errorf("affinity is %v, want 3h", got)
	}
	svc.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(int32(60))}}
	if got := Resolve(to("s:80"), svc, nil).Affinity; got != time.Minute {
		t.Errorf("affinity is %v, want 1m", got)
	}
}
