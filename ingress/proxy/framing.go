package proxy

import (
	"bytes"
	"errors"
	"math"
	"strings"
)

// framing follows the requests that come over one HTTP/1 connection, and finds
// those that two programs could read in two ways: where one ends, or whom it is for.
// It is stricter than net/http, which accepts lines that end in a bare line feed,
// folded header lines, and both ways of telling a length at once. An endpoint that
// reads such a request differently could be made to see two (request smuggling).
//
// It copies nothing but lines that arrive in pieces, and changes nothing.
type framing struct {
	state frameState
	// next is the state once left bytes have gone by.
	next frameState
	left int64
	// part is the beginning of a line that has not ended.
	part []byte
	head head
	// begun: a request has been seen, so no preface of HTTP/2 is due.
	begun bool
}

type frameState uint8

const (
	atRequestLine frameState = iota
	atHeader
	atChunkSize
	atChunkEnd
	atTrailer
	inBytes
	// unwatched: HTTP/2, or what comes after a request to upgrade. Nothing is
	// looked at any more, and no other request of HTTP/1 may be answered.
	unwatched
)

// longestLine is where the search for the end of a line is given up; net/http gives
// up sooner.
const longestLine = 1 << 20

// The faults of requests. They are told to the client.
var (
	errLineEnd     = errors.New("a line does not end in CR LF")
	errControl     = errors.New("a control character in the head")
	errRequestLine = errors.New("malformed request line")
	errHeaderLine  = errors.New("malformed header line")
	errFolded      = errors.New("a folded header line")
	errLongLine    = errors.New("a line without end")
	errHosts       = errors.New("more than one Host")
	errOtherHost   = errors.New("the target names another host than Host")
	errLengths     = errors.New("more than one Content-Length")
	errLength      = errors.New("malformed Content-Length")
	errCoding      = errors.New("a Transfer-Encoding that is not chunked alone")
	errBoth        = errors.New("Content-Length beside Transfer-Encoding")
	errChunk       = errors.New("malformed chunk")
)

// scan looks at the next bytes of the connection, and returns how many of them may
// be passed on. With an error the byte after those ends a faulty line: without it
// nobody can act on the line, and net/http answers for it.
func (f *framing) scan(p []byte) (int, error) {
	for i := 0; i < len(p); {
		switch f.state {
		case unwatched:
			return len(p), nil
		case inBytes:
			n := min(int64(len(p)-i), f.left)
			f.left -= n
			i += int(n)
			if f.left == 0 {
				f.state = f.next
			}
		default:
			end := bytes.IndexByte(p[i:], '\n')
			if end < 0 {
				return f.keep(p, i)
			}
			if err := f.line(p[i : i+end]); err != nil {
				return i + end, err
			}
			i += end + 1
		}
	}
	return len(p), nil
}

// keep notes the beginning of a line, from i on.
func (f *framing) keep(p []byte, i int) (int, error) {
	if len(f.part)+len(p)-i > longestLine {
		return i, errLongLine
	}
	f.part = append(f.part, p[i:]...)
	return len(p), nil
}

// line takes in a line, of which rest is what came after part, without its line feed.
func (f *framing) line(rest []byte) error {
	line := rest
	if len(f.part) > 0 {
		line = append(f.part, rest...)
		f.part = line[:0]
	}
	if len(line) == 0 || line[len(line)-1] != '\r' {
		return errLineEnd
	}
	line = line[:len(line)-1]
	for _, c := range line {
		if c < ' ' && c != '\t' || c == 0x7f {
			return errControl
		}
	}
	return f.step(line)
}

// step takes in a whole line.
func (f *framing) step(line []byte) error {
	switch f.state {
	case atRequestLine:
		if !f.begun && string(line) == "PRI * HTTP/2.0" {
			f.state = unwatched
			return nil
		}
		f.begun = true
		f.state = atHeader
		return f.head.begin(line)
	case atHeader:
		if len(line) == 0 {
			return f.endHead()
		}
		return f.head.add(line)
	case atChunkSize:
		return f.chunk(line)
	case atChunkEnd:
		f.state = atChunkSize
		if len(line) != 0 {
			return errChunk
		}
	case atTrailer:
		if len(line) == 0 {
			f.state = atRequestLine
			return nil
		}
		_, _, err := splitHeader(line)
		return err
	}
	return nil
}

// endHead decides what follows a head.
func (f *framing) endHead() error {
	length, err := f.head.check()
	if err != nil {
		return err
	}
	switch {
	case f.head.upgrade:
		f.state = unwatched
	case f.head.codings > 0:
		f.state = atChunkSize
	case length > 0:
		f.state, f.next, f.left = inBytes, atRequestLine, length
	default:
		f.state = atRequestLine
	}
	return nil
}

