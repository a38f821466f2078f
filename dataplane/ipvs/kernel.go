package ipvs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"time"

	"github.com/moby/ipvs"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dataplane"
)

const (
	// callLimit bounds each call to the kernel, so that a hang becomes an error.
	callLimit = 20 * time.Second
	// modprobeLimit bounds the loading of modules.
	modprobeLimit = 30 * time.Second
)

// kernel is the network namespace of the thread that opened it: its sockets
// stay in that namespace.
type kernel struct {
	nl      *netlink.Handle
	filter  *nl.SocketHandle // for listing sets; it counts the requests
	servers *ipvs.Handle
	loop    int // index of link lo
	// hints are addresses to ask the kernel for a way to, by family; the source
	// of the first way found is what local clients send from.
	hints   hints
	sources map[dataplane.Family]netip.Addr // what asking gave
}

// loadModules asks for all modules that may be needed, before the kernel has to
// ask for one itself: kernel 6.1 asks for a scheduler with the IPVS lock held,
// and can lock up for ever when a namespace ends meanwhile. A machine
// without modprobe, or with everything built in, is as good.
func loadModules(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, modprobeLimit)
	defer cancel()
	modules := []string{"-qa", "ip_vs", "nf_conntrack", "ip_set", "ip_set_hash_ip", "ip_set_hash_ipport", "ip_set_hash_ipportip", "xt_set"}
	for _, s := range schedulers() {
		modules = append(modules, "ip_vs_"+s)
	}
	cmd := exec.CommandContext(ctx, "modprobe", modules...)
	cmd.WaitDelay = time.Second
	// Whether IPVS is there is asked of the kernel, not of modprobe: it may be
	// missing, or know nothing of what is built in.
	_ = cmd.Run()
}

// schedulers are those of Linux, for loading their modules.
func schedulers() []string {
	return []string{"rr", "wrr", "lc", "wlc", "fo", "ovf", "lblc", "lblcr", "sh", "dh", "mh", "sed", "nq", "twos"}
}

// openKernel opens the namespace of the calling thread. Without IPVS in the
// kernel it returns *dataplane.Unsupported and has touched nothing. The library
// for IPVS is called only when the family is known to exist, because it asks
// once in the life of the process and never again.
func openKernel() (*kernel, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE, unix.NETLINK_NETFILTER, unix.NETLINK_GENERIC)
	if err != nil {
		return nil, fmt.Errorf("netlink sockets: %w", err)
	}
	k := &kernel{nl: h, sources: map[dataplane.Family]netip.Addr{}}
	if err := k.open(); err != nil {
		k.close()
		return nil, err
	}
	return k, nil
}

func (k *kernel) open() error {
	if err := k.nl.SetSocketTimeout(callLimit); err != nil {
		return fmt.Errorf("netlink sockets: %w", err)
	}
	if _, err := k.nl.GenlFamilyGet("IPVS"); err != nil {
		if !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("generic netlink family IPVS: %w", err)
		}
		return &dataplane.Unsupported{
			Feature: "IPVS",
			Missing: "generic netlink family IPVS (module ip_vs)",
			Mend:    "load the module (modprobe ip_vs), boot a kernel that has it, or use --backend iptables",
		}
	}
	socket, err := nl.GetNetlinkSocketAt(netns.None(), netns.None(), unix.NETLINK_NETFILTER)
	if err != nil {
		return fmt.Errorf("netfilter socket: %w", err)
	}
	k.filter = &nl.SocketHandle{Socket: socket}
	wait := unix.NsecToTimeval(callLimit.Nanoseconds())
	if err := socket.SetReceiveTimeout(&wait); err != nil {
		return fmt.Errorf("netfilter socket: %w", err)
	}
	lo, err := k.nl.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("link lo: %w", err)
	}
	k.loop = lo.Attrs().Index
	if k.servers, err = ipvs.New(""); err != nil {
		return fmt.Errorf("IPVS socket: %w", err)
	}
	return nil
}

