package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	mdns "github.com/miekg/dns"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/dns"
	"github.com/toyproxy/toyproxy/dns/forward"
)

// Source yields the objects that the zone is made of.
type Source interface {
	// Catch returns what has changed since the call before, without waiting; of much
	// perhaps only a part, and nothing when that was all. It is called before every
	// answer.
	Catch() ([]cluster.Event, error)
	// Wait returns when there may be something to catch, or the context ends. It may be
	// called beside Catch.
	Wait(ctx context.Context) error
}

// Config says what to serve, where and to whom.
type Config struct {
	// Listen is ADDRESS:PORT; without the address all of both families.
	Listen string
	// Domain is the cluster domain.
	Domain string
	Zone   *dns.Zone
	Source Source
	// Forwarder answers for other names; nil refuses them.
	Forwarder *forward.Forwarder
	// Allow are the ranges of the clients served, besides the addresses of Nodes, those
	// of this machine, and loopback. AllowAll serves everybody.
	Allow    []netip.Prefix
	AllowAll bool
	// UDPBytes is the longest answer by UDP, and what clients are told; clients that
	// advertise less get less.
	UDPBytes uint16
	// History is the file that changes of the zone are written to; empty for none.
	History string
	Metrics *Metrics
	// Log says which queries are logged to LogTo, one line each.
	Log   LogLevel
	LogTo io.Writer
	// Tell is told what goes wrong, in words.
	Tell func(message string)
	// Loaded is called once, when the zone is known. May be nil.
	Loaded func()
	// Lameduck is how long queries are still answered after the context has ended.
	Lameduck time.Duration
	// Version is what version.bind says.
	Version string
}

// Server serves DNS. Open opens its ports, Run serves.
type Server struct {
	config  Config
	live    *live
	access  *access
	journal *queryLog
	udp     []*net.UDPConn
	tcp     net.Listener

	// waiting bounds the queries that wait for a resolver.
	waiting chan struct{}
	streams streams
	busy    sync.WaitGroup
	state   atomic.Int32
}

// The states of a server.
const (
	starting int32 = iota
	serving
	leaving
)

// mostWaiting is how many queries may wait for resolvers at a time.
const mostWaiting = 2000

// drainLimit is how long queries in progress have when the server ends.
const drainLimit = 2 * time.Second

// Open opens the ports in the network namespace of the calling thread. A port that is
// taken gives a *serve.BusyError.
func Open(ctx context.Context, cfg Config) (*Server, error) {
	if cfg.Metrics == nil {
		cfg.Metrics = NewMetrics(cfg.Listen, cfg.Domain)
	}
	if cfg.Tell == nil {
		cfg.Tell = func(string) {}
	}
	cfg.UDPBytes = max(cfg.UDPBytes, mdns.MinMsgSize)
	s := &Server{config: cfg, access: newAccess(cfg), journal: newQueryLog(cfg.Log, cfg.LogTo), waiting: make(chan struct{}, mostWaiting)}
	s.streams.open = map[net.Conn]netip.Addr{}
	s.live = &live{config: cfg, access: s.access, history: openHistory(cfg.History)}
	var err error
	if s.tcp, s.udp, err = listen(ctx, cfg.Listen); err != nil {
		return nil, fmt.Errorf("DNS server: %w", err)
	}
	return s, nil
}

// Addr is where it listens, by UDP and TCP.
func (s *Server) Addr() netip.AddrPort {
	return s.tcp.Addr().(*net.TCPAddr).AddrPort()
}

// Ready tells whether the zone is known and served.
func (s *Server) Ready() bool { return s.state.Load() == serving }

// Run serves until the context ends, and then for the time of Lameduck; queries in
// progress are answered. The error says why it ended by itself.
func (s *Server) Run(ctx context.Context) error {
	s.live.catch()
	s.state.Store(serving)
	if s.config.Loaded != nil {
		s.config.Loaded()
	}
	// What is under way when the context ends is finished.
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	failed := make(chan error, len(s.udp)+1)
	var readers sync.WaitGroup
	for _, conn := range s.udp {
		readers.Go(func() { failed <- s.readUDP(work, conn) })
	}
	readers.Go(func() { failed <- s.acceptTCP(work) })
	var helpers sync.WaitGroup
	helping, dismiss := context.WithCancel(ctx)
	helpers.Go(func() { s.live.keep(helping) })
	helpers.Go(func() { s.journal.run(helping) })
	if s.config.Forwarder != nil {
		helpers.Go(func() { s.config.Forwarder.Watch(helping, s.tellLoop) })
	}
	var err error
	select {
	case <-ctx.Done():
		s.state.Store(leaving)
		time.Sleep(s.config.Lameduck)
	case err = <-failed:
	}
	s.leave()
	defer time.AfterFunc(drainLimit, cancel).Stop()
	readers.Wait()
	s.streams.drain()
	s.busy.Wait()
	dismiss()
	helpers.Wait()
	s.journal.flush()
	s.Close()
	return errors.Join(err, s.live.close())
}

// leave stops to take in queries; replies can still be sent.
func (s *Server) leave() {
	s.state.Store(leaving)
	for _, conn := range s.udp {
		_ = conn.SetReadDeadline(time.Unix(1, 0))
	}
	_ = s.tcp.Close()
}

// Close closes all ports at once. Run does that itself.
func (s *Server) Close() {
	s.state.Store(leaving)
	_ = s.tcp.Close()
	for _, conn := range s.udp {
		_ = conn.Close()
	}
}

// tellLoop says that a resolver sends queries back, or no longer.
func (s *Server) tellLoop(upstream netip.AddrPort, loops bool) {
	if !loops {
		s.config.Tell(fmt.Sprintf("resolver %s sends queries back no more: it is asked again", upstream))
		return
	}
	s.config.Tell(fmt.Sprintf("resolver %s sends queries back to this server, in a circle: it is asked no more; "+
		"name one that does not, with --forward ADDRESS (or --forward none)", upstream))
}
