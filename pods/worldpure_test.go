package pods

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/toyproxy/toyproxy/podnet"
)

func TestParseMountTable(t *testing.T) {
	const text = `22 27 0:21 / /proc rw,relatime - proc proc rw
97 72 0:41 / /mnt/a\040b\134c ro,nosuid shared:5 master:1 - ext4 /dev/vda rw,errors=x
broken line
`
	if got := fmt.Sprint(parseMountTable(text)); got != `[{/proc proc false} {/mnt/a b\c ext4 true}]` {
		t.Errorf("got %s", got)
	}
}

// What becomes of the mounts of a node, in words.
func TestRootPlan(t *testing.T) {
	words := map[treatment]string{leave: "leave", layer: "layer", pass: "pass"}
	for _, tc := range []struct{ mounts, want string }{
		{"/ ext4, /proc proc, /sys sysfs, /sys/fs/cgroup cgroup2, /dev devtmpfs, /dev/shm tmpfs", "leave pass pass leave pass leave"},
		{"/ ext4, /home xfs, /home tmpfs, /tmp tmpfs, /srv nfs4", "leave layer leave layer pass"},
		{"/ ext4, /run tmpfs, /run/user/0 tmpfs, /runner ext4", "leave leave leave layer"},
		{"/ ext4, /state tmpfs, /state/world tmpfs, /stateful ext4", "leave leave leave layer"},
		{"/ btrfs, /snap/x squashfs, /ns nsfs, /misc autofs", "leave pass leave leave"},
		{"/ overlay, /var/lib/docker ext4, /var/lib/docker/overlay2/x/merged overlay", "leave leave leave"},
	} {
		var table []mountPoint
		for m := range strings.SplitSeq(tc.mounts, ", ") {
			path, kind, _ := strings.Cut(m, " ")
			table = append(table, mountPoint{path: path, kind: kind})
		}
		var got []string
		for _, p := range rootPlan(table, "/state") {
			got = append(got, words[p])
		}
		if s := strings.Join(got, " "); s != tc.want {
			t.Errorf("%s:\n%s, want\n%s", tc.mounts, s, tc.want)
		}
	}
	readOnly := []mountPoint{{"/usr", "ext4", true}}
	if got := rootPlan(readOnly, "/state"); got[0] != pass {
		t.Errorf("a read-only mount: %v", got)
	}
}

func TestResolver(t *testing.T) {
	cluster := podnet.ParseDNS("nameserver 10.96.0.10\nsearch default.svc.cluster.local cluster.local\noptions ndots:5\n")
	node := podnet.ParseDNS("# comment\nnameserver 192.0.2.1\nnameserver fe80::1%eth0\nnameserver x\ndomain example.org\noptions edns0 timeout:1\n")
	two := "2"
	config := &corev1.PodDNSConfig{Nameservers: []string{"192.0.2.53", "10.96.0.10"}, Searches: []string{"cluster.local", "example.net"},
		Options: []corev1.PodDNSConfigOption{{Name: "ndots", Value: &two}, {Name: "rotate"}}}
	const addedToCluster = "nameserver 10.96.0.10 nameserver 192.0.2.53 search default.svc.cluster.local cluster.local example.net options ndots:2 rotate"
	for _, tc := range []struct {
		name    string
		policy  corev1.DNSPolicy
		host    bool
		config  *corev1.PodDNSConfig
		cluster podnet.DNS
		want    string
	}{
		{"by default the cluster's", "", false, nil, cluster, "nameserver 10.96.0.10 search default.svc.cluster.local cluster.local options ndots:5"},
		{"no cluster DNS", corev1.DNSClusterFirst, false, nil, podnet.DNS{}, ""},
		{"no cluster DNS, and more", corev1.DNSClusterFirst, false, config, podnet.DNS{}, "nameserver 192.0.2.1 nameserver fe80::1%eth0 nameserver 192.0.2.53 nameserver 10.96.0.10 search example.org cluster.local example.net options edns0 timeout:1 ndots:2 rotate"},
		{"the cluster's, and more", corev1.DNSClusterFirst, false, config, cluster, addedToCluster},
		{"the node's: its own file", corev1.DNSDefault, false, nil, cluster, ""},
		{"in the node's network", corev1.DNSClusterFirst, true, nil, cluster, ""},
		{"in the node's network, the cluster's", corev1.DNSClusterFirstWithHostNet, true, config, cluster, addedToCluster},
		{"none but its own", corev1.DNSNone, false, config, cluster, "nameserver 192.0.2.53 nameserver 10.96.0.10 search cluster.local example.net options ndots:2 rotate"},
	} {
		p := program("p")
		p.Spec.DNSPolicy, p.Spec.HostNetwork, p.Spec.DNSConfig = tc.policy, tc.host, tc.config
		if got := strings.Join(strings.Fields(resolver(p, tc.cluster, node).String()), " "); got != tc.want {
			t.Errorf("%s:\n%s, want\n%s", tc.name, got, tc.want)
		}
	}
	if cluster.Options[0] != "ndots:5" {
		t.Errorf("the cluster's own were changed: %v", cluster)
	}
}

