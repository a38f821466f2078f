package pods

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// StandInName is the first word of a stand-in's command line, and its name in
// ps(1). A program that is started by this name has to call StandIn.
const StandInName = "stand-in"

// standIn is the server that answers for containers that have no program.
type standIn struct {
	pod   string
	addrs []netip.Addr
	ports []standInPort
	// last is when somebody came last, in nanoseconds since 1970.
	last atomic.Int64
	// silent is how many have come and not said anything yet.
	silent atomic.Int64
}

// standInPort is one port to listen on. The protocol is "TCP", "UDP" or "SCTP".
type standInPort struct {
	number   uint16
	protocol string
}

// StandIn is the body of the hidden command "stand-in", and of a program that was
// started by that name: "stand-in --pod NAME
// [--address IP]… [--port NUMBER/PROTOCOL]…": a server that answers on these
// ports of every address with the name of the Pod, the address dialled, and the
// client's address as it saw it. It serves until TERM, INT or the end of the
// context. Once it listens it says so on descriptor 3.
//
// TCP: HTTP with the paths /, /hostname, /clientip, /healthz and /echo; a client
// that sends a line of anything else gets what / answers, a line for a line. UDP:
// every datagram is answered by "NAME ADDRESS from CLIENT: PAYLOAD". SCTP is not
// served, and the log says so.
func StandIn(ctx context.Context, args []string) error {
	s, err := parseStandIn(args)
	if err != nil {
		return fmt.Errorf("stand-in: %w: toyproxy starts it itself", err)
	}
	_ = os.WriteFile("/proc/self/comm", []byte(StandInName), 0) // else that of the link /proc/self/exe
	asked, stop := notifyEnd(ctx)
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	for _, p := range s.ports {
		if err := s.listen(serving, p, &wg); err != nil {
			return fmt.Errorf("stand-in: %w", err)
		}
	}
	tellReady()
	<-asked.Done()
	s.drain()
	return nil
}

const (
	// quietFor is how long nobody must have come before a stand-in that is asked to
	// end closes its ports: who was sent here a moment before still gets an answer.
	quietFor = 100 * time.Millisecond
	// quietWithin is how long it waits for that at most.
	quietWithin = 2 * time.Second
)

// drain returns once nobody has come for a while, and all who came have spoken.
func (s *standIn) drain() {
	end := time.Now().Add(quietWithin)
	for s.last.Store(time.Now().UnixNano()); time.Now().Before(end); {
		quiet := time.Since(time.Unix(0, s.last.Load()))
		switch {
		case quiet < quietFor:
			time.Sleep(quietFor - quiet)
		case s.silent.Load() > 0:
			time.Sleep(quietFor / 10)
		default:
			return
		}
	}
}

// parseStandIn reads the command line that standInArgs writes.
func parseStandIn(args []string) (*standIn, error) {
	s := &standIn{}
	for i := 0; i+1 < len(args); i += 2 {
		value := args[i+1]
		switch args[i] {
		case "--pod":
			s.pod = value
		case "--address":
			a, err := netip.ParseAddr(value)
			if err != nil {
				return nil, fmt.Errorf("address: %w", err)
			}
			s.addrs = append(s.addrs, a)
		case "--port":
			number, protocol, _ := strings.Cut(value, "/")
			n, err := strconv.ParseUint(number, 10, 16)
			if err != nil {
				return nil, fmt.Errorf("port %q: %w", value, err)
			}
			s.ports = append(s.ports, standInPort{uint16(n), protocol})
		default:
			return nil, fmt.Errorf("unknown word %q", args[i])
		}
	}
	if len(args)%2 != 0 || s.pod == "" {
		return nil, fmt.Errorf("want --pod NAME [--address IP]… [--port NUMBER/PROTOCOL]…, got %q", args)
	}
	return s, nil
}

// listen opens one port on all addresses, and serves it until the context ends.
func (s *standIn) listen(ctx context.Context, p standInPort, wg *sync.WaitGroup) error {
	addr := fmt.Sprintf(":%d", p.number)
	var config net.ListenConfig
	switch p.protocol {
	case "TCP":
		l, err := config.Listen(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		wg.Go(func() { s.serveTCP(ctx, l) })
	case "UDP":
		c, err := config.ListenPacket(ctx, "udp", addr)
		if err != nil {
			return err
		}
		udp, ok := c.(*net.UDPConn)
		if !ok {
			return fmt.Errorf("UDP port %d: %T is no UDP socket", p.number, c)
		}
		context.AfterFunc(ctx, func() { udp.Close() })
		wg.Go(func() { s.serveUDP(ctx, udp, p.number) })
	default:
		fmt.Fprintf(os.Stderr, "stand-in: port %d/%s is not served: only TCP and UDP are\n", p.number, p.protocol)
	}
	return nil
}

// greeting is what a client learns: who answered, where, and how it was seen.
func (s *standIn) greeting(at netip.AddrPort, client netip.Addr) string {
	return fmt.Sprintf("%s %s from %s", s.pod, at, client)
}

// serveUDP answers every datagram until the socket is closed.
func (s *standIn) serveUDP(ctx context.Context, c *net.UDPConn, port uint16) {
	buf := make([]byte, 64<<10)
	for {
		n, client, err := c.ReadFromUDPAddrPort(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// An answer to somebody who has gone comes back as an error here.
			if ctx.Err() != nil {
				return
			}
			continue
		}
		from := client.Addr().Unmap()
		answer := s.greeting(netip.AddrPortFrom(s.addrFor(from), port), from) + ": " + string(buf[:n])
		_, _ = c.WriteToUDPAddrPort([]byte(answer), client) // a lost answer is UDP's own business
	}
}

// addrFor is the Pod's address of the client's family.
func (s *standIn) addrFor(client netip.Addr) netip.Addr {
	for _, a := range s.addrs {
		if a.Is4() == client.Is4() {
			return a
		}
	}
	if client.Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

// tellReady writes to the pipe that the pause process gave us, if it did.
func tellReady() {
	var st unix.Stat_t
	if unix.Fstat(readyFD, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO {
		return
	}
	f := os.NewFile(readyFD, "ready")
	_, _ = f.WriteString("ready\n")
	_ = f.Close()
}
