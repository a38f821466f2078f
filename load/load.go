package load

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// Options say what is sent.
type Options struct {
	Target netip.AddrPort
	// Rate is how many connections are begun a second; 0: 100.
	Rate int
	// Count ends the load after that many; 0: the context does.
	Count int
	// Patience is how long one connection may take in all; 0: 2 s. It is shorter
	// than the kernel's second try of a lost packet of a handshake takes thrice.
	Patience time.Duration
}

// Result is what became of the connections.
type Result struct {
	// Sent is how many were begun: Answered and Failed in all.
	Sent     int `json:"sent"`
	Answered int `json:"answered"`
	Failed   int `json:"failed"`
	// By counts the answers by the name that the answer held.
	By map[string]int `json:"by"`
	// Errors counts the failures by what went wrong.
	Errors map[string]int `json:"errors,omitempty"`
	// Slowest is how long the slowest answer took.
	Slowest time.Duration `json:"slowest"`
	// Took is the time from the first to the last.
	Took time.Duration `json:"took"`
	// Late is how many could not begin at their time, because as many as may were
	// open already; they began later.
	Late int `json:"late,omitempty"`
}

// inFlight bounds the connections that are open at a time.
const inFlight = 1024

// Run sends connections, each at its moment, until Count is reached or the context
// ends, and waits for the last answer.
func Run(ctx context.Context, o Options) Result {
	o.Rate, o.Patience = cmp.Or(o.Rate, 100), cmp.Or(o.Patience, 2*time.Second)
	c := &counter{Result: Result{By: map[string]int{}, Errors: map[string]int{}}}
	slots := make(chan struct{}, inFlight)
	var open sync.WaitGroup
	begin := time.Now()
	for n := 0; o.Count == 0 || n < o.Count; n++ {
		due := begin.Add(time.Duration(n) * time.Second / time.Duration(o.Rate))
		if !waitUntil(ctx, due) {
			break
		}
		select {
		case slots <- struct{}{}:
		default:
			c.Late++
			slots <- struct{}{}
		}
		c.Sent++
		open.Go(func() {
			defer func() { <-slots }()
			start := time.Now()
			name, err := ask(o.Target, o.Patience)
			c.count(name, err, time.Since(start))
		})
	}
	open.Wait()
	c.Took = time.Since(begin)
	return c.Result
}

// waitUntil reports false when the context has ended before.
func waitUntil(ctx context.Context, due time.Time) bool {
	wait := time.Until(due)
	if wait <= 0 {
		return ctx.Err() == nil
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(wait):
		return true
	}
}

// counter is a Result that goroutines add to.
type counter struct {
	mu sync.Mutex
	Result
}

func (c *counter) count(name string, err error, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.Failed++
		c.Errors[reason(err)]++
		return
	}
	c.Answered++
	c.By[name]++
	c.Slowest = max(c.Slowest, took)
}

// reason is an error without the ports, which differ each time.
func reason(err error) string {
	var op *net.OpError
	switch {
	case errors.As(err, &op) && op.Timeout():
		return op.Op + ": no answer in time"
	case errors.As(err, &op):
		return op.Op + ": " + op.Err.Error()
	}
	return err.Error()
}

// ask makes one connection and returns the first line of the answer's body.
func ask(target netip.AddrPort, patience time.Duration) (string, error) {
	conn, err := net.DialTimeout("tcp", target.String(), patience)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintf(conn, "GET /hostname HTTP/1.0\r\nHost: %s\r\n\r\n", target); err != nil {
		return "", err
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return "", fmt.Errorf("answer: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("answer: status %s", answer.Status)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, 1024))
	if err != nil {
		return "", fmt.Errorf("answer: %w", err)
	}
	name := string(body)
	for i, r := range name {
		if r == '\n' || r == ' ' {
			return name[:i], nil
		}
	}
	return name, nil
}
