package server

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	mdns "github.com/miekg/dns"
)

// LogLevel says which queries are logged.
type LogLevel int

// What is logged: nothing, what could not be answered, or everything.
const (
	LogOff LogLevel = iota
	LogErrors
	LogAll
)

// ParseLogLevel reads "off", "errors" or "all".
func ParseLogLevel(text string) (LogLevel, error) {
	switch text {
	case "off":
		return LogOff, nil
	case "errors":
		return LogErrors, nil
	case "all":
		return LogAll, nil
	}
	return LogOff, errors.New("must be off, errors or all")
}

// String is the inverse of ParseLogLevel.
func (l LogLevel) String() string {
	return [...]string{"off", "errors", "all"}[l]
}

const (
	// logEvery is how often lines are written, logBytes how many may wait for that.
	logEvery = 100 * time.Millisecond
	logBytes = 1 << 20
	// troubleEvery is how often it is told that resolvers do not answer.
	troubleEvery = time.Second
)

// queryLog gathers lines and writes them from one goroutine: a slow reader of the log
// delays no answer, but loses lines.
type queryLog struct {
	level LogLevel
	to    io.Writer

	mu       sync.Mutex
	lines    bytes.Buffer
	lost     int
	troubled time.Time
}

func newQueryLog(level LogLevel, to io.Writer) *queryLog {
	if to == nil {
		to = io.Discard
	}
	return &queryLog{level: level, to: to}
}

// wants tells whether queries that ended so are logged.
func (l *queryLog) wants(rcode int) bool {
	switch l.level {
	case LogAll:
		return true
	case LogErrors:
		return rcode != mdns.RcodeSuccess && rcode != mdns.RcodeNameError
	}
	return false
}

// note logs an exchange, in the form that CoreDNS has.
func (l *queryLog) note(x *exchange, bytes int, took time.Duration) {
	if !l.wants(x.reply.Rcode) {
		return
	}
	l.add(x.line(bytes, took))
}

func (l *queryLog) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lines.Len()+len(line) > logBytes {
		l.lost++
		return
	}
	l.lines.WriteString(line)
}

// trouble logs why resolvers gave no answer, now and then.
func (l *queryLog) trouble(err error) {
	if l.level == LogOff {
		return
	}
	now := time.Now()
	l.mu.Lock()
	again := now.Sub(l.troubled) >= troubleEvery
	if again {
		l.troubled = now
	}
	l.mu.Unlock()
	if again {
		l.add("[ERROR] " + strings.ReplaceAll(err.Error(), "\n", "; ") + "\n")
	}
}

// run writes lines until the context ends.
func (l *queryLog) run(ctx context.Context) {
	tick := time.NewTicker(logEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			l.flush()
		}
	}
}

func (l *queryLog) flush() {
	l.mu.Lock()
	text := bytes.Clone(l.lines.Bytes())
	l.lines.Reset()
	if l.lost > 0 {
		text = fmt.Appendf(text, "[WARNING] %d lines were lost: the log is not read fast enough\n", l.lost)
		l.lost = 0
	}
	l.mu.Unlock()
	if len(text) > 0 {
		_, _ = l.to.Write(text) // there is nowhere to tell it
	}
}

// line is such as
//
//	[INFO] 10.244.0.5:40212 - 4711 "A IN web.default.svc.cluster.local. udp 54 false 1232" NOERROR qr,aa,rd 106 0.000123s
func (x *exchange) line(bytes int, took time.Duration) string {
	client := netip.AddrPortFrom(x.client.Addr().Unmap(), x.client.Port())
	proto, do, size := "udp", false, mdns.MinMsgSize
	if x.overTCP {
		proto, size = "tcp", mdns.MaxMsgSize
	}
	if x.edns != nil {
		do, size = x.edns.Do(), int(x.edns.UDPSize())
	}
	return fmt.Sprintf("[INFO] %s - %d \"%s %s %s %s %d %t %d\" %s %s %d %ss\n", client, x.reply.Id,
		mdns.Type(x.question.Qtype), mdns.Class(x.question.Qclass), printable(x.question.Name), proto, x.length, do, size,
		rcodeName(x.reply.Rcode), flags(&x.reply), bytes, strconv.FormatFloat(took.Seconds(), 'f', 9, 64))
}

// printable is a name as it can stand in a line: the library has escaped quotation
// marks and what is not ASCII.
func printable(name string) string { return cmp.Or(name, ".") }

// flags are those of a reply, as dig names them.
func flags(m *mdns.Msg) string {
	out := []string{"qr"}
	for _, f := range []struct {
		set  bool
		name string
	}{{m.Authoritative, "aa"}, {m.Truncated, "tc"}, {m.RecursionDesired, "rd"}, {m.RecursionAvailable, "ra"},
		{m.AuthenticatedData, "ad"}, {m.CheckingDisabled, "cd"}} {
		if f.set {
			out = append(out, f.name)
		}
	}
	return strings.Join(out, ",")
}

func rcodeName(rcode int) string {
	if rcode == mdns.RcodeBadVers {
		return "BADVERS" // the library knows the number as BADSIG
	}
	if name, ok := mdns.RcodeToString[rcode]; ok {
		return name
	}
	return strconv.Itoa(rcode)
}
