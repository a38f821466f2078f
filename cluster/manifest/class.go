package manifest

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/toyproxy/toyproxy/cluster"
)

// classes gives Ingresses that name no class the default one, as the admission
// plugin DefaultIngressClass does: of several defaults the youngest, and of equally
// old ones the first by name.
func (l *loader) classes() {
	var class *networkingv1.IngressClass
	for _, it := range l.items {
		if c, ok := it.obj.(*networkingv1.IngressClass); ok && c.Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true" {
			if class == nil || newerClass(c, class) {
				class = c
			}
		}
	}
	for _, it := range l.items {
		i, ok := it.obj.(*networkingv1.Ingress)
		if !ok || i.Spec.IngressClassName != nil {
			continue
		}
		if _, named := i.Annotations[classAnnotation]; named {
			l.problems = append(l.problems, it.warning("metadata.annotations["+classAnnotation+"]", "deprecated; write spec.ingressClassName"))
		} else if class != nil {
			i.Spec.IngressClassName = &class.Name
		}
	}
}

func newerClass(a, b *networkingv1.IngressClass) bool {
	return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name)) < 0
}

// annotationSupport are the annotations of ingress-nginx that are acted on, by
// what follows its prefix.
func annotationSupport() []annotation {
	return []annotation{
		{"canary", "`true`: the Ingress takes a share of the requests of another one for the same host and path"},
		{"canary-by-header", "`always` and `never` are its values unless one of the next two rows says others"},
		{"canary-by-header-value", ""},
		{"canary-by-header-pattern", "RE2, where ingress-nginx has PCRE"},
		{"canary-by-cookie", "`always` and `never`"},
		{"canary-weight", "of `canary-weight-total`, else of 100"},
		{"canary-weight-total", ""},
		{"backend-protocol", "`HTTP`, `HTTPS`, `GRPC`, `GRPCS`"},
		{"proxy-body-size", "`8m`; `0` is without a bound"},
		{"proxy-connect-timeout", "in seconds"},
		{"proxy-read-timeout", "in seconds"},
		{"proxy-send-timeout", "in seconds"},
		{"ssl-redirect", "`true` unless it says otherwise, where the host is in `spec.tls`"},
		{"force-ssl-redirect", ""},
		{"rewrite-target", "`$1` and the like are the groups of the path"},
		{"use-regex", "RE2, where ingress-nginx has PCRE"},
		{"affinity", "`cookie`"},
		{"session-cookie-name", ""},
		{"whitelist-source-range", "ranges and addresses that are let in; others get 403"},
		{"allowlist-source-range", "the same"},
		{"denylist-source-range", "ranges and addresses that get 403"},
	}
}

// guardAnnotations keep requests out, and are not acted on: nobody is let in where
// their author counts on them.
func guardAnnotations() []string {
	return []string{"auth-type", "auth-secret", "auth-url", "auth-tls-secret", "auth-tls-verify-client"}
}

// annotation is one annotation that is acted on.
type annotation struct{ name, note string }

// annotationPrefix is that of ingress-nginx.
const annotationPrefix = "nginx.ingress.kubernetes.io/"

// strangers warns of annotations of ingress-nginx that nothing acts on: whoever
// wrote them counts on them.
func (it *item) strangers() (out []cluster.Problem) {
	i, ok := it.obj.(*networkingv1.Ingress)
	if !ok {
		return nil
	}
	known := map[string]bool{}
	for _, a := range annotationSupport() {
		known[annotationPrefix+a.name] = true
	}
	for _, key := range slices.Sorted(maps.Keys(i.Annotations)) {
		name, theirs := strings.CutPrefix(key, annotationPrefix)
		switch {
		case !theirs || known[key]:
		case slices.Contains(guardAnnotations(), name):
			out = append(out, it.warning("metadata.annotations["+key+"]", "not acted on, and it is there to keep requests out: all requests of this Ingress get 500 until it is removed"))
		default:
			out = append(out, it.warning("metadata.annotations["+key+"]", "accepted, not acted on; docs/support.md lists the annotations that are"))
		}
	}
	return out
}
