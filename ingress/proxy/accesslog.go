package proxy

import (
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"
)

// AccessFormat says how the lines of the access log look.
type AccessFormat uint8

// The formats.
const (
	// AccessJSON is an object a line.
	AccessJSON AccessFormat = iota
	// AccessCommon is the combined format of Apache and nginx.
	AccessCommon
)

// flushEvery is how late a line may be; flushAt how many bytes wait at most.
const (
	flushEvery = 200 * time.Millisecond
	flushAt    = 32 << 10
)

// accessLog writes a line for each request, some at a time.
type accessLog struct {
	out    io.Writer
	format AccessFormat
	mu     sync.Mutex
	buf    []byte
}

func newAccessLog(out io.Writer, format AccessFormat) *accessLog {
	return &accessLog{out: out, format: format}
}

func (l *accessLog) note(x *exchange, r *http.Request, status int, took time.Duration) {
	if l.out == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.format == AccessCommon {
		l.buf = appendCommon(l.buf, x, r, status)
	} else {
		l.buf = appendJSON(l.buf, x, r, status, took)
	}
	if len(l.buf) >= flushAt {
		l.write()
	}
}

func (l *accessLog) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write()
}

func (l *accessLog) write() {
	if len(l.buf) > 0 {
		// Nobody could be told of an error.
		_, _ = l.out.Write(l.buf)
		l.buf = l.buf[:0]
	}
}

// appendCommon makes: client - - [time] "request" status bytes "referer" "agent".
func appendCommon(b []byte, x *exchange, r *http.Request, status int) []byte {
	b = append(b, x.client.String()...)
	b = append(b, " - - ["...)
	b = x.begun.AppendFormat(b, "02/Jan/2006:15:04:05 -0700")
	b = append(b, "] "...)
	b = appendText(b, r.Method+" "+r.RequestURI+" "+r.Proto)
	b = append(b, ' ')
	b = strconv.AppendInt(b, int64(status), 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, x.sent, 10)
	b = append(b, ' ')
	b = appendText(b, orDash(r.Referer()))
	b = append(b, ' ')
	b = appendText(b, orDash(r.UserAgent()))
	return append(b, '\n')
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func appendJSON(b []byte, x *exchange, r *http.Request, status int, took time.Duration) []byte {
	b = append(b, `{"time":"`...)
	b = x.begun.UTC().AppendFormat(b, "2006-01-02T15:04:05.000Z")
	b = append(b, '"')
	field := func(name, value string) {
		if value != "" {
			b = append(b, `,"`...)
			b = append(b, name...)
			b = append(b, `":`...)
			b = appendText(b, value)
		}
	}
	number := func(name string, value float64) {
		b = append(b, `,"`...)
		b = append(b, name...)
		b = append(b, `":`...)
		b = strconv.AppendFloat(b, value, 'f', -1, 64)
	}
	field("client", x.client.String())
	field("method", r.Method)
	field("host", r.Host)
	field("uri", r.RequestURI)
	field("protocol", r.Proto)
	number("status", float64(status))
	number("bytes", float64(x.sent))
	number("seconds", took.Round(time.Microsecond).Seconds())
	field("route", x.object())
	if x.found.Route != nil {
		field("rule", x.found.Route.Field)
	}
	field("service", x.service())
	if x.target != nil {
		field("endpoint", x.target.at)
		number("endpoint_seconds", x.waited.Round(time.Microsecond).Seconds())
	}
	if x.retries > 0 {
		number("retries", float64(x.retries))
	}
	field("agent", r.UserAgent())
	field("reason", x.reason)
	return append(b, "}\n"...)
}

// appendText quotes for JSON. In the common format it keeps what clients send from
// beginning lines of their own.
func appendText(b []byte, text string) []byte {
	b = append(b, '"')
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
			i++
		case c < ' ' || c == 0x7f:
			b = append(b, `\u00`...)
			b = append(b, "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
			i++
		case c < utf8.RuneSelf:
			b = append(b, c)
			i++
		default:
			r, size := utf8.DecodeRuneInString(text[i:])
			b = utf8.AppendRune(b, r)
			i += size
		}
	}
	return append(b, '"')
}
