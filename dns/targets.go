package dns

import "net/netip"

// target is one address and port that SRV records lead to.
type target struct {
	label  string // of the endpoint; "" for the Service itself
	addr   netip.Addr
	number uint16
}

// targets yields those of a Service's, a port's or an endpoint's name.
func (at spot) targets(yield func(target) bool) {
	if at.virtual() {
		at.virtualTargets(yield)
		return
	}
	for e := range at.endpoints {
		label := ""
		for _, p := range e.in.ports {
			if !at.wants(p) {
				continue
			}
			if label == "" {
				label = e.label()
			}
			if !yield(target{label, e.addr, p.number}) {
				return
			}
		}
	}
}

func (at spot) virtualTargets(yield func(target) bool) {
	for _, p := range at.svc.ports {
		for _, vip := range at.svc.vips {
			if at.wants(p) && !yield(target{addr: vip, number: p.number}) {
				return
			}
		}
	}
}

// weight is that of each of these targets: as CoreDNS has it, 100 shared among all
// addresses and ports, and at least 1.
func (at spot) weight() uint16 {
	n := 0
	if at.virtual() {
		n = at.count(at.svc.ports) * len(at.svc.vips)
	} else {
		for e := range at.endpoints {
			n += at.count(e.in.ports)
		}
	}
	return share(n)
}

func share(n int) uint16 { return uint16(max(1, 100/max(1, n))) }

// count is how many of these ports are wanted. No port at all counts as one.
func (at spot) count(ports []port) int {
	n := 0
	for _, p := range ports {
		if at.wants(p) {
			n++
		}
	}
	if len(ports) == 0 && at.place != atPort {
		return 1
	}
	return n
}

// wants says whether a port belongs to the name: all do to names of Services and
// endpoints.
func (at spot) wants(p port) bool {
	return at.place != atPort || p.name == at.label && p.protocol == at.protocol
}

// virtual says whether the name stands for the Service's ClusterIPs, not for endpoints.
func (at spot) virtual() bool { return at.place != atEndpoint && !at.svc.headless }

// endpoints yields those that a name stands for.
func (at spot) endpoints(yield func(endpoint) bool) {
	if at.place != atEndpoint {
		at.svc.endpoints(yield)
		return
	}
	if !at.svc.exists || at.svc.external {
		return
	}
	for _, sl := range at.svc.slices {
		for i, addr := range sl.addrs[:at.svc.served(sl)] {
			host := ""
			if sl.hosts != nil {
				host = sl.hosts[i]
			}
			// most labels are addresses: comparing these needs no text of each
			if match := host == "" && addr == at.addr || host != "" && host == at.label; match && !yield(sl.at(i)) {
				return
			}
		}
	}
}

// addrs are the addresses of a Service's or an endpoint's name, each once. They may be
// the Service's own: read only.
func (at spot) addrs() []netip.Addr {
	if at.virtual() {
		return at.svc.vips
	}
	size := at.svc.total()
	if at.place == atEndpoint {
		size = 2 // one a family, as a rule
	}
	addrs := make([]netip.Addr, 0, size)
	if !at.svc.repeats {
		for e := range at.endpoints {
			addrs = append(addrs, e.addr)
		}
		return addrs
	}
	var seen set[netip.Addr]
	for e := range at.endpoints {
		if seen.add(e.addr) {
			addrs = append(addrs, e.addr)
		}
	}
	return addrs
}
