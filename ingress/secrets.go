package ingress

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
)

// certificates returns the certificates that the objects name, and notes which hosts
// have TLS: those that an object names in spec.tls, whether its Secret is any good or
// not, as what was to be encrypted is not served in the clear for a slip.
func (c *compiler) certificates(objects []*object) []Certificate {
	secrets := map[types.NamespacedName]*corev1.Secret{}
	for _, s := range c.in.Secrets {
		secrets[types.NamespacedName{Namespace: s.Namespace, Name: s.Name}] = s
	}
	byHost := map[Hostname]decision{}
	for _, o := range objects {
		for i := range o.Spec.TLS {
			name, hosts := c.entry(o, i, secrets)
			for _, host := range hosts {
				c.decide(byHost, host, decision{name, o, fmt.Sprintf("spec.tls[%d]", i)})
			}
		}
	}
	hosts := map[types.NamespacedName][]Hostname{}
	for host, d := range byHost {
		hosts[d.secret] = append(hosts[d.secret], host)
	}
	var out []Certificate
	for _, name := range slices.SortedFunc(maps.Keys(hosts), compareNames) {
		slices.SortFunc(hosts[name], Hostname.Compare)
		data := secrets[name].Data
		out = append(out, Certificate{Secret: name, Hosts: hosts[name], Cert: data[corev1.TLSCertKey], Key: data[corev1.TLSPrivateKeyKey]})
	}
	return out
}

// decision says whose Secret is shown for a host.
type decision struct {
	secret types.NamespacedName
	object *object
	field  string
}

// decide gives a host to the first that asks for it: objects come in order of age.
func (c *compiler) decide(byHost map[Hostname]decision, host Hostname, d decision) {
	first, taken := byHost[host]
	switch {
	case !taken:
		byHost[host] = d
	case first.secret != d.secret:
		c.warn(d.object, d.field, "host %s has the certificate of Secret %s by %s, which is older: this one is not shown",
			host, first.secret, first.object.ref())
	}
}

func compareNames(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// entry reads one entry of spec.tls: its Secret and the names to show it for; none when
// there is no good Secret.
func (c *compiler) entry(o *object, i int, secrets map[types.NamespacedName]*corev1.Secret) (types.NamespacedName, []Hostname) {
	entry, field := &o.Spec.TLS[i], fmt.Sprintf("spec.tls[%d]", i)
	named := c.tlsHosts(o, entry.Hosts, field)
	name := types.NamespacedName{Namespace: o.Namespace, Name: entry.SecretName}
	if entry.SecretName == "" {
		return name, nil
	}
	secret := secrets[name]
	if secret == nil {
		c.warn(o, field+".secretName", "there is no Secret %s: clients of the hosts are shown the proxy's own certificate until there is", name)
		return name, nil
	}
	covered, err := c.pair(secret)
	if err != nil {
		c.report(o, field+".secretName", "Secret %s: %v; clients of the hosts are shown the proxy's own certificate", name, err)
		return name, nil
	}
	if len(entry.Hosts) == 0 {
		return name, covered
	}
	for _, host := range named {
		if !slices.ContainsFunc(covered, func(h Hostname) bool { return h == host || h.Covers(host.Name) }) {
			c.warn(o, field+".secretName", "the certificate of Secret %s does not name %s: clients will refuse it", name, host)
		}
	}
	return name, named
}

// tlsHosts reads the hosts of an entry of spec.tls and notes that they have TLS. Without hosts
// the entry is for those of all rules of the object.
func (c *compiler) tlsHosts(o *object, texts []string, field string) []Hostname {
	field += ".hosts"
	if len(texts) == 0 {
		for i := range o.Spec.Rules {
			texts = append(texts, o.Spec.Rules[i].Host)
		}
	}
	var out []Hostname
	for _, text := range texts {
		host, ok := parseHost(text)
		if !ok {
			c.report(o, field, "%q is no host: write a name such as a.example, or *.example for one label", text)
			continue
		}
		c.secure[host] = host.Name != ""
		out = append(out, host)
	}
	return out
}

// isSecure says whether a host has TLS. A rule for every host has it where its own
// object has spec.tls without hosts.
func (c *compiler) isSecure(host Hostname, o *object) bool {
	if host.Name == "" {
		return slices.ContainsFunc(o.Spec.TLS, func(t networkingv1.IngressTLS) bool { return len(t.Hosts) == 0 })
	}
	return c.secure[host] || c.secure[wildcardOf(host.Name)]
}

// wildcardOf returns the wildcard that covers a name: "*.example" of "a.example".
func wildcardOf(name string) Hostname {
	_, rest, _ := strings.Cut(name, ".")
	return Hostname{Name: "*." + rest}
}

// Pairs remembers what was found of the certificates of Secrets, so that compiling again
// does not read again what has not changed. The zero value remembers nothing yet. It is
// not safe for concurrent use.
type Pairs struct {
	known map[*corev1.Secret]pair
}

// pair is what a certificate is for, or what is wrong with it.
type pair struct {
	hosts []Hostname
	err   error
}

// pair reads the certificate and the key of a Secret.
func (c *compiler) pair(s *corev1.Secret) ([]Hostname, error) {
	p, ok := c.pairs[s]
	if !ok && c.in.Pairs != nil {
		p, ok = c.in.Pairs.known[s]
	}
	if !ok {
		p.err = CheckPair(s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey])
		if p.err == nil {
			p.hosts, p.err = CertificateHosts(s.Data[corev1.TLSCertKey])
		}
	}
	c.pairs[s] = p
	return p.hosts, p.err
}
