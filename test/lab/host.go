package lab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dataplane"
)

// Host is one machine or Pod of a lab: a network namespace with a name and at
// most one address of each family that others know it by.
type Host struct {
	// Name is what its echo servers answer with: "p1", "N", "X".
	Name string
	// IPv4 and IPv6 are its addresses; a node's are those of the uplink.
	IPv4, IPv6 netip.Addr

	t     testing.TB
	space netns.NsHandle
	addrs []netip.Addr
}

// Owns reports whether the host has the address: that of its uplink, of its
// bridge, or one given by AddAddr.
func (h *Host) Owns(a netip.Addr) bool { return slices.Contains(h.addrs, a) }

// Addr returns the host's address of the family.
func (h *Host) Addr(f dataplane.Family) netip.Addr {
	if f == dataplane.IPv6 {
		return h.IPv6
	}
	return h.IPv4
}

// newHost makes an anonymous namespace that lives until the test ends.
func newHost(t testing.TB, name string) *Host {
	t.Helper()
	h := &Host{Name: name, t: t, space: netns.None()}
	err := onThread(func() (err error) {
		h.space, err = netns.New()
		return err
	})
	if err != nil {
		t.Fatalf("network namespace of %s: %v", name, err)
	}
	t.Cleanup(func() { h.space.Close() })
	// Duplicate address detection holds back every IPv6 address for a second
	// or two; it has to be off before the first link exists.
	for _, conf := range []string{"all", "default"} {
		h.sysctl("net/ipv6/conf/"+conf+"/accept_dad", "0")
		h.sysctl("net/ipv6/conf/"+conf+"/accept_ra", "0")
	}
	// A new namespace copies IPv4 settings of the first one: say what we mean.
	h.sysctl("net/ipv4/ip_forward", "0")
	h.Link(func(nl *netlink.Handle) error { return up(nl, "lo") })
	return h
}

// onThread runs f on an OS thread of its own, which is never given back: it
// ends with f, whatever namespace f left it in.
func onThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		ended := errors.New("function left by runtime.Goexit")
		defer func() { done <- ended }()
		ended = f()
	}()
	return <-done
}

// Do runs f on a thread inside the host's namespace and waits for it. Sockets
// that f opens and programs that it starts belong to the namespace. f may call
// Fatal of the test: then Do ends the test too.
func (h *Host) Do(f func()) {
	h.t.Helper()
	entered, finished := false, false
	err := onThread(func() error {
		if err := netns.Set(h.space); err != nil {
			return err
		}
		entered = true
		f()
		finished = true
		return nil
	})
	switch {
	case finished:
	case entered:
		h.t.FailNow()
	default:
		h.t.Fatalf("entering namespace of %s: %v", h.Name, err)
	}
}

// Run runs a program inside the namespace and returns its standard output and
// error together. The test ends if the program fails.
func (h *Host) Run(args ...string) string {
	h.t.Helper()
	out, err := h.Try(args...)
	if err != nil {
		h.t.Fatalf("%s: %s: %v: %s", h.Name, strings.Join(args, " "), err, out)
	}
	return out
}

// Try is Run for programs that may fail.
func (h *Host) Try(args ...string) (out string, err error) {
	h.t.Helper()
	h.Do(func() {
		var b []byte
		b, err = exec.Command(args[0], args[1:]...).CombinedOutput()
		out = string(b)
	})
	return out, err
}

// Sysctl sets a kernel parameter of the namespace, in sysctl(8)'s spelling.
// The test ends if the kernel does not have it.
func (h *Host) Sysctl(name, value string) {
	h.t.Helper()
	if err := h.sysctl(strings.ReplaceAll(name, ".", "/"), value); err != nil {
		h.t.Fatalf("%s: sysctl %s=%s: %v", h.Name, name, value, err)
	}
}

// sysctl sets a parameter that some kernels lack.
func (h *Host) sysctl(path, value string) (err error) {
	h.Do(func() { err = os.WriteFile("/proc/sys/"+path, []byte(value), 0o644) })
	return err
}

// Link runs f with a netlink handle of the namespace and ends the test if f
// fails.
func (h *Host) Link(f func(*netlink.Handle) error) {
	h.t.Helper()
	nl, err := netlink.NewHandleAt(h.space, unix.NETLINK_ROUTE)
	if err != nil {
		h.t.Fatalf("%s: netlink handle: %v", h.Name, err)
	}
	defer nl.Close()
	if err := f(nl); err != nil {
		h.t.Fatalf("%s: %v", h.Name, err)
	}
}

// AddAddr gives a link of the host one more address.
func (h *Host) AddAddr(link string, p netip.Prefix) {
	h.t.Helper()
	h.Link(func(nl *netlink.Handle) error {
		if err := addAddr(nl, link, p); err != nil {
			return err
		}
		return untilLocal(nl, p.Addr())
	})
	h.addrs = append(h.addrs, p.Addr())
}

// AddRoute routes a destination by way of a gateway.
func (h *Host) AddRoute(dst netip.Prefix, gateway netip.Addr) {
	h.t.Helper()
	h.Link(func(nl *netlink.Handle) error { return addRoute(nl, dst, gateway) })
}

func up(nl *netlink.Handle, link string) error {
	l, err := nl.LinkByName(link)
	if err != nil {
		return fmt.Errorf("link %s: %w", link, err)
	}
	if err := nl.LinkSetUp(l); err != nil {
		return fmt.Errorf("link %s up: %w", link, err)
	}
	return nil
}

// untilLocal waits until the kernel takes packets to an address for its own: for
// IPv6 it makes the route a moment later.
func untilLocal(nl *netlink.Handle, a netip.Addr) error {
	const tableLocal = 255
	want := &netlink.Route{Table: tableLocal, Dst: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}}
	family := netlink.FAMILY_V4
	if a.Is6() {
		family = netlink.FAMILY_V6
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		routes, err := nl.RouteListFiltered(family, want, netlink.RT_FILTER_TABLE|netlink.RT_FILTER_DST)
		if err != nil {
			return fmt.Errorf("local routes: %w", err)
		}
		if len(routes) > 0 {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("address %s: not local after 10 s", a)
		}
	}
}

func addAddr(nl *netlink.Handle, link string, p netip.Prefix) error {
	l, err := nl.LinkByName(link)
	if err != nil {
		return fmt.Errorf("link %s: %w", link, err)
	}
	a, err := netlink.ParseAddr(p.String())
	if err != nil {
		return fmt.Errorf("address %s: %w", p, err)
	}
	if p.Addr().Is6() {
		a.Flags = unix.IFA_F_NODAD
	}
	if err := nl.AddrAdd(l, a); err != nil {
		return fmt.Errorf("address %s on %s: %w", p, link, err)
	}
	return nil
}

func addRoute(nl *netlink.Handle, dst netip.Prefix, gateway netip.Addr) error {
	to, err := netlink.ParseIPNet(dst.String())
	if err != nil {
		return fmt.Errorf("route %s: %w", dst, err)
	}
	if err := nl.RouteAdd(&netlink.Route{Dst: to, Gw: gateway.AsSlice()}); err != nil {
		return fmt.Errorf("route %s via %s: %w", dst, gateway, err)
	}
	return nil
}
