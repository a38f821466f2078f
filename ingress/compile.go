package ingress

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/toyproxy/toyproxy/cluster"
)

// Input is what Compile reads. Nothing of it is changed but Pairs.
type Input struct {
	Ingresses []*networkingv1.Ingress
	Classes   []*networkingv1.IngressClass
	// Services are looked at to report references to what is not there.
	Services []*corev1.Service
	Secrets  []*corev1.Secret
	// Controller is the spec.controller of our classes; "" is ControllerName.
	Controller string
	// Pairs is what earlier calls have found of the Secrets; nil: all are read.
	Pairs *Pairs
}

// Output is what Compile makes of it.
type Output struct {
	// Config has the ports 80 and 443, with the same routes.
	Config Config
	// Problems are ordered by object and field.
	Problems []cluster.Problem
	// Served are the Ingresses of our classes, in order of namespace and name: their
	// status.loadBalancer has the address of the proxy. That of all others is not ours to write.
	Served []types.NamespacedName
}

// object is an Ingress that is served, with what its annotations say.
type object struct {
	*networkingv1.Ingress
	options options
}

func (o *object) ref() cluster.Ref { return cluster.MakeRef(cluster.Ingress, o.Namespace, o.Name) }

// compiler gathers what Compile returns.
type compiler struct {
	in       Input
	services map[types.NamespacedName]*corev1.Service
	out      Output
	// claims has what the objects ask for, by what they ask for: of several, one has it.
	claims map[claimKey][]*claim
	secure map[Hostname]bool // hosts that have TLS
	pairs  map[*corev1.Secret]pair
}

// Compile makes a Config from Ingress objects. The order of the lists and of the paths
// within an object says nothing. Two objects may share a host: their paths are one
// list. Where two ask for the same path of a host, the older one has it, and the
// other is reported and takes over when the first goes.
func Compile(in Input) Output {
	c := &compiler{
		in: in, services: map[types.NamespacedName]*corev1.Service{},
		claims: map[claimKey][]*claim{}, secure: map[Hostname]bool{}, pairs: map[*corev1.Secret]pair{},
	}
	for _, svc := range in.Services {
		c.services[types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name}] = svc
	}
	objects := c.served()
	for _, o := range objects {
		o.options = c.options(o)
		c.out.Served = append(c.out.Served, types.NamespacedName{Namespace: o.Namespace, Name: o.Name})
		c.claimAll(o)
	}
	certificates := c.certificates(objects)
	if in.Pairs != nil {
		in.Pairs.known = c.pairs
	}
	routes := c.routes()
	c.out.Config.Ports = []Port{
		{Number: 80, Listeners: []Listener{{Name: "http", Routes: routes}}},
		{Number: 443, TLS: true, Listeners: []Listener{{
			Name: "https", Certificates: certificates, SelfSigned: true, Routes: routes,
		}}},
	}
	slices.SortFunc(c.out.Served, compareNames)
	slices.SortFunc(c.out.Problems, func(a, b cluster.Problem) int {
		return cmp.Or(a.Object.Compare(b.Object), cmp.Compare(a.Field, b.Field), cmp.Compare(a.Message, b.Message))
	})
	return c.out
}

func (c *compiler) report(o *object, field, format string, args ...any) {
	c.out.Problems = append(c.out.Problems, cluster.Problem{Object: o.ref(), Field: field, Message: fmt.Sprintf(format, args...)})
}

func (c *compiler) warn(o *object, field, format string, args ...any) {
	c.report(o, field, format, args...)
	c.out.Problems[len(c.out.Problems)-1].Warning = true
}

// claimAll claims every path of an object, and its default.
func (c *compiler) claimAll(o *object) {
	hosts := map[Hostname]bool{}
	for i := range o.Spec.Rules {
		rule := &o.Spec.Rules[i]
		field := fmt.Sprintf("spec.rules[%d]", i)
		host, ok := parseHost(rule.Host)
		if !ok {
			c.report(o, field+".host", "%q is no host: write a name such as a.example, or *.example for one label; the rule is left out", rule.Host)
			continue
		}
		hosts[host] = true
		if rule.HTTP == nil {
			continue
		}
		for j := range rule.HTTP.Paths {
			c.claimPath(o, host, &rule.HTTP.Paths[j], fmt.Sprintf("%s.http.paths[%d]", field, j))
		}
	}
	if o.Spec.DefaultBackend == nil {
		return
	}
	rank := ownDefault
	if len(o.Spec.Rules) == 0 {
		hosts[Hostname{}] = true
		rank = classDefault
	}
	for host := range hosts {
		c.claim(&claim{
			key: claimKey{host: host, rank: rank}, object: o, field: "spec.defaultBackend",
			share: c.share(o, o.Spec.DefaultBackend, "spec.defaultBackend"),
		})
	}
}

