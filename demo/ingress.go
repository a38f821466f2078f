package demo

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"math"
	"strings"
)

// doors has the ingress: a Service and a Deployment.
//
//go:embed doors
var doors embed.FS

const (
	doorVIP        = "10.96.0.80"
	canaryRequests = 2000
	canaryWeight   = 20
)

// playIngress is row L19: many applications behind one address.
func playIngress(ctx context.Context, s *stage) error {
	return s.play(ctx, declaration, controllerRuns, noEndpoint)
}

// playCanaryHTTP shares requests by weight and by header.
func playCanaryHTTP(ctx context.Context, s *stage) error {
	return s.play(ctx, canaryRules, canaryShare, canaryHeader)
}

// app is a Pod and the Service in front of it.
func (s *stage) app(name string) error {
	return errors.Join(
		s.writePod(podSpec{Name: name, Labels: "app: " + name, Port: 8080}),
		s.writeService(serviceSpec{Name: name, Selector: "app: " + name}))
}

// writeBuiltIn writes a manifest that is built in.
func (s *stage) writeBuiltIn(from embed.FS, path, name string) error {
	text, err := from.ReadFile(path)
	if err != nil {
		return fmt.Errorf("built-in manifest %s: %w", path, err)
	}
	return s.write(name, string(text))
}

// ask sends a request for a host from pod-a to the ingress, and returns the answer.
func (s *stage) ask(ctx context.Context, host, path string) (string, error) {
	return s.run(ctx, fmt.Sprintf("ip netns exec pod-a curl -s -m 5 -w '%%{http_code}\\n' -H 'Host: %s' http://%s%s", host, doorVIP, path))
}

// declaration: an Ingress object alone serves nobody.
func declaration(ctx context.Context, s *stage) error {
	s.say("Three applications, each with a Service, and an Ingress that says which host and path is whose.")
	err := errors.Join(
		s.writePod(podSpec{Name: "pod-a", Labels: "app: client"}),
		s.app("api-v1"), s.app("api-v2"), s.app("blog"),
		s.write("rules.yaml", lessonIngress),
		s.sync(ctx))
	if err != nil {
		return err
	}
	s.say("The Ingress is a declaration. Who serves it? Nobody yet:")
	if _, err := s.run(ctx, "toyproxy get ingress"); err != nil {
		return err
	}
	_, err = s.quiet(ctx, fmt.Sprintf("ip netns exec pod-a curl -s -m 3 -H 'Host: blog.example.com' http://%s/", doorVIP))
	return s.expect(err != nil, "%s does not answer", doorVIP)
}

const lessonIngress = `apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: lesson}
spec:
  rules:
    - host: api.example.com
      http:
        paths:
          - {path: /v1, pathType: Prefix, backend: {service: {name: api-v1, port: {number: 80}}}}
          - {path: /v2, pathType: Prefix, backend: {service: {name: api-v2, port: {number: 80}}}}
    - host: blog.example.com
      http:
        paths:
          - {path: /, pathType: Prefix, backend: {service: {name: blog, port: {name: http}}}}
`

// controllerRuns: a process reads host and path, and one address serves three Services.
func controllerRuns(ctx context.Context, s *stage) error {
	s.say("Now a program runs that reads such objects: `toyproxy ingress`, in a Pod behind a Service of its own.")
	if err := errors.Join(s.writeBuiltIn(doors, "doors/ingress.yaml", "ingress.yaml"), s.sync(ctx)); err != nil {
		return err
	}
	for _, q := range []struct{ host, path, pod string }{
		{"api.example.com", "/v1/orders", "api-v1"},
		{"api.example.com", "/v2/orders", "api-v2"},
		{"blog.example.com", "/", "blog"},
		{"API.example.com:80", "/v1", "api-v1"},
	} {
		out, err := s.ask(ctx, q.host, q.path)
		if err != nil {
			return err
		}
		if err := s.expect(strings.Contains(out, q.pod) && strings.Contains(out, "200"), "%s%s is answered by %s", q.host, q.path, q.pod); err != nil {
			return err
		}
	}
	out, err := s.ask(ctx, "shop.example.com", "/")
	if err != nil {
		return err
	}
	if err := s.expect(strings.Contains(out, "404"), "a host that nobody has declared is not found (404)"); err != nil {
		return err
	}
	if _, err := s.until(ctx, "toyproxy get ingress", "the Ingress has the address of its door", func(answer string) bool {
		return strings.Contains(answer, doorVIP)
	}); err != nil {
		return err
	}
	s.say("Why does a request go where it goes?")
	if out, err = s.run(ctx, "toyproxy explain http://api.example.com/v1/orders"); err != nil {
		return err
	}
	return s.expect(strings.Contains(out, "Ingress default/lesson") && strings.Contains(out, "default/api-v1"), "the rule, the Service and its endpoint are named")
}

