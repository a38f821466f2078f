package pods

import (
	"cmp"
	"net/netip"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/toyproxy/toyproxy/podnet"
)

// hostname is the first part of the Pod's name in DNS and its HOSTNAME:
// spec.hostname, else the Pod's name, cut to what the kernel takes.
func hostname(p *corev1.Pod) string {
	const most = 63
	h := cmp.Or(p.Spec.Hostname, p.Name)
	if len(h) > most {
		h = strings.TrimRight(h[:most], "-.")
	}
	return h
}

// fullName is the Pod's name in cluster DNS, or "" for a Pod without a subdomain.
func fullName(p *corev1.Pod, domain string) string {
	if p.Spec.Subdomain == "" {
		return ""
	}
	return hostname(p) + "." + p.Spec.Subdomain + "." + cmp.Or(p.Namespace, metav1.NamespaceDefault) + ".svc." + domain
}

// kernelHostname is what hostname(1) prints in the Pod: the whole name with
// setHostnameAsFQDN, if the kernel takes that many bytes.
func kernelHostname(p *corev1.Pod, domain string) string {
	const most = 64 // __NEW_UTS_LEN
	if full := fullName(p, domain); isTrue(p.Spec.SetHostnameAsFQDN) && full != "" && len(full) <= most {
		return full
	}
	return hostname(p)
}

// hostNames are the names of the Pod's addresses in its hosts file.
func hostNames(p *corev1.Pod, domain string) string {
	if full := fullName(p, domain); full != "" {
		return full + "\t" + hostname(p)
	}
	return hostname(p)
}

// aliases are spec.hostAliases.
func aliases(p *corev1.Pod) []podnet.Alias {
	var out []podnet.Alias
	for _, a := range p.Spec.HostAliases {
		if addr, err := netip.ParseAddr(a.IP); err == nil {
			out = append(out, podnet.Alias{Addr: addr, Names: a.Hostnames})
		}
	}
	return out
}

// resolver is what a Pod's resolv.conf says, by its dnsPolicy: that of cluster
// DNS, or that of the node, with dnsConfig added. Without servers the Pod sees the
// node's file. Pure.
func resolver(p *corev1.Pod, cluster, node podnet.DNS) podnet.DNS {
	policy := cmp.Or(p.Spec.DNSPolicy, corev1.DNSClusterFirst)
	if p.Spec.HostNetwork && policy == corev1.DNSClusterFirst {
		policy = corev1.DNSDefault // as Kubernetes has it: ClusterFirstWithHostNet says otherwise
	}
	var d podnet.DNS
	switch policy {
	case corev1.DNSClusterFirst, corev1.DNSClusterFirstWithHostNet:
		d = cluster
		if len(d.Servers) == 0 && p.Spec.DNSConfig != nil {
			d = node // there is no cluster DNS
		}
	case corev1.DNSDefault:
		if p.Spec.DNSConfig == nil {
			return podnet.DNS{}
		}
		d = node
	}
	return addConfig(d, p.Spec.DNSConfig)
}

// addConfig adds a Pod's dnsConfig: its servers and search domains behind the
// others, its options in place of those of the same name.
func addConfig(d podnet.DNS, config *corev1.PodDNSConfig) podnet.DNS {
	if config == nil {
		return d
	}
	d.Servers, d.Search, d.Options = slices.Clone(d.Servers), slices.Clone(d.Search), slices.Clone(d.Options)
	for _, s := range config.Nameservers {
		if a, err := netip.ParseAddr(s); err == nil && !slices.Contains(d.Servers, a) {
			d.Servers = append(d.Servers, a)
		}
	}
	for _, s := range config.Searches {
		if !slices.Contains(d.Search, s) {
			d.Search = append(d.Search, s)
		}
	}
	for _, o := range config.Options {
		d.Options = slices.DeleteFunc(d.Options, func(s string) bool { name, _, _ := strings.Cut(s, ":"); return name == o.Name })
		if o.Value != nil {
			o.Name += ":" + *o.Value
		}
		d.Options = append(d.Options, o.Name)
	}
	return d
}

// clusterDNS is what resolv.conf says of cluster DNS in a namespace.
func (r *Runtime) clusterDNS(namespace string) podnet.DNS {
	if len(r.cfg.DNSServers) == 0 {
		return podnet.DNS{}
	}
	domain := r.cfg.ClusterDomain
	return podnet.DNS{
		Servers: r.cfg.DNSServers,
		Search:  []string{namespace + ".svc." + domain, "svc." + domain, domain},
		Options: []string{"ndots:5"},
	}
}

// nodeDNS is what the node's own resolv.conf says.
func nodeDNS() podnet.DNS {
	b, err := os.ReadFile("/etc/resolv.conf")
	if err != nil {
		return podnet.DNS{}
	}
	return podnet.ParseDNS(string(b))
}

// request asks for a Pod's network, and for files that say of DNS what the Pod's own
// say.
func (r *Runtime) request(p *corev1.Pod, renew bool) podnet.Request {
	return podnet.Request{
		Name: NetworkName(p.Namespace, p.Name), For: key(p), Renew: renew,
		Hostname: hostNames(p, r.cfg.ClusterDomain), Aliases: aliases(p),
		DNS: resolver(p, r.clusterDNS(p.Namespace), nodeDNS()),
	}
}

// etcFiles are the files that the Pod's containers see in /etc, by name.
func etcFiles(p *corev1.Pod, s surrounding) map[string]string {
	var addrs []netip.Addr
	for _, ip := range p.Status.PodIPs {
		if a, err := netip.ParseAddr(ip.IP); err == nil {
			addrs = append(addrs, a)
		}
	}
	const mark = "# Made by toyproxy for this Pod.\n"
	resolv, _ := os.ReadFile("/etc/resolv.conf") // without one there are no servers
	files := map[string]string{
		"hostname":    hostname(p) + "\n",
		"hosts":       mark + podnet.Hosts(addrs, hostNames(p, s.Domain), aliases(p)),
		"resolv.conf": string(resolv),
	}
	if len(s.DNS.Servers) > 0 {
		files["resolv.conf"] = s.DNS.String()
	}
	if p.Spec.HostNetwork {
		hosts, _ := os.ReadFile("/etc/hosts")
		files["hosts"] = mark + string(hosts) + podnet.Hosts(nil, "", aliases(p))
		node, _ := os.Hostname()
		files["hostname"] = node + "\n"
	}
	return files
}
