package podnet

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// kernel speaks netlink with the network namespace of the thread that opened it.
// This file holds all of the package's links, addresses and routes; files.go
// holds its files and mounts.
type kernel struct {
	h *netlink.Handle
}

// dumpTries bounds how often an inconsistent dump is asked for again.
const dumpTries = 20

func openKernel() (*kernel, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("netlink socket: %w", err)
	}
	return &kernel{h}, nil
}

func (k *kernel) close() { k.h.Close() }

// dump calls list until the kernel answers without having been changed meanwhile.
func dump[T any](list func() ([]T, error)) (out []T, err error) {
	for range dumpTries {
		if out, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return out, err
}

// links returns all links by name.
func (k *kernel) links() (map[string]link, error) {
	list, err := dump(k.h.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list of links: %w", err)
	}
	hairpin, err := hairpins()
	if err != nil {
		return nil, err
	}
	out := make(map[string]link, len(list))
	for _, l := range list {
		a := l.Attrs()
		out[a.Name] = link{
			index: a.Index, master: a.MasterIndex, peer: a.ParentIndex, mtu: a.MTU, name: a.Name, kind: l.Type(),
			alias: a.Alias, up: a.Flags&net.FlagUp != 0, hairpin: hairpin[a.Index],
		}
	}
	return out, nil
}

// hairpins returns the bridge ports in hairpin mode by index. Only a dump of the
// bridge family tells; one for all ports, as one for each is quadratic.
func hairpins() (map[int]bool, error) {
	msgs, err := dump(func() ([][]byte, error) {
		req := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_DUMP)
		req.AddData(nl.NewIfInfomsg(unix.AF_BRIDGE))
		return req.Execute(unix.NETLINK_ROUTE, 0)
	})
	if err != nil {
		return nil, fmt.Errorf("list of bridge ports: %w", err)
	}
	out := map[int]bool{}
	header := &unix.NlMsghdr{Type: unix.RTM_NEWLINK} // without it the port's own part is left out
	for _, m := range msgs {
		l, err := netlink.LinkDeserialize(header, m)
		if err != nil {
			return nil, fmt.Errorf("bridge port: %w", err)
		}
		if p := l.Attrs().Protinfo; p != nil && p.Hairpin {
			out[l.Attrs().Index] = true
		}
	}
	return out, nil
}

// addrs returns all addresses by the index of their link.
func (k *kernel) addrs() (map[int][]netip.Prefix, error) {
	list, err := dump(func() ([]netlink.Addr, error) { return k.h.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("list of addresses: %w", err)
	}
	out := map[int][]netip.Prefix{}
	for _, a := range list {
		if p, ok := toPrefix(a.IPNet); ok {
			out[a.LinkIndex] = append(out[a.LinkIndex], p)
		}
	}
	return out, nil
}

// routes returns the routes of the main table that have one link.
func (k *kernel) routes() ([]route, error) {
	list, err := dump(func() ([]netlink.Route, error) { return k.h.RouteList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("list of routes: %w", err)
	}
	var out []route
	for _, r := range list {
		gw, _ := netip.AddrFromSlice(r.Gw)
		dst, ok := toPrefix(r.Dst)
		if !ok {
			dst = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		}
		out = append(out, route{dst: dst, gateway: gw.Unmap(), link: r.LinkIndex, protocol: int(r.Protocol)})
	}
	return out, nil
}

// addBridge makes the bridge, or finishes it.
func (k *kernel) addBridge(name string, mtu int, mac net.HardwareAddr) error {
	br := &netlink.Bridge{LinkAttrs: netlink.NewLinkAttrs()}
	br.Name, br.MTU, br.HardwareAddr, br.Alias = name, mtu, mac, bridgeMark
	if err := k.h.LinkAdd(br); err != nil && !errors.Is(err, unix.EEXIST) {
		if errors.Is(err, unix.EOPNOTSUPP) {
			return unsupportedLink("bridges", "bridge", err)
		}
		return fmt.Errorf("bridge %s: %w", name, err)
	}
	l, err := k.h.LinkByName(name)
	if err != nil {
		return fmt.Errorf("bridge %s: %w", name, err)
	}
	// The keys go with the link, so no journal remembers them. Without them IPv6
	// would be off where the host turned it off for new links, or wait a second
	// or two for other owners of its addresses.
	return errors.Join(
		setLinkSysctls(name),
		wrap(k.h.LinkSetAlias(l, bridgeMark), "alias of "+name),
		wrap(k.h.LinkSetHardwareAddr(l, mac), "hardware address of "+name),
		wrap(k.h.LinkSetMTU(l, mtu), "MTU of "+name),
		wrap(k.h.LinkSetUp(l), "link "+name))
}

// addPair makes a veth pair whose far end is born as eth0 in the namespace with
// that file, and finishes the near end: on the bridge, in hairpin mode, up.
func (k *kernel) addPair(p pair) error {
	bridge, err := k.h.LinkByName(p.bridge)
	if err != nil {
		return fmt.Errorf("bridge %s: %w", p.bridge, err)
	}
	l, err := k.h.LinkByName(p.host)
	if err != nil {
		if l, err = k.makePair(p, bridge.Attrs().Index); err != nil {
			return err
		}
	}
	return errors.Join(
		wrap(k.h.LinkSetAlias(l, p.alias), "alias of "+p.host),
		wrap(k.h.LinkSetMTU(l, p.mtu), "MTU of "+p.host),
		wrap(k.h.LinkSetMaster(l, bridge), "port "+p.host+" of "+p.bridge),
		wrap(k.h.LinkSetHairpin(l, true), "hairpin mode of "+p.host),
		wrap(k.h.LinkSetUp(l), "link "+p.host))
}

// pair describes the veth pair of one Pod.
type pair struct {
	host, alias, bridge, namespace string
	mtu                            int
	// mac is the hardware address of the far end.
	mac net.HardwareAddr
}

func (k *kernel) makePair(p pair, master int) (netlink.Link, error) {
	ns, err := os.Open(p.namespace)
	if err != nil {
		return nil, fmt.Errorf("network namespace: %w", err)
	}
	defer ns.Close()
	v := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: podLink, PeerNamespace: netlink.NsFd(int(ns.Fd())), PeerMTU: uint32(p.mtu), PeerHardwareAddr: p.mac}
	v.Name, v.MTU, v.MasterIndex = p.host, p.mtu, master
	if err := k.h.LinkAdd(v); err != nil {
		if errors.Is(err, unix.EOPNOTSUPP) {
			return nil, unsupportedLink("veth pairs", "veth", err)
		}
		return nil, fmt.Errorf("veth pair %s and %s in %s: %w", p.host, podLink, filepath.Base(p.namespace), err)
	}
	l, err := k.h.LinkByName(p.host)
	if err != nil {
		return nil, fmt.Errorf("link %s: %w", p.host, err)
	}
	return l, nil
}

// setLink sets a link's MTU, and up.
func (k *kernel) setLink(name string, mtu int) error {
	l, err := k.h.LinkByName(name)
	if err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}
	return errors.Join(wrap(k.h.LinkSetMTU(l, mtu), "MTU of "+name), wrap(k.h.LinkSetUp(l), "link "+name))
}

