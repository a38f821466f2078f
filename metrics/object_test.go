package metrics

import (
	"testing"

	"github.com/toyproxy/toyproxy/dataplane"
)

func TestObjectKind(t *testing.T) {
	for object, want := range map[string]string{
		"iptables-nft nat chain TOY-SVC-ABC":                           "iptables chain",
		"ip6tables-legacy nat jumps in PREROUTING":                     "iptables jumps",
		"nft table ip toyproxy":                                        "nftables table",
		"nft ip toyproxy chain services":                               "nftables chain",
		"nft ip6 toyproxy set own":                                     "nftables set",
		"nft ip toyproxy map frontends":                                "nftables map",
		"nft ip toyproxy element of map frontends 10.96.0.10 . 6 . 80": "nftables element",
		"virtual server tcp 10.96.0.10:80":                             "virtual server",
		"real server 10.244.0.2:80 of tcp 10.96.0.10:80":               "real server",
		"local route 10.96.0.10":                                       "local route",
		"inbound route 10.96.0.10":                                     "route",
		"ipset TOY-VS-4":                                               "ipset",
		"ipset TOY-VS-4 entry 10.96.0.10,tcp:80":                       "ipset entry",
		"sysctl net.ipv4.ip_forward":                                   "sysctl",
		"Pod default/chain":                                            "Pod",
		"link veth0":                                                   "link",
		"whatever comes later":                                         "other",
		"":                                                             "other",
	} {
		if got := objectKind(dataplane.Change{Object: object}); got != want {
			t.Errorf("%q: %q, want %q", object, got, want)
		}
	}
}
