package metrics

import (
	"cmp"
	"strings"

	"github.com/toyproxy/toyproxy/dataplane"
)

// objectKinds are the words that objects of changes begin with, the longer first,
// with the kind that they are counted as: names must not become labels.
var objectKinds = [...]struct{ begins, kind string }{
	{"nft ", "nftables"},
	{"virtual server", "virtual server"},
	{"real server", "real server"},
	{"local route", "local route"},
	{"inbound route", "route"},
	{"routing policy", "routing policy"},
	{"route", "route"},
	{"ipset", "ipset"},
	{"sysctl", "sysctl"},
	{"record", "record"},
	{"link", "link"},
	{"address", "address"},
	{"neighbour", "neighbour"},
	{"network namespace", "network namespace"},
	{"Pod", "Pod"},
	{"conntrack", "conntrack"},
	{"IPVS", "IPVS setting"},
	{"mount", "mount"},
	{"directory", "directory"},
}

// objectKind returns the kind of the kernel object of a change: "nftables element",
// "iptables chain", "virtual server". There are few of them, whatever the objects
// are called.
func objectKind(c dataplane.Change) string {
	words := strings.Fields(c.Object)
	if len(words) == 0 {
		return "other"
	}
	if strings.HasPrefix(words[0], "ip6tables") || strings.HasPrefix(words[0], "iptables") {
		return "iptables " + partOf(words, "chain", "jumps")
	}
	for _, k := range objectKinds {
		if !strings.HasPrefix(c.Object, k.begins) {
			continue
		}
		switch k.kind {
		case "nftables":
			return "nftables " + partOf(words, "element", "rule", "chain", "map", "set", "table")
		case "ipset":
			return "ipset" + strings.TrimSuffix(" "+partOf(words, "entry"), " object")
		}
		return k.kind
	}
	return "other"
}

// partOf returns the first of some words that an object has among its own.
func partOf(words []string, among ...string) string {
	for _, a := range among {
		for _, w := range words {
			if w == a {
				return a
			}
		}
	}
	return "object"
}

// operations name what a change does.
func operation(o dataplane.Op) string {
	return cmp.Or(map[dataplane.Op]string{dataplane.Add: "add", dataplane.Update: "update", dataplane.Remove: "remove"}[o], "other")
}
