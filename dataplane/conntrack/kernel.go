package conntrack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dataplane"
)

const (
	// callLimit bounds each answer of the kernel, so that a hang becomes an error.
	callLimit = 20 * time.Second
	// dumpTries is how often a dump is begun anew that other changes disturbed;
	// after the last one what came is used.
	dumpTries = 5
)

// kernel is the table of tracked flows of the network namespace of the thread
// that opened it.
type kernel struct{ socket *nl.SocketHandle }

func openKernel() (kernel, error) {
	s, err := nl.GetNetlinkSocketAt(netns.None(), netns.None(), unix.NETLINK_NETFILTER)
	if err != nil {
		return kernel{}, explain("netfilter socket", err)
	}
	wait := unix.NsecToTimeval(callLimit.Nanoseconds())
	if err := s.SetReceiveTimeout(&wait); err != nil {
		s.Close()
		return kernel{}, fmt.Errorf("netfilter socket: %w", err)
	}
	return kernel{&nl.SocketHandle{Socket: s}}, nil
}

func (k kernel) close() { k.socket.Close() }

// request makes a request of the subsystem for tracked flows.
func (k kernel) request(kind, flags int, body []byte) *nl.NetlinkRequest {
	r := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_CTNETLINK<<8|kind, flags)
	r.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_NETFILTER: k.socket}
	r.AddRawData(body)
	return r
}

// flows reads the flows of a family that this package deals with.
func (k kernel) flows(ctx context.Context, f dataplane.Family) ([]Flow, error) {
	var out []Flow
	for try := 1; ; try++ {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("dump of tracked flows: %w", err)
		}
		out = out[:0]
		err := k.request(nl.IPCTNL_MSG_CT_GET, unix.NLM_F_DUMP, dumpRequest(f)).
			ExecuteIter(unix.NETLINK_NETFILTER, 0, func(m []byte) bool {
				if flow, ok := decode(m); ok {
					out = append(out, flow)
				}
				return true
			})
		switch {
		case err == nil, errors.Is(err, nl.ErrDumpInterrupted) && try == dumpTries:
			return out, nil
		case !errors.Is(err, nl.ErrDumpInterrupted):
			return nil, explain("dump of tracked flows", err)
		}
	}
}

// remove deletes one flow; that it is gone already, or is another one by now, is
// success.
func (k kernel) remove(f Flow) error {
	_, err := k.request(nl.IPCTNL_MSG_CT_DELETE, unix.NLM_F_ACK, deleteRequest(f)).Execute(unix.NETLINK_NETFILTER, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return explain("deletion of conntrack "+f.String(), err)
}

// explain makes an error that tells a kernel without the feature, and a user
// without the right, from all else.
func explain(what string, err error) error {
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fmt.Errorf("%s: it needs root, or CAP_NET_ADMIN in this network namespace: %w", what, err)
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EPROTONOSUPPORT):
		return fmt.Errorf("%s: %w: %w", what, err, &dataplane.Unsupported{
			Feature: "list of tracked flows",
			Missing: "netlink interface of connection tracking (module nf_conntrack_netlink)",
			Mend:    "load the module (modprobe nf_conntrack_netlink); without it stale UDP flows stay until they have been silent for two minutes",
		})
	}
	return fmt.Errorf("%s: %w", what, err)
}

// readConnections returns the kernel's list of connections of IPVS; nothing in a
// kernel without IPVS.
func readConnections() (string, error) {
	b, err := os.ReadFile("/proc/thread-self/net/ip_vs_conn")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("connections of IPVS: %w", err)
	}
	return string(b), nil
}

// localAddrs lists the addresses of the node.
func localAddrs() ([]netip.Addr, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("netlink socket: %w", err)
	}
	defer h.Close()
	list, err := h.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, fmt.Errorf("addresses of the node: %w", err)
	}
	out := make([]netip.Addr, 0, len(list))
	for _, l := range list {
		if a, ok := netip.AddrFromSlice(l.IP); ok {
			out = append(out, a.Unmap())
		}
	}
	return out, nil
}
