package ipvs

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
)

// serviceFlags are the flags of a virtual server, as linux/ip_vs.h has them.
type serviceFlags uint32

const (
	persistent serviceFlags = 0x1
	// hashed is set by the kernel on every virtual server that it holds: a fact,
	// not a wish, and so never compared.
	hashed serviceFlags = 0x2
	// fallback makes schedulers mh and sh turn to another endpoint when the one that
	// the client's address leads to drains. Without it they would refuse.
	fallback serviceFlags = 0x8
	// sourcePort makes scheduler mh hash the client's port as well. Without it
	// all connections of one client would go to one endpoint, unasked.
	sourcePort serviceFlags = 0x10
)

// serverID identifies a virtual server: by what clients dial, or by the mark that
// packets bear. One with a mark has the unspecified address of its family, and
// neither protocol nor port: it takes whatever bears the mark.
type serverID struct {
	dataplane.Key
	mark uint32
}

// compare orders virtual servers by what clients dial, then by mark.
func (i serverID) compare(o serverID) int {
	return cmp.Or(i.Key.Compare(o.Key), cmp.Compare(i.mark, o.mark))
}

// virtualServer is an IPVS service, wanted or held.
type virtualServer struct {
	serverID
	scheduler string
	// real may be shared with other virtual servers: it is never written to.
	real    []realServer
	service string
	// dialled is, of one with a mark, a frontend whose packets get it.
	dialled dataplane.Key
	flags   serviceFlags
	// timeout is that of persistence, in whole seconds.
	timeout uint32
	// flows is the protocol of what it serves; zero if that is not known.
	flows dataplane.Protocol
}

// realServer is an IPVS destination. Its forwarding method is masquerading
// (network address translation) unless foreign says otherwise.
type realServer struct {
	addr spot
	// foreign is the method of a real server that is not masquerading.
	foreign method
	weight  uint16
	// began is the moment at which it began to drain, in seconds since 1970; zero
	// if it does not. The kernel keeps it for us, as the upper threshold of
	// connections, which the number of connections never comes near.
	began uint32
	// open is how many connections it has: a fact, not a wish. Where a real server is
	// as it is wanted nobody asks, and it may be of another moment.
	open uint32
}

// newServer returns the virtual server for a frontend that forwards to a set. A
// Service may wish for a scheduler of its own.
func newServer(fe dataplane.Frontend, set dataplane.EndpointSet, scheduler string) virtualServer {
	v := virtualServer{serverID: serverID{Key: fe.Key}, service: fe.Service}
	v.endpoints(set, scheduler)
	if set.Affinity > 0 {
		v.flags |= persistent
		v.timeout = wholeSeconds(set.Affinity)
	}
	return v
}

// newMarkedServer returns the virtual server for packets with a mark. It remembers
// no clients, because the kernel would send them to the port that they dialled;
// with affinity the endpoint follows from the client's address alone. For the same
// reason no mark can make the doors of a Service share one memory.
func newMarkedServer(id serverID, set dataplane.EndpointSet, scheduler string) virtualServer {
	v := virtualServer{serverID: id, service: set.Service}
	v.endpoints(set, scheduler)
	if set.Affinity > 0 && v.scheduler != "sh" {
		v.scheduler = "mh"
	}
	return v
}

// endpoints gives a virtual server its real servers, and the scheduler that deals
// with them.
func (v *virtualServer) endpoints(set dataplane.EndpointSet, scheduler string) {
	v.flows = set.Protocol
	v.scheduler = cmp.Or(set.Scheduler, scheduler)
	switch {
	case set.Affinity > 0 && set.Scheduler == "" && v.scheduler == "rr":
		// Each virtual server remembers clients for itself. So that one client meets
		// one endpoint at all doors of a Service, the first choice follows from its
		// address.
		v.scheduler = "mh"
	case v.scheduler == "rr" && uneven(set.Endpoints):
		// Plain rr ignores weights, but the table's shares are not a matter of
		// taste.
		v.scheduler = "wrr"
	}
	if v.scheduler == "mh" || v.scheduler == "sh" {
		v.flags |= fallback
	}
	if v.scheduler == "mh" && set.Affinity == 0 {
		v.flags |= sourcePort
	}
	v.real = make([]realServer, 0, len(set.Endpoints))
	for _, ep := range set.Endpoints {
		v.real = append(v.real, realServer{addr: spotOf(ep.Addr), weight: ep.Weight})
	}
}

// owner is the entry by which a virtual server is known as ours: of marks, or else
// of ports. Addresses has it without the port.
func (v virtualServer) owner() entry {
	e := keyEntry(v.Key)
	e.mark = v.mark
	return e
}

func uneven(eps []dataplane.Endpoint) bool {
	return slices.ContainsFunc(eps, func(e dataplane.Endpoint) bool { return e.Weight != eps[0].Weight })
}

// wholeSeconds rounds up: a client must not be forgotten too early.
func wholeSeconds(d time.Duration) uint32 {
	return uint32(min(math.Ceil(d.Seconds()), math.MaxUint32))
}

