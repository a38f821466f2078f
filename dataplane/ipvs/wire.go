package ipvs

import (
	"errors"
	"slices"
	"syscall"

	"github.com/moby/ipvs"
	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dataplane"
)

// put adds what is not there and edits what is, even if that has changed since
// the plan was made.
func put(exists bool, add, edit func() error) error {
	first, then, changed := add, edit, []syscall.Errno{unix.EEXIST}
	if exists {
		first, then, changed = edit, add, []syscall.Errno{unix.ESRCH, unix.ENOENT}
	}
	err := first()
	var errno syscall.Errno
	if errors.As(err, &errno) && slices.Contains(changed, errno) {
		return then()
	}
	return err
}

// gone makes success of the deletion of what is not there.
func gone(err error) error {
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

func afOf(f dataplane.Family) uint8 {
	if f == dataplane.IPv6 {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

func wireServer(v virtualServer) *ipvs.Service {
	s := &ipvs.Service{
		Address: v.Addr.AsSlice(), Protocol: uint16(v.Protocol), Port: v.Port, AddressFamily: unix.AF_INET,
		SchedName: v.scheduler, Flags: uint32(v.flags), Timeout: v.timeout, Netmask: 0xffffffff,
	}
	if v.Addr.Is6() {
		// For IPv6 the kernel takes the length of the prefix here.
		s.AddressFamily, s.Netmask = unix.AF_INET6, 128
	}
	if v.mark != 0 {
		s.Address, s.Protocol, s.Port, s.FWMark = nil, 0, 0, v.mark
	}
	return s
}

func wireReal(r realServer) *ipvs.Destination {
	return &ipvs.Destination{
		Address: r.addr.Addr().AsSlice(), Port: r.addr.Port(), Weight: int(r.weight), ConnectionFlags: ipvs.ConnFwdMasq,
	}
}
