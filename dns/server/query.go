package server

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
	"time"

	mdns "github.com/miekg/dns"

	"github.com/toyproxy/toyproxy/dns/forward"
)

// exchange is one query and its reply.
type exchange struct {
	started time.Time
	client  netip.AddrPort
	overTCP bool
	// length is that of the query, in bytes.
	length   int
	asked    mdns.Msg
	question mdns.Question
	edns     *mdns.OPT
	reply    mdns.Msg
	// chase is the name that forwarders have to complete the answer with.
	chase string
	// by says who answered (see byZone), empty for nobody.
	by string
	// size is the longest reply by UDP.
	size int
}

// outcome is what becomes of a query.
type outcome int

const (
	// dropped: it gets no answer.
	dropped outcome = iota
	// answered: the reply can be sent.
	answered
	// elsewhere: finish has to ask somebody else first.
	elsewhere
)

// headerBytes is the length of a DNS header.
const headerBytes = 12

// begin reads a query and answers what can be answered without asking anybody else.
func (s *Server) begin(x *exchange, packet []byte) (what outcome) {
	x.started, x.length = time.Now(), len(packet)
	defer func() {
		if trouble := recover(); trouble != nil {
			s.panicked(trouble)
			x.chase = ""
			x.fail(mdns.RcodeServerFailure)
			what = answered
		}
	}()
	switch ok, wellFormed := x.read(packet); {
	case !ok:
		return dropped
	case !wellFormed:
		return answered
	}
	if !s.access.allows(x.client.Addr()) {
		x.fail(mdns.RcodeRefused)
		return answered
	}
	if !x.readEDNS(s.config.UDPBytes) {
		x.fail(mdns.RcodeFormatError)
		return answered
	}
	if x.edns != nil && x.edns.Version() != 0 {
		x.fail(mdns.RcodeBadVers)
		return answered
	}
	return s.answer(x)
}

// read unpacks a query. Not ok is what must not be answered at all; what is not well
// formed has its reply.
func (x *exchange) read(packet []byte) (ok, wellFormed bool) {
	const response = 1 << 7
	if len(packet) < headerBytes || packet[2]&response != 0 {
		return false, false
	}
	x.reply.Id = binary.BigEndian.Uint16(packet)
	x.reply.Response = true
	x.reply.Opcode = int(packet[2]>>3) & 0xf
	x.reply.RecursionDesired = packet[2]&1 != 0
	if x.reply.Opcode != mdns.OpcodeQuery {
		x.reply.Rcode = mdns.RcodeNotImplemented
		return true, false
	}
	const one = 1
	if binary.BigEndian.Uint16(packet[4:]) != one || x.asked.Unpack(packet) != nil || len(x.asked.Question) != one {
		x.reply.Rcode = mdns.RcodeFormatError
		return true, false
	}
	x.question = x.asked.Question[0]
	x.reply.SetReply(&x.asked)
	return true, true
}

// readEDNS takes note of what the client can do, and answers in kind. It may say so
// only once (RFC 6891, 6.1.1).
func (x *exchange) readEDNS(most uint16) (ok bool) {
	x.size = mdns.MinMsgSize
	for _, rr := range x.asked.Extra {
		opt, is := rr.(*mdns.OPT)
		if is && x.edns != nil {
			return false
		}
		if is {
			x.edns = opt
		}
	}
	if x.edns != nil {
		x.size = int(max(mdns.MinMsgSize, min(x.edns.UDPSize(), most)))
		x.reply.SetEdns0(most, x.edns.Do())
	}
	return true
}

// fail makes the reply one without records.
func (x *exchange) fail(rcode int) {
	opt := x.reply.IsEdns0()
	x.reply.Answer, x.reply.Ns, x.reply.Extra = nil, nil, nil
	if rcode > 0xf && opt == nil { // such codes need an OPT record
		x.reply.SetEdns0(mdns.MinMsgSize, false)
	} else if opt != nil {
		x.reply.Extra = []mdns.RR{opt}
	}
	x.reply.Rcode, x.reply.Authoritative = rcode, false
}

// answer answers a well-formed question of a client that is served.
func (s *Server) answer(x *exchange) outcome {
	x.reply.RecursionAvailable = s.config.Forwarder != nil
	switch {
	case x.question.Qclass == mdns.ClassCHAOS:
		s.answerChaos(x)
		return answered
	case x.question.Qclass != mdns.ClassINET, x.question.Qtype == mdns.TypeAXFR, x.question.Qtype == mdns.TypeIXFR:
		x.fail(mdns.RcodeRefused)
		return answered
	case s.config.Forwarder != nil && s.config.Forwarder.IsProbe(x.question.Name):
		x.fail(mdns.RcodeServerFailure)
		return answered
	}
	s.live.catch()
	a := s.config.Zone.Answer(x.question)
	if !a.Ours {
		return elsewhere
	}
	x.by = byZone
	x.reply.Authoritative, x.reply.Rcode = true, a.Rcode
	x.reply.Answer, x.reply.Ns = a.Answer, a.Authority
	x.reply.Extra = append(a.Extra, x.reply.Extra...)
	if a.Chase != "" && s.config.Forwarder != nil {
		x.chase = a.Chase
		return elsewhere
	}
	return answered
}

