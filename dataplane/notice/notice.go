// Package notice tells at once when somebody changes rules of nf_tables in a network
// namespace, those of iptables-nft among them.
//
// It tells that, not what: our own changes are told too, and it reads no rule. A
// dataplane.Fingerprinter says whether it was somebody else. Where the kernel has no
// nf_tables there is nothing to be told.
package notice

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dataplane"
)

// receiveBuffer is that of the socket, in bytes: messages are only counted.
const receiveBuffer = 1 << 20

// Watch calls wake, by a goroutine of its own, whenever rules change in the network
// namespace of the calling thread, until the context ends; done is closed then. A
// kernel without nf_tables gives an error that wraps dataplane.ErrUnsupported.
func Watch(ctx context.Context, wake func()) (done <-chan struct{}, err error) {
	f, err := subscribe()
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = f.Close() }) // ends Read
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() {
			if stop() {
				_ = f.Close()
			}
		}()
		listen(f, wake)
	}()
	return ended, nil
}

// listen reads messages until the socket is closed. Messages that were dropped are
// no loss: one is enough.
func listen(f *os.File, wake func()) {
	room := make([]byte, 4096) // what is longer is cut off
	for {
		_, err := f.Read(room)
		if err != nil && !errors.Is(err, unix.ENOBUFS) {
			return
		}
		wake()
	}
}

// subscribe opens a socket to which the kernel tells changes of nf_tables.
func subscribe() (*os.File, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_NETFILTER)
	if err == nil {
		err = errors.Join(unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}),
			unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, unix.NFNLGRP_NFTABLES))
		if err != nil {
			_ = unix.Close(fd)
		}
	}
	if errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		return nil, &dataplane.Unsupported{Feature: "notices of changed rules", Missing: "nf_tables (module nf_tables)", Mend: "changes by others are found with the next audit"}
	}
	if err != nil {
		return nil, fmt.Errorf("socket for changes of nf_tables: %w", err)
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer)
	return os.NewFile(uintptr(fd), "nf_tables"), nil
}
