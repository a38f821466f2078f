package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	mdns "github.com/miekg/dns"
)

const (
	// queryBytes is the longest query that is read by UDP. Real ones are far shorter.
	queryBytes = 4096
	// replyBytes is room for most replies; longer ones get their own.
	replyBytes = 4096
)

// readUDP answers the packets of one socket until it is closed. What the zone knows is
// answered at once, by this goroutine; what has to be asked elsewhere by another.
func (s *Server) readUDP(ctx context.Context, conn *net.UDPConn) error {
	packet, control := make([]byte, queryBytes), make([]byte, controlBytes)
	out := make([]byte, replyBytes)
	for {
		n, told, _, client, err := conn.ReadMsgUDPAddrPort(packet, control)
		switch {
		case err != nil && s.state.Load() == leaving:
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("DNS server, UDP: %w", err)
		case err != nil:
			continue // an error of an earlier reply, which is of no concern here
		}
		origin := replyFrom(control[:told], client.Addr())
		x := &exchange{client: client}
		switch s.begin(x, packet[:n]) {
		case answered:
			s.sendUDP(conn, x, out, origin)
		case elsewhere:
			s.later(ctx, x, func() { s.sendUDP(conn, x, make([]byte, replyBytes), slices.Clone(origin)) })
		}
	}
}

// sendUDP sends the reply of an exchange, made in a buffer.
func (s *Server) sendUDP(conn *net.UDPConn, x *exchange, buffer, origin []byte) {
	reply := s.encode(x, buffer)
	if reply == nil {
		return
	}
	_, _, err := conn.WriteMsgUDPAddrPort(reply, origin, x.client)
	s.end(x, len(reply), err)
}

// later has an exchange finished by another goroutine, if there are not too many
// already: then it fails.
func (s *Server) later(ctx context.Context, x *exchange, send func()) {
	select {
	case s.waiting <- struct{}{}:
	default:
		x.fail(mdns.RcodeServerFailure)
		send()
		return
	}
	s.busy.Go(func() {
		defer func() { <-s.waiting }()
		s.finish(ctx, x)
		send()
	})
}

// isLocal tells whether an address is one that no network carries.
func isLocal(a netip.Addr) bool { return a.Unmap().IsLoopback() }