// Who answered.
const (
	byZone    = "kubernetes" // the name that CoreDNS has for it
	byForward = "forward"
	byCache   = "cache"
)

// answerChaos answers questions about the server itself.
func (s *Server) answerChaos(x *exchange) {
	text := ""
	switch strings.ToLower(x.question.Name) {
	case "version.bind.", "version.server.":
		text = "toyproxy " + s.config.Version
	}
	if text == "" || x.question.Qtype != mdns.TypeTXT && x.question.Qtype != mdns.TypeANY {
		x.fail(mdns.RcodeRefused)
		return
	}
	x.by = byZone
	header := mdns.RR_Header{Name: x.question.Name, Rrtype: mdns.TypeTXT, Class: mdns.ClassCHAOS}
	x.reply.Answer = []mdns.RR{&mdns.TXT{Hdr: header, Txt: []string{text}}}
}

// finish asks the forwarders for what the zone does not know.
func (s *Server) finish(ctx context.Context, x *exchange) {
	defer func() {
		if trouble := recover(); trouble != nil {
			s.panicked(trouble)
			x.fail(mdns.RcodeServerFailure)
		}
	}()
	if s.config.Forwarder == nil {
		x.fail(mdns.RcodeRefused)
		return
	}
	q := x.question
	if x.chase != "" {
		q.Name = mdns.Fqdn(x.chase)
	}
	r, err := s.config.Forwarder.Resolve(ctx, q, x.edns != nil && x.edns.Do())
	switch {
	case x.chase != "":
		s.complete(x, r, err)
		return
	case errors.Is(err, forward.ErrNoRoute):
		x.fail(mdns.RcodeRefused)
		return
	case err != nil:
		s.config.Metrics.cached(r, err)
		s.journal.trouble(err)
		x.fail(mdns.RcodeServerFailure)
		return
	}
	s.config.Metrics.cached(r, nil)
	x.by = byForward
	if r.Cached {
		x.by = byCache
	}
	x.reply.Rcode, x.reply.AuthenticatedData = r.Rcode, r.AuthenticData && x.edns != nil
	x.reply.Answer, x.reply.Ns = inCase(r.Answer, q.Name), r.Authority
	x.reply.Extra = append(r.Extra, x.reply.Extra...)
}

// complete appends what others say of the name that an ExternalName leads to; the
// response code is that of the end of the chain (RFC 6604). When nobody is to be asked,
// the client has the CNAME.
func (s *Server) complete(x *exchange, r forward.Reply, err error) {
	switch {
	case errors.Is(err, forward.ErrNoRoute):
		return
	case err != nil:
		s.journal.trouble(err)
		x.reply.Rcode = mdns.RcodeServerFailure
		return
	}
	x.reply.Answer = append(x.reply.Answer, r.Answer...)
	if r.Rcode != mdns.RcodeSuccess || len(r.Answer) == 0 {
		x.reply.Ns = r.Authority
	}
	x.reply.Rcode = r.Rcode
}

// inCase gives records of the name that was asked for the case it was asked in:
// some clients compare.
func inCase(rrs []mdns.RR, name string) []mdns.RR {
	for _, rr := range rrs {
		if h := rr.Header(); strings.EqualFold(h.Name, name) {
			h.Name = name
		}
	}
	return rrs
}

// encode makes the packet of the reply, in a buffer if it is long enough; nil when
// there is none to be made.
func (s *Server) encode(x *exchange, buffer []byte) (packet []byte) {
	defer func() {
		if trouble := recover(); trouble != nil {
			s.panicked(trouble)
			packet = nil
		}
	}()
	limit := mdns.MaxMsgSize
	if !x.overTCP {
		limit = max(x.size, mdns.MinMsgSize)
	}
	if x.reply.Len() > limit {
		x.reply.Truncate(limit)
	}
	packet, err := x.reply.PackBuffer(buffer)
	if err == nil {
		return packet
	}
	x.fail(mdns.RcodeServerFailure)
	if packet, err = x.reply.PackBuffer(buffer); err != nil {
		return nil
	}
	return packet
}
