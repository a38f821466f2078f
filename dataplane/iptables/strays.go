package iptables

import (
	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
)

// strays are the chain of segments of no connection, and what leads to it. Of
// NodePorts it knows the lowest and the highest: a rule for each would grow with
// the Services.
func (l *layout) strays() ([]xtables.Chain, []xtables.Jump) {
	if l.with.liberal {
		return nil, nil
	}
	var span portSpan
	for _, fe := range l.nodePorts {
		if fe.Protocol == dataplane.TCP {
			span = span.add(fe.Port)
		}
	}
	var nodePorts []string
	if span != (portSpan{}) {
		for _, a := range l.node.Addrs {
			nodePorts = append(nodePorts, rule(to(single(a)), ports(dataplane.TCP, span.low, span.high)))
		}
	}
	return xtables.Strays(l.node, nodePorts...)
}

// portSpan is the ports from low to high. The zero portSpan has none.
type portSpan struct{ low, high uint16 }

// add returns the span with a port more.
func (s portSpan) add(port uint16) portSpan {
	if s == (portSpan{}) {
		return portSpan{port, port}
	}
	return portSpan{min(s.low, port), max(s.high, port)}
}