// noEndpoint: a Service without endpoints is told at once.
func noEndpoint(ctx context.Context, s *stage) error {
	s.say("The blog's Pod goes. Its Service has no endpoint, and clients are told so at once.")
	if err := errors.Join(s.remove("blog.yaml"), s.sync(ctx)); err != nil {
		return err
	}
	out, err := s.run(ctx, fmt.Sprintf("ip netns exec pod-a curl -s -m 20 -o /dev/null -w '%%{http_code}\\n' -H 'Host: blog.example.com' http://%s/", doorVIP))
	if err != nil {
		return err
	}
	return s.expect(strings.TrimSpace(out) == "503", "503, and not silence")
}

func canaryIngress(name, service, annotations string) string {
	return fmt.Sprintf(`apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: %s
  annotations: {%s}
spec:
  rules:
    - host: shop.example.com
      http:
        paths:
          - {path: /, pathType: Prefix, backend: {service: {name: %s, port: {number: 80}}}}
`, name, annotations, service)
}

// canaryRules writes two Ingresses for one host: of them one is the canary.
func canaryRules(ctx context.Context, s *stage) error {
	s.say("Two versions of a shop, and two Ingresses for its host. The annotations say: %d %% to v2, and all who ask for it.", canaryWeight)
	marks := fmt.Sprintf(`nginx.ingress.kubernetes.io/canary: "true", nginx.ingress.kubernetes.io/canary-weight: "%d", nginx.ingress.kubernetes.io/canary-by-header: X-Canary`, canaryWeight)
	return errors.Join(
		s.writePod(podSpec{Name: "pod-a", Labels: "app: client"}),
		s.app("shop-v1"), s.app("shop-v2"),
		s.write("stable.yaml", canaryIngress("stable", "shop-v1", "")),
		s.write("canary.yaml", canaryIngress("canary", "shop-v2", marks)),
		s.writeBuiltIn(doors, "doors/ingress.yaml", "ingress.yaml"), s.sync(ctx))
}

// requests sends so many requests over one connection and counts the answers of v2.
func (s *stage) requests(ctx context.Context, header string) (v2 int, err error) {
	line := fmt.Sprintf("ip netns exec pod-a curl -s %s-H 'Host: shop.example.com' 'http://%s/hostname?[1-%d]'", header, doorVIP, canaryRequests)
	fmt.Fprintf(s.Out, "$ %s\n", line)
	out, err := s.quiet(ctx, line)
	if err != nil {
		return 0, err
	}
	v1 := strings.Count(out, "shop-v1")
	v2 = strings.Count(out, "shop-v2")
	fmt.Fprintf(s.Out, "  shop-v1 %d, shop-v2 %d\n", v1, v2)
	return v2, s.expect(v1+v2 == canaryRequests, "all %d requests were answered", canaryRequests)
}

// canaryShare measures the weight. Of a hundred measurements one is expected to lie
// outside of the 99 % range, and is taken again.
func canaryShare(ctx context.Context, s *stage) error {
	const p, fair99 = float64(canaryWeight) / 100, 2.576
	within := fair99 * math.Sqrt(canaryRequests*p*(1-p))
	for range 3 {
		v2, err := s.requests(ctx, "")
		if err != nil {
			return err
		}
		if math.Abs(float64(v2)-canaryRequests*p) <= within {
			return s.expect(true, "v2 has %.1f %% of %d requests, within %.1f to %.1f %%", 100*float64(v2)/canaryRequests, canaryRequests,
				100*(p-within/canaryRequests), 100*(p+within/canaryRequests))
		}
	}
	return s.expect(false, "v2 to have about %d %% of the requests", canaryWeight)
}

// canaryHeader asks for one version by a header.
func canaryHeader(ctx context.Context, s *stage) error {
	s.say("Whoever sends X-Canary: always gets v2, with never it is v1.")
	always, err := s.requests(ctx, "-H 'X-Canary: always' ")
	if err != nil {
		return err
	}
	never, err := s.requests(ctx, "-H 'X-Canary: never' ")
	if err != nil {
		return err
	}
	return s.expect(always == canaryRequests && never == 0, "always: all went to v2, never: none")
}