func (k *kernel) close() {
	k.nl.Close()
	if k.filter != nil {
		k.filter.Close()
	}
	if k.servers != nil {
		k.servers.Close()
	}
}

// families lists the families that the namespace has.
func families() []familyState {
	out := []familyState{{family: dataplane.IPv4}}
	if b, err := os.ReadFile("/proc/sys/net/ipv6/conf/lo/disable_ipv6"); err == nil {
		out = append(out, familyState{family: dataplane.IPv6, off: bytes.HasPrefix(b, []byte("1"))})
	}
	return out
}

// kernelRelease returns the version of the running kernel.
func kernelRelease() (release, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return release{}, fmt.Errorf("kernel version: %w", err)
	}
	var r release
	text := unix.ByteSliceToString(u.Release[:])
	if _, err := fmt.Sscanf(text, "%d.%d", &r.major, &r.minor); err != nil {
		return release{}, fmt.Errorf("kernel version %q: %w", text, err)
	}
	return r, nil
}

// createSet makes an empty set; one of that name and type may exist.
func (k *kernel) createSet(name string, id setID, capacity uint32) error {
	options := netlink.IpsetCreateOptions{Replace: true, Family: afOf(id.family), MaxElements: capacity}
	if err := k.nl.IpsetCreate(name, id.kind.Type(), options); err != nil {
		return fmt.Errorf("ipset create %s: %w", name, err)
	}
	return nil
}

func (k *kernel) enlargeSet(ctx context.Context, a enlargeSet) error {
	name, spare := a.id.String(), a.id.spare()
	// One may be left from a pass that was cut short.
	if err := k.destroySet(spare); err != nil {
		return err
	}
	if err := k.createSet(spare, a.id, a.capacity); err != nil {
		return err
	}
	if err := k.changeEntries(ctx, spare, a.entries, true); err != nil {
		return err
	}
	if err := k.nl.IpsetSwap(spare, name); err != nil {
		return fmt.Errorf("ipset swap %s %s: %w", spare, name, err)
	}
	return k.destroySet(spare)
}

func (k *kernel) destroySet(name string) error {
	if err := k.nl.IpsetDestroy(name); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("ipset destroy %s: %w", name, err)
	}
	return nil
}

func (k *kernel) changeEntry(name string, e entry, add bool) error {
	// Replace means: what exists, or is gone already, is no error.
	n := &netlink.IPSetEntry{IP: e.addr.AsSlice(), Replace: true}
	if e.port != 0 {
		port, protocol := e.port, uint8(e.protocol)
		n.Port, n.Protocol = &port, &protocol
	}
	if e.source.IsValid() {
		n.IP2 = e.source.AsSlice()
	}
	call, verb := k.nl.IpsetAdd, "add"
	if !add {
		call, verb = k.nl.IpsetDel, "del"
	}
	if err := call(name, n); err != nil {
		return fmt.Errorf("ipset %s %s %s: %w", verb, name, e, err)
	}
	return nil
}

// changeEntries makes many changes of one set: by one child that reads them all,
// or without ipset(8) one by one.
func (k *kernel) changeEntries(ctx context.Context, name string, entries []entry, add bool) error {
	path, err := exec.LookPath("ipset")
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/ipset")
	}
	if err != nil || len(entries) < bulk {
		for _, e := range entries {
			if err := k.changeEntry(name, e, add); err != nil {
				return err
			}
		}
		return nil
	}
	verb := "add"
	if !add {
		verb = "del"
	}
	var in bytes.Buffer
	for _, e := range entries {
		fmt.Fprintf(&in, "%s %s %s\n", verb, name, e)
	}
	return run(ctx, &in, path, "restore", "-exist")
}

// run runs a program and makes an error of what it complains about.
func run(ctx context.Context, stdin *bytes.Buffer, path string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*callLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdin, cmd.WaitDelay = stdin, time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w: %s", path, args, err, bytes.TrimSpace(out))
	}
	return nil
}

