package ipvs

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dataplane"
)

// localRoutes returns the routes of a table that make an address local: ours, and
// the addresses of others. There are as many as Services, and each is decoded where
// it lies.
func (k *kernel) localRoutes(ctx context.Context, f dataplane.Family, table uint32) (ours map[netip.Addr]heldRoute, others map[netip.Addr]bool, err error) {
	err = retryDump(func() error {
		ours, others = map[netip.Addr]heldRoute{}, map[netip.Addr]bool{}
		return k.list(ctx, unix.NETLINK_ROUTE, func(e *encoder) { e.listRoutes(f, table) }, func(body []byte) error {
			r, err := decodeRoute(body)
			switch {
			case err != nil:
				return err
			case !r.local || r.table != table || !r.addr.IsValid() || dataplane.FamilyOf(r.addr) != f:
			case !r.ours:
				others[r.addr] = true
			default:
				ours[r.addr] = heldRoute{source: r.source, priority: r.priority, loopback: r.link == k.loop}
			}
			return nil
		})
	})
	if errors.Is(err, unix.ENOENT) {
		return ours, others, nil // no such table
	}
	if err != nil {
		return nil, nil, fmt.Errorf("routes of table %d: %w", table, err)
	}
	return ours, others, nil
}

// listedRoute is a route as the kernel tells it.
type listedRoute struct {
	localRoute
	// local: it makes its address local. It is for one address; if it is for more,
	// or for none, that is not valid.
	local bool
	// ours: it has our mark.
	ours bool
}

// decodeRoute reads the answer that tells of one route.
func decodeRoute(body []byte) (listedRoute, error) {
	if len(body) < unix.SizeofRtMsg {
		return listedRoute{}, fmt.Errorf("route of %d bytes", len(body))
	}
	const length, table, protocol, kind = 1, 4, 5, 7 // where they stand in struct rtmsg
	r := listedRoute{local: body[kind] == unix.RTN_LOCAL, ours: body[protocol] == routeProtocol}
	r.table = uint32(body[table])
	err := attributes(body[unix.SizeofRtMsg:], func(kind uint16, value []byte) {
		switch kind {
		case unix.RTA_DST:
			if int(body[length]) == 8*len(value) {
				r.addr, _ = netip.AddrFromSlice(value)
			}
		case unix.RTA_PREFSRC:
			r.source, _ = netip.AddrFromSlice(value)
		case unix.RTA_OIF:
			r.link = int(number(value))
		case unix.RTA_PRIORITY:
			r.priority = uint32(number(value))
		case unix.RTA_TABLE:
			r.table = uint32(number(value))
		}
	})
	return r, err
}

// readInbound reads the routes of our table, and the rules that lead to it.
func (k *kernel) readInbound(ctx context.Context, o *observed) error {
	var err error
	if o.inbound, _, err = k.localRoutes(ctx, o.family, inboundTable); err != nil {
		return err
	}
	rules, err := k.nl.RuleListFiltered(int(afOf(o.family)), &netlink.Rule{Table: inboundTable, Priority: inboundPriority}, netlink.RT_FILTER_TABLE|netlink.RT_FILTER_PRIORITY)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT) {
		o.lacks[brought] = true
		return nil
	}
	if err != nil {
		return fmt.Errorf("routing policy: %w", err)
	}
	for _, r := range rules {
		o.policies = append(o.policies, policyOf(r))
	}
	return nil
}

// policyOf reads a rule of the routing policy.
func policyOf(r netlink.Rule) policy {
	p := policy{mark: r.Mark}
	if r.Mark != 0 {
		p.mask = 0xffffffff
	}
	if r.Mask != nil {
		p.mask = *r.Mask
	}
	if r.Dst != nil {
		p.to.Addr, _ = netip.AddrFromSlice(r.Dst.IP)
	}
	p.to.Protocol = dataplane.Protocol(r.IPProto)
	if r.Dport != nil {
		p.to.Port = r.Dport.Start
	}
	return p
}
