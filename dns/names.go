package dns

import (
	"net/netip"
	"strings"
)

// place is what a name of the zone stands for.
type place int

const (
	// missing: there is no such name.
	missing place = iota
	// bare: the name exists, without records, as names below it have some.
	bare
	apex
	// nameServer is ns.dns, version is dns-version.
	nameServer
	version
	// atService, atEndpoint, atPort and atPod are the names of these.
	atService
	atEndpoint
	atPort
	atPod
)

// spot is where a question points.
type spot struct {
	place place
	svc   *service
	// label is the endpoint's, or the port's name.
	label    string
	protocol string
	// addr is the Pod's, or the endpoint's if its label is one.
	addr netip.Addr
}

// last splits off the last label.
func last(name string) (left, label string) {
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		return name[:i], name[i+1:]
	}
	return "", name
}

// find says what a name stands for: the part of it left of the domain, in lower case.
func (z *Zone) find(name string) spot {
	if name == "" {
		return spot{place: apex}
	}
	left, tree := last(name)
	switch {
	case tree == "svc" && left != "":
		return z.findService(left)
	case tree == "pod" && left != "":
		return z.findPod(left)
	case name == "ns.dns":
		return spot{place: nameServer}
	case name == "dns-version":
		return spot{place: version}
	case name == "svc", name == "pod", name == "dns":
		return spot{place: bare}
	}
	return spot{}
}

// findPod reads "10-244-0-12.default".
func (z *Zone) findPod(name string) spot {
	label, namespace := last(name)
	if _, ok := z.spaces[namespace]; !ok {
		return spot{}
	}
	if label == "" {
		return spot{place: bare}
	}
	addr, ok := undashed(label, false)
	if !ok || z.pods[podAddr{namespace, addr}] == 0 {
		return spot{}
	}
	return spot{place: atPod, addr: addr}
}

// findService reads "default", "web.default" and what is below.
func (z *Zone) findService(name string) spot {
	left, namespace := last(name)
	if _, ok := z.spaces[namespace]; !ok {
		return spot{}
	}
	if left == "" {
		return spot{place: bare}
	}
	below, _ := last(left)
	if below != "" {
		name = name[len(below)+1:]
	}
	svc := z.services[name]
	switch {
	case svc == nil || !svc.exists:
		return spot{}
	case below != "":
		return svc.find(below)
	case !svc.shown():
		return spot{}
	}
	return spot{place: atService, svc: svc}
}

// find says what a name below the Service's stands for.
func (s *service) find(name string) spot {
	left, label := last(name)
	if left == "" && !strings.HasPrefix(label, "_") {
		at := spot{place: atEndpoint, svc: s, label: label}
		at.addr, _ = undashed(label, true)
		for range at.endpoints {
			return at
		}
		return spot{}
	}
	protocol, ok := strings.CutPrefix(label, "_")
	if !ok {
		return spot{}
	}
	wanted, ok := strings.CutPrefix(left, "_")
	if left != "" && (!ok || wanted == "") {
		return spot{}
	}
	switch {
	case !s.hasPort(wanted, protocol):
		return spot{}
	case left == "":
		return spot{place: bare} // _tcp, above _http._tcp
	}
	return spot{place: atPort, svc: s, label: wanted, protocol: protocol}
}

// hasPort says whether a port has this name and protocol and an address to be
// reached at. Without a name, whether any port that has one does.
func (s *service) hasPort(name, protocol string) bool {
	if s.external {
		return false
	}
	if !s.headless {
		return len(s.vips) > 0 && anyPort(s.ports, name, protocol)
	}
	for _, sl := range s.slices {
		if s.served(sl) > 0 && anyPort(sl.ports, name, protocol) {
			return true
		}
	}
	return false
}

func anyPort(ports []port, name, protocol string) bool {
	for _, p := range ports {
		if p.protocol == protocol && p.name != "" && (name == "" || p.name == name) {
			return true
		}
	}
	return false
}

// podLabel is a Pod's address as a label: 10.244.0.12 is "10-244-0-12".
func podLabel(addr netip.Addr) string {
	separator := ":"
	if addr.Is4() {
		separator = "."
	}
	return strings.ReplaceAll(addr.String(), separator, "-")
}

// dashed is an endpoint's address as a label: it does not end with a dash, a zero is
// added to one that would.
func dashed(addr netip.Addr) string {
	label := podLabel(addr)
	if strings.HasSuffix(label, "-") {
		label += "0"
	}
	return label
}

// undashed is the address of a label, if it is written as dashed writes an endpoint's;
// a Pod's has no zero added. Other forms of an address (010-…) are no names.
func undashed(label string, endpoint bool) (netip.Addr, bool) {
	if len(label) > len("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff") || strings.ContainsAny(label, ".:%") {
		return netip.Addr{}, false
	}
	text := strings.ReplaceAll(label, "-", ":")
	if strings.Count(label, "-") == 3 && !strings.Contains(label, "--") {
		text = strings.ReplaceAll(label, "-", ".")
	}
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Is4In6() {
		return netip.Addr{}, false
	}
	want := addr.String()
	if endpoint && strings.HasSuffix(want, ":") {
		want += "0"
	}
	if text != want {
		return netip.Addr{}, false
	}
	return addr, true
}

const hexDigits = "0123456789abcdef"

// reverseName is the name of an address in in-addr.arpa or ip6.arpa.
func reverseName(addr netip.Addr) string {
	if addr.Is4() {
		b := addr.As4()
		return netip.AddrFrom4([4]byte{b[3], b[2], b[1], b[0]}).String() + ".in-addr.arpa."
	}
	b := addr.As16()
	out := make([]byte, 0, 72)
	for i := 15; i >= 0; i-- {
		out = append(out, hexDigits[b[i]&15], '.', hexDigits[b[i]>>4], '.')
	}
	return string(append(out, "ip6.arpa."...))
}

// reverseAddr is the address whose reverse name this is, in lower case.
func reverseAddr(name string) (netip.Addr, bool) {
	if text, ok := strings.CutSuffix(name, ".in-addr.arpa."); ok {
		addr, err := netip.ParseAddr(text)
		if err != nil || !addr.Is4() {
			return netip.Addr{}, false
		}
		b := addr.As4()
		return netip.AddrFrom4([4]byte{b[3], b[2], b[1], b[0]}), true
	}
	text, ok := strings.CutSuffix(name, ".ip6.arpa.")
	if !ok || len(text) != 63 {
		return netip.Addr{}, false
	}
	var b [16]byte
	for i := range 32 {
		digit := strings.IndexByte(hexDigits, text[2*i])
		if digit < 0 || i < 31 && text[2*i+1] != '.' {
			return netip.Addr{}, false
		}
		b[15-i/2] |= byte(digit) << (4 * (i % 2))
	}
	return netip.AddrFrom16(b).Unmap(), true
}