// setAlias gives a link the alias that marks it.
func (k *kernel) setAlias(name, alias string) error {
	l, err := k.h.LinkByName(name)
	if err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}
	return wrap(k.h.LinkSetAlias(l, alias), "alias of "+name)
}

// addLoopback marks the namespace of the thread as ours and turns loopback on.
func (k *kernel) addLoopback(mark string) error {
	lo, err := k.h.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("link lo: %w", err)
	}
	return errors.Join(wrap(k.h.LinkSetAlias(lo, mark), "alias of lo"), wrap(k.h.LinkSetUp(lo), "link lo"))
}

// addAddr gives a link an address that is usable at once.
func (k *kernel) addAddr(name string, p netip.Prefix) error {
	l, err := k.h.LinkByName(name)
	if err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}
	a := &netlink.Addr{IPNet: toIPNet(p)}
	if p.Addr().Is6() {
		a.Flags = unix.IFA_F_NODAD
	}
	return wrap(k.h.AddrReplace(l, a), fmt.Sprintf("address %s of %s", p, name))
}

// addRoute routes dst to a link, by a gateway when that is valid. The gateway
// need not lie in a range of the link.
func (k *kernel) addRoute(name string, dst netip.Prefix, gw netip.Addr) error {
	l, err := k.h.LinkByName(name)
	if err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}
	r := &netlink.Route{LinkIndex: l.Attrs().Index, Dst: toIPNet(dst), Protocol: routeProtocol}
	if gw.IsValid() {
		r.Gw, r.Flags = gw.AsSlice(), int(netlink.FLAG_ONLINK)
	} else if dst.Addr().Is4() {
		r.Scope = netlink.SCOPE_LINK
	}
	return wrap(k.h.RouteReplace(r), fmt.Sprintf("route to %s by %s", dst, name))
}

// delRoute takes a route away that addRoute made; that it is gone already is
// success.
func (k *kernel) delRoute(name string, dst netip.Prefix, gw netip.Addr) error {
	l, err := k.h.LinkByName(name)
	if err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}
	r := &netlink.Route{LinkIndex: l.Attrs().Index, Dst: toIPNet(dst), Protocol: routeProtocol}
	if gw.IsValid() {
		r.Gw = gw.AsSlice()
	} else if dst.Addr().Is4() {
		r.Scope = netlink.SCOPE_LINK
	}
	return wrap(ignore(k.h.RouteDel(r), unix.ESRCH), fmt.Sprintf("route to %s by %s", dst, name))
}

// delAddr takes an address away; that it is gone already is success.
func (k *kernel) delAddr(name string, p netip.Prefix) error {
	l, err := k.h.LinkByName(name)
	if err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}
	return wrap(ignore(k.h.AddrDel(l, &netlink.Addr{IPNet: toIPNet(p)}), unix.EADDRNOTAVAIL), fmt.Sprintf("address %s of %s", p, name))
}

// enslave makes a link a port of a bridge, and sets it up.
func (k *kernel) enslave(name, bridge string) error {
	br, err := k.h.LinkByName(bridge)
	if err != nil {
		return fmt.Errorf("bridge %s: %w", bridge, err)
	}
	l, err := k.h.LinkByName(name)
	if err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}
	return errors.Join(wrap(k.h.LinkSetMaster(l, br), "port "+name+" of "+bridge), wrap(k.h.LinkSetUp(l), "link "+name))
}

// delLink removes a link; that it is gone already is success.
func (k *kernel) delLink(name string) error {
	l, err := k.h.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}
	return wrap(ignore(k.h.LinkDel(l), unix.ENODEV), "link "+name)
}
