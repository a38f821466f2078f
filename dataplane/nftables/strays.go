package nftables

// strays is the chain that keeps stray segments from resetting connections.
//
// A segment outside of the window of its connection meets no chain of type nat and
// is translated neither way. One of an endpoint would so reach the client with the
// endpoint's address, or the node that a masqueraded client seems to be; one of a
// client would go on to an address of no host, or to the node whose NodePort it is
// to. Who gets it knows of no such connection, and the answer is a reset. So both
// are dropped, as a router loses packets: who sent them sends again what is lost.
//
// No connection is known of such a packet, so it is told by address alone: TCP that
// comes from a Pod, or is to a Service range or to a frontend. Nothing is done
// about others; so where all that there is counts as Pods, that tells nothing.
func (o skeleton) strays() chain {
	c := chain{name: straysChain}
	for _, match := range o.fromPods() {
		if !anything(match) {
			c.rules = append(c.rules, rule{match, drop{}})
		}
	}
	for _, r := range o.node.ServiceRanges {
		if match := (inRange{destination, r}); !anything(match) {
			c.rules = append(c.rules, rule{match, drop{}})
		}
	}
	c.rules = append(c.rules, rule{dialled(frontendsSet), drop{}})
	return c
}

// anything reports whether a match of Pods or Services holds for every packet.
func anything(match statement) bool {
	switch s := match.(type) {
	case inRange:
		return s.in.Bits() == 0
	case fromLink:
		name, _ := s.name()
		return name == ""
	}
	return false
}
