package podnet

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/toyproxy/toyproxy/dataplane"
)

// podLink is the name of a Pod's link inside its namespace.
const podLink = "eth0"

// routeProtocol marks our routes, as on every route toyproxy makes.
const routeProtocol = 84

// toIPNet turns a prefix into what package netlink takes.
func toIPNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// toPrefix turns what package netlink gives into a prefix, false for none.
func toPrefix(n *net.IPNet) (netip.Prefix, bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	a, ok := netip.AddrFromSlice(n.IP)
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(a.Unmap(), bits), ok
}

// wrap names the object that an operation failed on; nil stays nil.
func wrap(err error, object string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", object, err)
}

// ignore turns an expected error into success.
func ignore(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

func unsupportedLink(what, module string, err error) error {
	return &dataplane.Unsupported{
		Feature: what,
		Missing: fmt.Sprintf("the link type of module %s (%v)", module, err),
		Mend:    "modprobe " + module + ", or use a kernel that has it",
	}
}
