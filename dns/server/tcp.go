package server

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"
)

const (
	// idle is how long a connection may be without a query (RFC 7766 leaves it to the
	// server), and how long a query may take to arrive.
	idle = 10 * time.Second
	// writeLimit is how long a client may take to read an answer.
	writeLimit = 5 * time.Second
	// mostStreams is how many connections there may be, and mostOfOne how many of one
	// client: one Pod must not keep out the others.
	mostStreams = 1000
	mostOfOne   = 200
	// mostAhead is how many queries of one connection may wait for resolvers.
	mostAhead = 64
	// acceptPause is how long the server waits when it cannot take in a connection.
	acceptPause = 50 * time.Millisecond
)

// streams are the connections that are open.
type streams struct {
	mu      sync.Mutex
	open    map[net.Conn]netip.Addr
	running sync.WaitGroup
	closing bool
}

// admit takes in a connection, unless there are too many.
func (st *streams) admit(conn net.Conn, client netip.Addr) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.closing || len(st.open) >= mostStreams {
		return false
	}
	same := 0
	for _, other := range st.open {
		if other == client {
			same++
		}
	}
	if same >= mostOfOne && !isLocal(client) {
		return false
	}
	st.open[conn] = client
	st.running.Add(1)
	return true
}

func (st *streams) leave(conn net.Conn) {
	_ = conn.Close()
	st.mu.Lock()
	defer st.mu.Unlock()
	delete(st.open, conn)
	st.running.Done()
}

// drain ends all connections: no more queries are read, those in progress are answered.
func (st *streams) drain() {
	st.mu.Lock()
	st.closing = true
	for conn := range st.open {
		_ = conn.SetReadDeadline(time.Unix(1, 0))
	}
	st.mu.Unlock()
	st.running.Wait()
}

// acceptTCP takes in connections until the port is closed.
func (s *Server) acceptTCP(ctx context.Context) error {
	for {
		conn, err := s.tcp.Accept()
		switch {
		case err != nil && s.state.Load() == leaving:
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("DNS server, TCP: %w", err)
		case err != nil: // no more descriptors, say
			time.Sleep(acceptPause)
			continue
		}
		client := conn.RemoteAddr().(*net.TCPAddr).AddrPort()
		if !s.streams.admit(conn, client.Addr()) {
			_ = conn.Close()
			continue
		}
		go s.serveTCP(ctx, &stream{conn: conn, client: client, ahead: make(chan struct{}, mostAhead)})
	}
}

// stream is one connection. Queries on it may be answered in another order than they
// came (RFC 7766).
type stream struct {
	conn   net.Conn
	client netip.AddrPort
	ahead  chan struct{}
	// writing keeps answers apart.
	writing sync.Mutex
	waiting sync.WaitGroup
}

func (s *Server) serveTCP(ctx context.Context, st *stream) {
	defer s.streams.leave(st.conn)
	defer st.waiting.Wait()
	packet, out := make([]byte, 512), make([]byte, 2+replyBytes)
	for {
		var err error
		if packet, err = s.readTCP(st.conn, packet); err != nil {
			return
		}
		x := &exchange{client: st.client, overTCP: true}
		switch s.begin(x, packet) {
		case dropped:
			return
		case answered:
			s.sendTCP(st, x, out)
		case elsewhere:
			st.ahead <- struct{}{}
			st.waiting.Add(1)
			s.later(ctx, x, func() {
				s.sendTCP(st, x, make([]byte, 2+replyBytes))
				<-st.ahead
				st.waiting.Done()
			})
		}
	}
}

// readTCP reads one query, into the buffer if that is long enough.
func (s *Server) readTCP(conn net.Conn, buffer []byte) ([]byte, error) {
	s.streams.mu.Lock()
	if s.streams.closing {
		s.streams.mu.Unlock()
		return nil, net.ErrClosed
	}
	err := conn.SetReadDeadline(time.Now().Add(idle))
	s.streams.mu.Unlock()
	if err != nil {
		return nil, err
	}
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint16(length[:]))
	if n > cap(buffer) {
		buffer = make([]byte, n)
	}
	_, err = io.ReadFull(conn, buffer[:n])
	return buffer[:n], err
}

// sendTCP sends the reply of an exchange, made in a buffer.
func (s *Server) sendTCP(st *stream, x *exchange, buffer []byte) {
	reply := s.encode(x, buffer[2:])
	if reply == nil {
		return
	}
	// The packer may have needed more room than the buffer has.
	framed := append(binary.BigEndian.AppendUint16(buffer[:0], uint16(len(reply))), reply...)
	st.writing.Lock()
	_ = st.conn.SetWriteDeadline(time.Now().Add(writeLimit))
	_, err := st.conn.Write(framed)
	st.writing.Unlock()
	if err != nil {
		_ = st.conn.Close() // half an answer may be sent: nothing can follow it
	}
	s.end(x, len(reply), err)
}
