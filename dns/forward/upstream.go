package forward

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	mdns "github.com/miekg/dns"
)

const (
	// udpPatience and tcpPatience are how long one upstream is waited for.
	udpPatience = 1500 * time.Millisecond
	tcpPatience = 2 * time.Second
	// resting is how long one that failed is asked last; it doubles with each failure,
	// up to restingMost.
	resting     = time.Second
	restingMost = 30 * time.Second
	// udpBytes is what upstreams may send at once: no fragments on any path.
	udpBytes = 1232
)

// upstream is a resolver and how it fares.
type upstream struct {
	addr netip.AddrPort
	// loops: it sends queries back to this server.
	loops atomic.Bool
	// plain: it does not know EDNS.
	plain atomic.Bool

	mu       sync.Mutex
	failures int
	until    time.Time
}

// order returns the upstreams in the order to ask them: those that rest come last,
// the first of them the one whose rest is over first.
func order(upstreams []*upstream, now time.Time) []*upstream {
	out := slices.Clone(upstreams)
	slices.SortStableFunc(out, func(a, b *upstream) int { return a.rests(now).Compare(b.rests(now)) })
	return out
}

// rests returns until when an upstream rests; the zero time when it does not.
func (u *upstream) rests(now time.Time) time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.until.After(now) {
		return u.until
	}
	return time.Time{}
}

// fared notes how an exchange went.
func (u *upstream) fared(err error, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err == nil {
		u.failures, u.until = 0, time.Time{}
		return
	}
	rest := min(resting<<min(u.failures, 10), restingMost)
	u.failures++
	u.until = now.Add(rest)
}

// exchange asks by UDP, by TCP when the answer is too long for that, and once more
// without EDNS when that is not understood.
func (u *upstream) exchange(ctx context.Context, q mdns.Question, dnssec bool) (*mdns.Msg, error) {
	answer, err := u.once(ctx, u.message(q, dnssec))
	if err != nil || u.plain.Load() || answer.Rcode != mdns.RcodeFormatError && answer.Rcode != mdns.RcodeNotImplemented {
		return answer, err
	}
	if answer.IsEdns0() != nil {
		return answer, nil
	}
	again := u.message(q, dnssec)
	again.Extra = nil
	better, err := u.once(ctx, again)
	if err == nil && better.Rcode != answer.Rcode {
		u.plain.Store(true)
	}
	return better, err
}

// message is the question as it is sent, with a number that cannot be guessed.
func (u *upstream) message(q mdns.Question, dnssec bool) *mdns.Msg {
	m := &mdns.Msg{Question: []mdns.Question{q}}
	m.Id, m.RecursionDesired = mdns.Id(), true
	if !u.plain.Load() {
		m.SetEdns0(udpBytes, dnssec)
	}
	return m
}

func (u *upstream) once(ctx context.Context, m *mdns.Msg) (*mdns.Msg, error) {
	answer, err := u.over(ctx, "udp", m)
	if err == nil && answer.Truncated {
		m.Id = mdns.Id()
		return u.over(ctx, "tcp", m)
	}
	return answer, err
}

// over asks over one network, from a port of its own.
func (u *upstream) over(ctx context.Context, network string, m *mdns.Msg) (*mdns.Msg, error) {
	limit := udpPatience
	if network == "tcp" {
		limit = tcpPatience
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, u.addr.String())
	if err != nil {
		return nil, plainly(err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	packet, err := m.Pack()
	if err != nil {
		return nil, fmt.Errorf("packet: %w", err)
	}
	if network == "tcp" {
		packet = append(binary.BigEndian.AppendUint16(nil, uint16(len(packet))), packet...)
	}
	if _, err := conn.Write(packet); err != nil {
		return nil, plainly(err)
	}
	return receive(conn, network == "tcp", m)
}

// receive waits for the answer to a question. What does not answer it is passed over:
// somebody else may have sent it.
func receive(conn net.Conn, stream bool, asked *mdns.Msg) (*mdns.Msg, error) {
	buffer := make([]byte, mdns.MaxMsgSize)
	for {
		n, err := readMessage(conn, stream, buffer)
		if err != nil {
			return nil, plainly(err)
		}
		answer := new(mdns.Msg)
		// A packet that is cut off, with TC, need not be whole.
		if err := answer.Unpack(buffer[:n]); err != nil && !answer.Truncated {
			if stream {
				return nil, fmt.Errorf("packet: %w", err)
			}
			continue
		}
		if answers(answer, asked) {
			return answer, nil
		}
		if stream {
			return nil, errors.New("answers another question")
		}
	}
}

func readMessage(conn net.Conn, stream bool, buffer []byte) (int, error) {
	if !stream {
		return conn.Read(buffer)
	}
	if _, err := io.ReadFull(conn, buffer[:2]); err != nil {
		return 0, err
	}
	return io.ReadFull(conn, buffer[:binary.BigEndian.Uint16(buffer)])
}

// answers tells whether a message is the answer to a question. One without a question
// counts when it says that the question was not understood.
func answers(answer, asked *mdns.Msg) bool {
	if !answer.Response || answer.Id != asked.Id || answer.Opcode != mdns.OpcodeQuery {
		return false
	}
	if len(answer.Question) == 0 {
		return answer.Rcode != mdns.RcodeSuccess && answer.Rcode != mdns.RcodeNameError
	}
	got, want := answer.Question[0], asked.Question[0]
	return len(answer.Question) == 1 && got.Qtype == want.Qtype && got.Qclass == want.Qclass && strings.EqualFold(got.Name, want.Name)
}

// errSilent says that nothing came back.
var errSilent = errors.New("no answer in time")

// plainly says in plain words that somebody did not answer in time.
func plainly(err error) error {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return errSilent
	}
	return err
}