// chunk reads the line before a chunk: its size and what nobody needs.
func (f *framing) chunk(line []byte) error {
	digits, _, _ := bytes.Cut(line, []byte{';'})
	if len(digits) == 0 || len(digits) > 15 {
		return errChunk
	}
	var size int64
	for _, c := range digits {
		d := strings.IndexByte("0123456789abcdef", c|0x20)
		if d < 0 || c < '0' {
			return errChunk
		}
		size = size<<4 | int64(d)
	}
	if size == 0 {
		f.state = atTrailer
		return nil
	}
	f.state, f.next, f.left = inBytes, atChunkEnd, size
	return nil
}

// head is what counts of the head of a request.
type head struct {
	// target is the authority of a target in absolute form, host the value of the
	// Host beside it.
	target, host string
	length       string
	// old is HTTP/1.0.
	old, upgrade, chunked   bool
	hosts, lengths, codings int
}

// begin reads a request line.
func (h *head) begin(line []byte) error {
	*h = head{}
	method, rest, _ := bytes.Cut(line, []byte{' '})
	target, version, found := bytes.Cut(rest, []byte{' '})
	if !found || !isToken(method) || len(target) == 0 {
		return errRequestLine
	}
	switch string(version) {
	case "HTTP/1.1":
	case "HTTP/1.0":
		h.old = true
	default:
		return errRequestLine
	}
	if target[0] != '/' {
		_, after, _ := bytes.Cut(target, []byte("://"))
		if end := bytes.IndexAny(after, "/?#"); end >= 0 {
			after = after[:end]
		}
		h.target = string(after)
	}
	return nil
}

// add reads a header line.
func (h *head) add(line []byte) error {
	name, value, err := splitHeader(line)
	if err != nil {
		return err
	}
	// Most names are of other lengths, which is soon seen.
	switch len(name) {
	case len("Host"):
		if strings.EqualFold(string(name), "Host") {
			h.hosts++
			if h.target != "" {
				h.host = string(value)
			}
		}
	case len("Upgrade"):
		h.upgrade = h.upgrade || strings.EqualFold(string(name), "Upgrade")
	case len("Content-Length"):
		if strings.EqualFold(string(name), "Content-Length") {
			h.lengths++
			h.length = string(value)
		}
	case len("Transfer-Encoding"):
		if strings.EqualFold(string(name), "Transfer-Encoding") {
			h.codings++
			h.chunked = strings.EqualFold(string(value), "chunked")
		}
	}
	return nil
}

// check judges a whole head, and returns the length of the body, which counts when
// it is not chunked.
func (h *head) check() (int64, error) {
	switch {
	case h.hosts > 1:
		return 0, errHosts
	case h.target != "" && h.hosts == 1 && !strings.EqualFold(h.target, h.host):
		return 0, errOtherHost
	case h.codings > 0 && h.lengths > 0:
		return 0, errBoth
	case h.codings > 0 && (h.codings > 1 || !h.chunked || h.old):
		return 0, errCoding
	case h.lengths > 1:
		return 0, errLengths
	case h.lengths == 1:
		return parseLength(h.length)
	}
	return 0, nil
}

// parseLength reads decimal digits and nothing else.
func parseLength(text string) (int64, error) {
	if text == "" {
		return 0, errLength
	}
	var n int64
	for _, c := range []byte(text) {
		if c < '0' || c > '9' || n > math.MaxInt64/10-1 {
			return 0, errLength
		}
		n = n*10 + int64(c-'0')
	}
	return n, nil
}

// splitHeader splits a header line, the value without the blanks around it.
func splitHeader(line []byte) (name, value []byte, err error) {
	if line[0] == ' ' || line[0] == '\t' {
		return nil, nil, errFolded
	}
	name, value, found := bytes.Cut(line, []byte{':'})
	if !found || !isToken(name) {
		return nil, nil, errHeaderLine
	}
	return name, bytes.Trim(value, " \t"), nil
}

// Bits of the characters of a token (RFC 9110, 5.6.2), from 0 and from 64 on.
const (
	tokensBelow64 uint64 = 0x3ff6cfa00000000
	tokensFrom64  uint64 = 0x57ffffffc7fffffe
)

// isToken tells whether a text is a token.
func isToken(text []byte) bool {
	for _, c := range text {
		set := tokensBelow64
		if c >= 64 {
			set = tokensFrom64
		}
		if c >= 128 || set>>(c&63)&1 == 0 {
			return false
		}
	}
	return len(text) > 0
}
