package podnet

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// DNS is what a resolv.conf says. Without servers none is written, and programs
// see the host's.
type DNS struct {
	Servers         []netip.Addr
	Search, Options []string
}

// Alias is a line of a hosts file: names of an address.
type Alias struct {
	Addr  netip.Addr
	Names []string
}

// String is the text of a resolv.conf.
func (d DNS) String() string {
	var b strings.Builder
	for _, s := range d.Servers {
		fmt.Fprintf(&b, "nameserver %s\n", s)
	}
	if len(d.Search) > 0 {
		fmt.Fprintf(&b, "search %s\n", strings.Join(d.Search, " "))
	}
	if len(d.Options) > 0 {
		fmt.Fprintf(&b, "options %s\n", strings.Join(d.Options, " "))
	}
	return b.String()
}

// ParseDNS reads what a resolv.conf says, by resolv.conf(5). Lines that say nothing
// of that are passed over, and so are servers that are no addresses.
func ParseDNS(text string) (d DNS) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		switch f[0] {
		case "nameserver":
			if a, err := netip.ParseAddr(f[1]); err == nil {
				d.Servers = append(d.Servers, a)
			}
		case "search", "domain":
			d.Search = f[1:]
		case "options":
			d.Options = append(d.Options, f[1:]...)
		}
	}
	return d
}

// Ndots is the number of dots from which a name is tried as it is first.
func (d DNS) Ndots() int {
	ndots := 1
	for _, o := range d.Options {
		if text, ok := strings.CutPrefix(o, "ndots:"); ok {
			if n, err := strconv.Atoi(text); err == nil {
				ndots = min(max(n, 0), 15)
			}
		}
	}
	return ndots
}

// Hosts is the text of a Pod's hosts file: the loopback addresses, the Pod's own
// by their name, and aliases. Without a name there are aliases alone.
func Hosts(addrs []netip.Addr, name string, aliases []Alias) string {
	var b strings.Builder
	if name != "" {
		b.WriteString("127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n")
	}
	for _, a := range addrs {
		fmt.Fprintf(&b, "%s\t%s\n", a, name)
	}
	for _, a := range aliases {
		fmt.Fprintf(&b, "%s\t%s\n", a.Addr, strings.Join(a.Names, "\t"))
	}
	return b.String()
}

// etcFiles are the contents of the files of one namespace.
func etcFiles(net Network, r Request) map[string]string {
	head := func(file string) string {
		return fmt.Sprintf("%s for %s: `ip netns exec %s` mounts it over /etc/%s.\n", fileMark, r.For, net.Name, file)
	}
	files := map[string]string{"hosts": head("hosts") + Hosts(net.Addrs, r.Hostname, r.Aliases)}
	if len(r.DNS.Servers) > 0 {
		files["resolv.conf"] = head("resolv.conf") + r.DNS.String()
	}
	return files
}