// dial returns the part of an ipvsadm line that names the virtual server:
// "-t 10.96.0.10:80".
func (v virtualServer) dial() string {
	if v.mark != 0 {
		s := fmt.Sprintf("-f %d", v.mark)
		if v.Addr.Is6() {
			s += " -6"
		}
		return s
	}
	option := map[dataplane.Protocol]string{dataplane.TCP: "-t", dataplane.UDP: "-u", dataplane.SCTP: "--sctp-service"}[v.Protocol]
	return option + " " + netip.AddrPortFrom(v.Addr, v.Port).String()
}

// line returns the options of an ipvsadm line: "-A -t 10.96.0.10:80 -s rr".
// The command is A to add, E to edit, D to delete.
func (v virtualServer) line(command string) string {
	s := "-" + command + " " + v.dial()
	if command == "D" {
		return s
	}
	s += " -s " + v.scheduler
	if v.flags&persistent != 0 {
		s += fmt.Sprintf(" -p %d", v.timeout)
	}
	if names := v.schedulerFlags(); names != nil {
		s += " -b " + strings.Join(names, ",")
	}
	return s
}

// schedulerFlags are the flags that only the scheduler understands, as ipvsadm
// calls them.
func (v virtualServer) schedulerFlags() (out []string) {
	if v.flags&fallback != 0 {
		out = append(out, v.scheduler+"-fallback")
	}
	if v.flags&sourcePort != 0 {
		out = append(out, v.scheduler+"-port")
	}
	return out
}

// line returns the options of an ipvsadm line for the real server; the command
// is a, e or d.
func (r realServer) line(command string, v virtualServer) string {
	s := fmt.Sprintf("-%s %s -r %s", command, v.dial(), r.addr)
	if command == "d" {
		return s
	}
	s += fmt.Sprintf(" %s -w %d", r.foreign.option(), r.weight)
	if r.began != 0 {
		s += fmt.Sprintf(" -x %d", r.began)
	}
	return s
}

// object names the virtual server for people.
func (v virtualServer) object() string { return "virtual server " + v.short() }

// short is "tcp 10.96.0.10:80" or "IPv4 mark 0x54000001".
func (v virtualServer) short() string {
	if v.mark != 0 {
		return fmt.Sprintf("%s mark %#x", dataplane.FamilyOf(v.Addr), v.mark)
	}
	return fmt.Sprintf("%s %s", v.Protocol, netip.AddrPortFrom(v.Addr, v.Port))
}

// object names the real server for people.
func (r realServer) object(v virtualServer) string {
	return fmt.Sprintf("real server %s of %s", r.addr, v.short())
}

func compareReal(a, b realServer) int { return a.addr.compare(b.addr) }

// difference says how the options of the server that is held differ from those
// wanted; empty if they do not.
func (v virtualServer) difference(held virtualServer) string {
	switch {
	case held.scheduler != v.scheduler:
		return fmt.Sprintf("scheduler %s, want %s", held.scheduler, v.scheduler)
	case held.flags&^hashed != v.flags:
		return fmt.Sprintf("flags %#x, want %#x (%s)", uint32(held.flags&^hashed), uint32(v.flags), v.flags)
	case v.flags&persistent != 0 && held.timeout != v.timeout:
		return fmt.Sprintf("persistence %d s, want %d s", held.timeout, v.timeout)
	}
	return ""
}

// is reports whether the server that is held is the one wanted, real servers and
// all. One without real servers is like too many others.
func (v virtualServer) is(held virtualServer) bool {
	if len(v.real) == 0 || len(v.real) != len(held.real) || v.difference(held) != "" {
		return false
	}
	return slices.EqualFunc(inOrder(v.real), inOrder(held.real), func(a, b realServer) bool { return a.addr == b.addr && a.difference(b) == "" })
}

// inOrder returns real servers sorted by address: the list itself, if it is.
func inOrder(list []realServer) []realServer {
	if slices.IsSortedFunc(list, compareReal) {
		return list
	}
	return slices.SortedFunc(slices.Values(list), compareReal)
}

// String names the flags for people.
func (f serviceFlags) String() string {
	var out []string
	for _, known := range []struct {
		flag serviceFlags
		name string
	}{{persistent, "persistent"}, {fallback, "fallback"}, {sourcePort, "port"}} {
		if f&known.flag != 0 {
			out = append(out, known.name)
		}
	}
	if out == nil {
		return "none"
	}
	return strings.Join(out, ", ")
}

// difference says how the real server that is held differs from the one wanted.
func (r realServer) difference(held realServer) string {
	switch {
	case held.foreign != r.foreign:
		return fmt.Sprintf("forwards by %s, want masquerading", held.foreign)
	case held.weight != r.weight:
		return fmt.Sprintf("weight %d, want %d", held.weight, r.weight)
	case held.began != r.began:
		return fmt.Sprintf("at most %d connections, want no limit", held.began)
	}
	return ""
}
