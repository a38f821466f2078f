package ipvs

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
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
	nl      *netlink.Handle // nil where only requests are made
	family  uint16          // number of generic netlink family IPVS
	loop    int             // index of link lo
	sockets map[int]*socket // by netlink protocol, opened when first needed
	// hints are addresses to ask the kernel for a way to, by family; the source
	// of the first way found is what local clients send from.
	hints   hints
	sources sources // what asking gave
	// left tells of what the kernel refused and nothing else relies on.
	left []error
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
// kernel it returns *dataplane.Unsupported and has touched nothing.
func openKernel() (*kernel, error) {
	k, err := openRequests()
	if err != nil {
		return nil, err
	}
	if err := k.open(); err != nil {
		k.close()
		return nil, err
	}
	return k, nil
}

// openRequests opens it for what needs no more than requests: virtual and real
// servers, and entries of sets. A whole kernel takes several times as long to open
// as such a change takes.
func openRequests() (*kernel, error) {
	k := &kernel{sources: sources{}, sockets: map[int]*socket{}}
	if err := k.findFamily(); err != nil {
		k.close()
		return nil, err
	}
	return k, nil
}

// findFamily asks for the number of generic netlink family IPVS, which is another
// whenever its module is loaded.
func (k *kernel) findFamily() error {
	s, err := k.socket(unix.NETLINK_GENERIC)
	if err != nil {
		return err
	}
	err = s.ask(context.Background(), unix.NLM_F_ACK, func(e *encoder) { e.findFamily("IPVS") }, func(body []byte) (err error) {
		k.family, err = decodeFamily(body)
		return err
	})
	switch {
	case errors.Is(err, unix.ENOENT):
		return &dataplane.Unsupported{
			Feature: "IPVS",
			Missing: "generic netlink family IPVS (module ip_vs)",
			Mend:    "load the module (modprobe ip_vs), boot a kernel that has it, or use --backend iptables",
		}
	case err != nil:
		return fmt.Errorf("generic netlink family IPVS: %w", err)
	}
	return nil
}

func (k *kernel) open() error {
	var err error
	if k.nl, err = netlink.NewHandle(unix.NETLINK_ROUTE, unix.NETLINK_NETFILTER); err != nil {
		return fmt.Errorf("netlink sockets: %w", err)
	}
	if err := k.nl.SetSocketTimeout(callLimit); err != nil {
		return fmt.Errorf("netlink sockets: %w", err)
	}
	lo, err := k.nl.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("link lo: %w", err)
	}
	k.loop = lo.Attrs().Index
	return nil
}

func (k *kernel) close() {
	if k.nl != nil {
		k.nl.Close()
	}
	for _, s := range k.sockets {
		s.close()
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
	options := netlink.IpsetCreateOptions{Replace: true, Family: afOf(id.family), MaxElements: capacity, Skbinfo: id.kind.mapped()}
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
	requests := make([]request, len(a.entries))
	for i, e := range a.entries {
		requests[i] = spareEntry{a.id, e}
	}
	if err := k.makeAll(ctx, requests); err != nil {
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
		if a := k.sourceTo(to); a.IsValid() {
			return a
		}
	}
	return netip.Addr{}
}

// sourceTo returns the address that the node sends from to another one; none where
// there is no way, or one that leads nowhere else.
func (k *kernel) sourceTo(to netip.Addr) netip.Addr {
	ways, err := k.nl.RouteGet(to.AsSlice())
	if err != nil || len(ways) == 0 {
		return netip.Addr{}
	}
	a, ok := netip.AddrFromSlice(ways[0].Src)
	if a = a.Unmap(); !ok || dataplane.FamilyOf(a) != dataplane.FamilyOf(to) || a.IsLoopback() || a.IsLinkLocalUnicast() {
		return netip.Addr{}
	}
	return a
}

// socket returns the socket for many requests of a netlink protocol.
func (k *kernel) socket(protocol int) (*socket, error) {
	if s, ok := k.sockets[protocol]; ok {
		return s, nil
	}
	s, err := openSocket(protocol)
	if err != nil {
		return nil, fmt.Errorf("netlink socket: %w", err)
	}
	k.sockets[protocol] = s
	return s, nil
}

// list asks for a listing.
func (k *kernel) list(ctx context.Context, protocol int, encode func(*encoder), each func(body []byte) error) error {
	s, err := k.socket(protocol)
	if err != nil {
		return err
	}
	return s.list(ctx, encode, each)
}

// changePolicy succeeds when the rule is there already, or gone.
func (k *kernel) changePolicy(a changePolicy) error {
	r := netlink.NewRule()
	r.Family, r.Table, r.Priority, r.Protocol = int(afOf(a.family)), inboundTable, inboundPriority, routeProtocol
	if a.policy.mask != 0 {
		r.Mark, r.Mask = a.policy.mark, &a.policy.mask
	}
	if to := a.policy.to; to.Addr.IsValid() {
		r.Dst = &net.IPNet{IP: to.Addr.AsSlice(), Mask: net.CIDRMask(to.Addr.BitLen(), to.Addr.BitLen())}
		r.IPProto, r.Dport = int(to.Protocol), netlink.NewRulePortRange(to.Port, to.Port)
	}
	call, settled := k.nl.RuleAdd, error(unix.EEXIST)
	if !a.add {
		call, settled = k.nl.RuleDel, unix.ENOENT
	}
	if err := call(r); !errors.Is(err, settled) {
		return err
	}
	return nil
}

// The commands and attributes for timeouts, from linux/ip_vs.h. The attributes are
// in the order of Timeouts.
const (
	setConfigCommand = 12
	getConfigCommand = 13
	timeoutAttribute = 4
)

// setTimeouts sets those that are not zero.
func setTimeouts(s seconds) error {
	k, err := openKernel()
	if err != nil {
		return err
	}
	defer k.close()
	var attributes []*nl.RtAttr
	for i, n := range s {
		attributes = append(attributes, nl.NewRtAttr(timeoutAttribute+i, nl.Uint32Attr(n)))
	}
	_, err = k.config(setConfigCommand, attributes...)
	return err
}

// timeouts reads what the kernel holds.
func (k *kernel) timeouts() (out seconds, err error) {
	answers, err := k.config(getConfigCommand)
	if err != nil {
		return out, err
	}
	for _, m := range answers {
		if len(m) < nl.SizeofGenlmsg {
			return out, fmt.Errorf("IPVS timeouts: message of %d bytes is too short", len(m))
		}
		err := eachAttribute(m[nl.SizeofGenlmsg:], func(typ int, value []byte) error {
			if i := typ - timeoutAttribute; i >= 0 && i < len(out) && len(value) == 4 {
				out[i] = binary.NativeEndian.Uint32(value)
			}
			return nil
		})
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// config makes a request about what all connections have in common.
func (k *kernel) config(command uint8, attributes ...*nl.RtAttr) ([][]byte, error) {
	req := nl.NewNetlinkRequest(int(k.family), unix.NLM_F_ACK)
	req.AddData(&nl.Genlmsg{Command: command, Version: ipvsVersion})
	for _, a := range attributes {
		req.AddData(a)
	}
	out, err := req.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil {
		return nil, fmt.Errorf("IPVS timeouts: %w", err)
	}
	return out, nil
}

// setError names the errors that only sets know.
func setError(errno syscall.Errno) error {
	if errno >= nl.IPSET_ERR_PRIVATE {
		return nl.IPSetError(errno)
	}
	return errno
}
