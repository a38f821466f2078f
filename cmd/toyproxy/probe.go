package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/explain"
	"github.com/toyproxy/toyproxy/podnet"
)

// probePatience is how long a probe waits for an answer. A lost first packet is
// sent again after a second.
const probePatience = 1500 * time.Millisecond

// probe dials a target once as the sender would, and returns what became of it.
func (q *question) probe(ctx context.Context, d agent.Desired, to dataplane.Key, from explain.From) (explain.Verdict, error) {
	if to.Protocol == dataplane.SCTP {
		return "", errors.New("only tcp and udp can be probed, not sctp: leave --probe out to see the path alone")
	}
	if from.In == "" { // the node, or the Pod in whose namespace this process is
		return dial(ctx, to), nil
	}
	namespace := ""
	if from.Pod != nil {
		namespace = podNamespaceName(d, from.Pod)
	}
	if namespace == "" {
		return "", fmt.Errorf("probe from %s: only the node and Pods that it has made can send; name one with --from, or leave --probe out", from)
	}
	var v explain.Verdict
	err := podnet.Do(namespace, func() error {
		v = dial(ctx, to)
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("probe from %s: %w", from, err)
	}
	return v, nil
}

// dial sends one connection or datagram from the namespace of the calling thread.
func dial(ctx context.Context, to dataplane.Key) explain.Verdict {
	d := net.Dialer{Timeout: probePatience}
	conn, err := d.DialContext(ctx, to.Protocol.String(), netip.AddrPortFrom(to.Addr, to.Port).String())
	if err == nil {
		defer func() { _ = conn.Close() }()
		if to.Protocol == dataplane.UDP {
			err = ask(conn)
		}
	}
	return verdictOf(err)
}

// ask sends a datagram and waits for one.
func ask(conn net.Conn) error {
	if err := conn.SetDeadline(time.Now().Add(probePatience)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("toyproxy explain\n")); err != nil {
		return err
	}
	_, err := conn.Read(make([]byte, 1))
	return err
}

// verdictOf says what an attempt has come to. A datagram of the node itself that
// iptables refuses is refused to the caller as not permitted.
func verdictOf(err error) explain.Verdict {
	var late net.Error
	switch {
	case err == nil:
		return explain.OK
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.EPERM):
		return explain.Refused
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return explain.Unreachable
	case errors.As(err, &late) && late.Timeout():
		return explain.Timeout
	}
	return explain.Reset
}