// parseHost reads the host of a rule or of spec.tls.
func parseHost(text string) (Hostname, bool) {
	if text == "" {
		return Hostname{}, true
	}
	name := strings.ToLower(text)
	plain := strings.TrimPrefix(name, "*.")
	return Hostname{Name: name}, len(validation.IsDNS1123Subdomain(plain)) == 0
}

// claimPath claims one path of a host.
func (c *compiler) claimPath(o *object, host Hostname, p *networkingv1.HTTPIngressPath, field string) {
	m, weak, err := c.match(o, p, field)
	if err != nil {
		c.report(o, field+".path", "%v; the path is left out", err)
		return
	}
	k := &claim{key: claimKey{host: host, rank: sized, path: m.Path, kind: m.Kind}, object: o, field: field, match: m, weak: weak}
	k.written = written{host: host, path: p.Path}
	if p.PathType != nil {
		k.written.kind = string(*p.PathType)
	}
	switch m.Kind {
	case PathExact:
		k.key.rank = exactPath
	case PathPrefix:
		k.key.path = trimPrefix(m.Path)
	}
	k.share = c.share(o, &p.Backend, field+".backend")
	c.claim(k)
}

// match reads the path and its type. Weak is a path of type ImplementationSpecific,
// which gives way to the same path of type Prefix.
func (c *compiler) match(o *object, p *networkingv1.HTTPIngressPath, field string) (m Match, weak bool, err error) {
	kind := networkingv1.PathTypeImplementationSpecific
	if p.PathType != nil {
		kind = *p.PathType
	}
	path := p.Path
	if path == "" && kind != networkingv1.PathTypeExact {
		path = "/"
	}
	regex := (o.options.useRegex || strings.Contains(o.options.rewrite, "$")) && kind != networkingv1.PathTypeExact
	if kind == networkingv1.PathTypePrefix && regex {
		if regex = strings.ContainsAny(path, `()[]{}*+?^$|\`); regex {
			c.warn(o, field+".pathType", "the path is taken for a regular expression, as use-regex or rewrite-target asks for them: "+
				"write ImplementationSpecific, as Prefix promises elements")
		}
	}
	if regex {
		m = Match{Kind: PathRegex, Path: path}
		m.Regex, err = CompilePath(path, true)
		return m, false, err
	}
	parsed, err := ParsePath(path)
	m = Match{Path: parsed.Match}
	if kind == networkingv1.PathTypeExact {
		m.Kind = PathExact
		if path == "" {
			err = fmt.Errorf("a path of type Exact is not empty")
		}
	}
	return m, kind == networkingv1.PathTypeImplementationSpecific, err
}

// share makes the backend of a path, and reports what is not there.
func (c *compiler) share(o *object, b *networkingv1.IngressBackend, field string) Share {
	out := Share{Weight: 1, Backend: Backend{Protocol: o.options.protocol, Refused: o.options.refused}}
	if b.Service == nil {
		out.Backend.Refused = "the backend is no Service"
		c.report(o, field, "only Services are backends here: the requests get 500")
		return out
	}
	port := b.Service.Port
	out.Backend.Service = types.NamespacedName{Namespace: o.Namespace, Name: b.Service.Name}
	if port.Number > 0 && port.Number <= 65535 {
		out.Backend.Port = uint16(port.Number)
	} else {
		out.Backend.PortName = port.Name
	}
	switch r := Resolve(out.Backend, c.services[out.Backend.Service], nil); r.Reason {
	case NoService:
		c.warn(o, field+".service.name", "there is no Service %s: the requests get 503 until there is", out.Backend.Service)
	case NoPort:
		c.warn(o, field+".service.port", "%s has no TCP port %s: the requests get 503 until it has",
			cluster.MakeRef(cluster.Service, o.Namespace, b.Service.Name), cmp.Or(port.Name, fmt.Sprint(port.Number)))
	}
	return out
}
