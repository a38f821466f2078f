package coredns

import (
	"slices"
	"strings"

	mdns "github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// explanations say, for each row of the table, whether a difference belongs to it.
var explanations = map[string]func(meeting) bool{
	"class":       func(c meeting) bool { return c.q.Qclass != mdns.ClassINET && c.ours.rcode == mdns.RcodeRefused },
	"soa-missing": func(c meeting) bool { return c.q.Qtype == mdns.TypeSOA && c.theirs.empty() && c.ours.missing() },
	"txt-empty": func(c meeting) bool {
		return c.q.Qtype == mdns.TypeTXT && c.tree() != "" && len(c.labels()) <= 2 && c.theirs.missing() && c.ours.empty() || c.q.Qtype == mdns.TypeTXT &&
			len(c.labels()) == 0 && c.theirs.missing() && c.ours.empty()
	},
	"non-terminal": func(c meeting) bool {
		l := c.labels()
		return (c.below() == "dns" || c.tree() == "svc" && len(l) == 4 && strings.HasPrefix(l[0], "_")) && c.theirs.missing() && c.ours.empty()
	},
	"own-names": func(c meeting) bool {
		return (c.below() == "dns-version" || c.below() == "ns.dns") && c.theirs.missing() && c.ours.empty()
	},
	"letter-case": func(c meeting) bool {
		return c.q.Name != strings.ToLower(c.q.Name) && (c.below() == "" && c.inZone() && c.theirs.empty() || c.below() == "ns.dns" && c.theirs.missing()) &&
			len(c.ours.answer)+len(c.ours.authority) > 0 && c.ours.rcode == 0
	},
	"port-address": func(c meeting) bool {
		return c.portLabels() == 2 && (c.q.Qtype == mdns.TypeA || c.q.Qtype == mdns.TypeAAAA) && len(c.theirs.answer) > 0 && c.ours.empty()
	},
	"port-labels": func(c meeting) bool {
		return c.tree() == "svc" && len(c.labels()) == 5 && c.portLabels() < 2 && c.theirs.rcode == 0 && c.ours.missing()
	},
	"pod-srv": func(c meeting) bool {
		return c.q.Qtype == mdns.TypeSRV && c.tree() == "pod" && len(c.labels()) == 3 && c.ours.empty() &&
			!slices.ContainsFunc(c.theirs.answer, func(r string) bool { return strings.Fields(r)[6] != "0" })
	},
	"below-pod": func(c meeting) bool {
		return c.tree() == "pod" && len(c.labels()) > 3 && c.theirs.rcode == 0 && c.ours.missing()
	},
	"terminating": terminating,
	"undeclared":  func(c meeting) bool { return c.space() == undeclared && c.theirs.missing() && c.ours.rcode == 0 },
	"publish":     publish,
	"alias-types": aliasTypes,
	"alias-end": func(c meeting) bool {
		return c.isAddress() && c.theirs.empty() && c.ours.alias() && len(c.ours.authority) == 1
	},
	"alias-missing": func(c meeting) bool {
		return c.theirs.alias() && c.theirs.rcode == 0 && c.ours.rcode == mdns.RcodeNameError && sameText(c.theirs.answer, c.ours.answer)
	},
	"reverse-types": func(c meeting) bool {
		return c.reverse() && c.q.Qtype != mdns.TypePTR && c.ours.rcode == 0 && strings.HasPrefix(strings.Join(c.ours.authority, ""), c.q.Name+" ")
	},
	"reverse-below": func(c meeting) bool {
		return strings.HasSuffix(c.lower(), ".ip6.arpa.") && mdns.CountLabel(c.q.Name) > 34 && c.q.Qtype == mdns.TypePTR && len(c.theirs.answer) > 0 && c.forwarded()
	},
	"reverse-tree": func(c meeting) bool {
		whole := c.lower() == "in-addr.arpa." || c.lower() == "ip6.arpa."
		return c.reverse() && (whole || c.q.Qtype == mdns.TypeSOA || c.q.Qtype == mdns.TypeAXFR) && c.forwarded()
	},
	"orphans": orphans,
}

// empty is NOERROR without an answer: the name exists, the type does not.
func (r reply) empty() bool {
	return r.rcode == mdns.RcodeSuccess && len(r.answer) == 0 && len(r.authority) == 1 && len(r.extra) == 0
}

// missing is NXDOMAIN from the zone.
func (r reply) missing() bool {
	return r.rcode == mdns.RcodeNameError && len(r.answer) == 0 && len(r.authority) == 1
}

func (r reply) alias() bool {
	return slices.ContainsFunc(r.answer, func(s string) bool { return strings.Contains(s, " IN CNAME ") })
}

func sameText(a, b []string) bool { return slices.Equal(a, b) }

func (c meeting) lower() string { return strings.ToLower(c.q.Name) }

func (c meeting) inZone() bool { return mdns.IsSubDomain(domain+".", c.lower()) }

func (c meeting) reverse() bool { return strings.HasSuffix("."+c.lower(), ".arpa.") }

func (c meeting) isAddress() bool { return c.q.Qtype == mdns.TypeA || c.q.Qtype == mdns.TypeAAAA }

// forwarded says whether our answer is that of the forwarders.
func (c meeting) forwarded() bool {
	rcode, answer := upstream(c.q)
	return c.ours.rcode == rcode && slices.Equal(c.ours.answer, texts(answer)) && len(c.ours.authority) == 0
}

// below is the name left of the domain; labels are its labels.
func (c meeting) below() string {
	if !c.inZone() {
		return ""
	}
	return strings.TrimSuffix(strings.TrimSuffix(c.lower(), domain+"."), ".")
}

func (c meeting) labels() []string { return mdns.SplitDomainName(c.below()) }

// tree is "svc" or "pod".
func (c meeting) tree() string {
	if l := c.labels(); len(l) > 0 && (l[len(l)-1] == "svc" || l[len(l)-1] == "pod") {
		return l[len(l)-1]
	}
	return ""
}

// space is the namespace in the name.
func (c meeting) space() string {
	if l := c.labels(); len(l) > 1 && c.tree() != "" {
		return l[len(l)-2]
	}
	return ""
}

// portLabels counts the labels of "_port._protocol" that are well formed.
func (c meeting) portLabels() int {
	n := 0
	for _, label := range c.labels()[:min(2, len(c.labels()))] {
		if len(c.labels()) == 5 && strings.HasPrefix(label, "_") && len(label) > 1 {
			n++
		}
	}
	return n
}

// service is the one that the name is of, or below.
func (c meeting) service() *corev1.Service {
	l := c.labels()
	if c.tree() != "svc" || len(l) < 3 {
		return nil
	}
	return c.named(l[len(l)-3], l[len(l)-2])
}

func (c meeting) named(name, namespace string) *corev1.Service {
	for _, obj := range c.objects {
		if s, ok := obj.(*corev1.Service); ok && s.Name == name && s.Namespace == namespace {
			return s
		}
	}
	return nil
}

func terminating(c meeting) bool {
	if c.tree() != "pod" || !c.theirs.missing() || c.ours.rcode != mdns.RcodeSuccess {
		return false
	}
	return slices.ContainsFunc(c.objects, func(obj metav1.Object) bool {
		p, ok := obj.(*corev1.Pod)
		return ok && p.DeletionTimestamp != nil && p.Namespace == c.space()
	})
}

// publish: CoreDNS's answer is a part of ours.
func publish(c meeting) bool {
	if c.reverse() {
		return c.q.Qtype == mdns.TypePTR && c.ours.rcode == mdns.RcodeSuccess && slices.ContainsFunc(c.ours.answer, func(r string) bool {
			l := mdns.SplitDomainName(strings.Fields(r)[4])
			s := c.named(l[1], l[2])
			return s != nil && s.Spec.PublishNotReadyAddresses && !slices.Contains(c.theirs.answer, r)
		})
	}
	s := c.service()
	if s == nil || !s.Spec.PublishNotReadyAddresses || c.ours.rcode != mdns.RcodeSuccess {
		return false
	}
	return c.theirs.missing() || c.theirs.rcode == mdns.RcodeSuccess && len(c.theirs.answer) <= len(c.ours.answer)
}

func aliasTypes(c meeting) bool {
	s := c.service()
	return s != nil && s.Spec.Type == corev1.ServiceTypeExternalName && len(c.labels()) == 3 && !c.isAddress() && c.q.Qtype != mdns.TypeCNAME &&
		c.theirs.empty() && c.ours.alias()
}

// orphans: all names that only CoreDNS has are of Services that do not serve endpoints.
func orphans(c meeting) bool {
	if !c.reverse() || c.q.Qtype != mdns.TypePTR {
		return false
	}
	for _, r := range c.ours.answer {
		if !slices.Contains(c.theirs.answer, r) {
			return false
		}
	}
	for _, r := range c.theirs.answer {
		l := mdns.SplitDomainName(strings.Fields(r)[4])
		s := c.named(l[1], l[2])
		if !slices.Contains(c.ours.answer, r) && s != nil && s.Spec.Type != corev1.ServiceTypeExternalName {
			return false
		}
	}
	return true
}