func TestCapabilities(t *testing.T) {
	names := capabilityNames()
	lost := func(drop, add string) (out []string) {
		id := identity{drop: []corev1.Capability{corev1.Capability(drop)}, add: []corev1.Capability{corev1.Capability(add)}}
		for _, n := range id.lost() {
			out = append(out, names[n])
		}
		return out
	}
	if got := lost("NET_RAW", ""); fmt.Sprint(got) != "[NET_RAW]" {
		t.Errorf("drop NET_RAW: %v", got)
	}
	if got := lost("cap_chown", "CHOWN"); len(got) != 0 {
		t.Errorf("dropped and added: %v", got)
	}
	if got := lost("ALL", "CAP_KILL"); len(got) != len(names)-1 {
		t.Errorf("all but one: %v", got)
	}
	if names[21] != "SYS_ADMIN" || names[40] != "CHECKPOINT_RESTORE" {
		t.Errorf("capability 21 is %s, 40 is %s", names[21], names[40])
	}
}

func TestHostNames(t *testing.T) {
	p := program("web-0")
	for _, tc := range []struct{ host, sub, kernel, names string }{
		{"", "", "web-0", "web-0"},
		{"db", "", "db", "db"},
		{"", "web", "web-0.web.default.svc.cluster.local", "web-0.web.default.svc.cluster.local\tweb-0"},
		{strings.Repeat("a", 60), "web", strings.Repeat("a", 60), strings.Repeat("a", 60) + ".web.default.svc.cluster.local\t" + strings.Repeat("a", 60)},
	} {
		p.Spec.Hostname, p.Spec.Subdomain, p.Spec.SetHostnameAsFQDN = tc.host, tc.sub, new(true)
		if got := kernelHostname(p, "cluster.local"); got != tc.kernel {
			t.Errorf("%q %q: host name %s", tc.host, tc.sub, got)
		}
		if got := hostNames(p, "cluster.local"); got != tc.names {
			t.Errorf("%q %q: names %q", tc.host, tc.sub, got)
		}
	}
}

func TestResourceValue(t *testing.T) {
	p := program("p")
	p.Spec.Containers[0].Resources = corev1.ResourceRequirements{
		Limits:   corev1.ResourceList{"cpu": resource.MustParse("1500m"), "memory": resource.MustParse("64Mi")},
		Requests: corev1.ResourceList{"cpu": resource.MustParse("250m")},
	}
	p.Spec.InitContainers = []corev1.Container{{Name: "init"}}
	for _, tc := range []struct{ container, field, divisor, want string }{
		{"", "limits.cpu", "", "2"},
		{"", "limits.cpu", "1m", "1500"},
		{"", "limits.memory", "", "67108864"},
		{"main", "limits.memory", "1Mi", "64"},
		{"", "requests.cpu", "", "1"},
		{"", "requests.memory", "", "0"},
		{"init", "limits.cpu", "", "4"},
		{"init", "limits.memory", "1Gi", "8"},
		{"none", "limits.cpu", "", "container none not found in the Pod"},
	} {
		ref := &corev1.ResourceFieldSelector{ContainerName: tc.container, Resource: tc.field}
		if tc.divisor != "" {
			ref.Divisor = resource.MustParse(tc.divisor)
		}
		got, err := resourceValue(p, &p.Spec.Containers[0], ref, capacity{4, 8 << 30})
		if err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s of %q in %q: %s, want %s", tc.field, tc.container, tc.divisor, got, tc.want)
		}
	}
}