// source returns the address that local clients of a VIP should send from: the
// one the kernel would use to reach the first of the hints that it has a way to.
// It asks once for all routes of a pass.
func (k *kernel) source(f dataplane.Family) netip.Addr {
	known, asked := k.sources[f]
	if !asked {
		known = k.askSource(f)
		k.sources[f] = known
	}
	return known
}

func (k *kernel) askSource(f dataplane.Family) netip.Addr {
	for _, to := range k.hints[f] {
		ways, err := k.nl.RouteGet(to.AsSlice())
		if err != nil || len(ways) == 0 {
			continue
		}
		a, ok := netip.AddrFromSlice(ways[0].Src)
		if a = a.Unmap(); ok && dataplane.FamilyOf(a) == f && !a.IsLoopback() && !a.IsLinkLocalUnicast() {
			return a
		}
	}
	return netip.Addr{}
}

func (k *kernel) route(a netip.Addr) netlink.Route {
	return netlink.Route{
		Dst: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}, LinkIndex: k.loop, Scope: netlink.SCOPE_HOST,
		Table: unix.RT_TABLE_LOCAL, Type: unix.RTN_LOCAL, Protocol: routeProtocol,
	}
}

func (k *kernel) raiseRoute(a netip.Addr, exists bool) error {
	r, call := k.route(a), k.nl.RouteAdd
	if exists {
		call = k.nl.RouteReplace
	}
	if s := k.source(dataplane.FamilyOf(a)); s.IsValid() {
		r.Src = s.AsSlice()
	}
	err := call(&r)
	switch {
	case err == nil, errors.Is(err, unix.EEXIST):
		return nil
	case errors.Is(err, unix.ENETDOWN):
		return fmt.Errorf("local route %s: link lo is down; set it up (ip link set lo up): %w", a, err)
	}
	return fmt.Errorf("local route %s: %w", a, err)
}

func (k *kernel) dropRoute(a netip.Addr, priority int) error {
	r := k.route(a)
	r.Priority, r.LinkIndex = priority, 0
	if err := k.nl.RouteDel(&r); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("deletion of local route %s: %w", a, err)
	}
	return nil
}

// bounded makes a call to IPVS and ends it when it takes too long or the context
// ends: the library waits for an answer for ever, unless its socket is closed.
func (k *kernel) bounded(ctx context.Context, what string, call func() error) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	stop := context.AfterFunc(ctx, k.servers.Close)
	defer stop()
	err := call()
	if over := ctx.Err(); over != nil {
		err = errors.Join(over, err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func (k *kernel) putServer(ctx context.Context, a putServer) error {
	v := a.server
	err := k.bounded(ctx, v.object(), func() error {
		return put(a.exists, func() error { return k.servers.NewService(wireServer(v)) },
			func() error { return k.servers.UpdateService(wireServer(v)) })
	})
	if errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("%s: %w", v.object(), &dataplane.Unsupported{
			Feature: "IPVS scheduler " + v.scheduler, Missing: "module ip_vs_" + v.scheduler,
			Mend: "load the module, or name another scheduler",
		})
	}
	return err
}

func (k *kernel) dropServer(ctx context.Context, v virtualServer) error {
	return k.bounded(ctx, "deletion of "+v.object(), func() error {
		return gone(k.servers.DelService(wireServer(v)))
	})
}

func (k *kernel) putReal(ctx context.Context, a putReal) error {
	s, d := wireServer(a.server), wireReal(a.real)
	return k.bounded(ctx, a.real.object(a.server), func() error {
		return put(a.exists, func() error { return k.servers.NewDestination(s, d) },
			func() error { return k.servers.UpdateDestination(s, d) })
	})
}

func (k *kernel) dropReal(ctx context.Context, a dropReal) error {
	return k.bounded(ctx, "deletion of "+a.real.object(a.server), func() error {
		return gone(k.servers.DelDestination(wireServer(a.server), wireReal(a.real)))
	})
}
