package lab

import (
	"errors"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dataplane"
)

// Burst sends n probes at once, from one thread, and counts their outcomes.
// Took is the time from the first to the last answer; those that have none
// count as Timeout.
func Burst(from *Host, p dataplane.Protocol, to netip.AddrPort, n int, timeout time.Duration) Tally {
	from.t.Helper()
	t := Tally{Fates: map[Fate]int{}, Endpoints: map[string]int{}}
	from.Do(func() {
		start := time.Now()
		fds, errs := make([]int, n), make([]error, n)
		for i := range fds {
			fds[i], errs[i] = dial(p, to, Options{})
		}
		for i, fd := range fds {
			out, err := Outcome{}, errs[i]
			if err == nil {
				err = await(fd, &out, start.Add(timeout))
				unix.Close(fd)
			}
			if !errors.Is(err, unix.ETIMEDOUT) {
				t.Took = time.Since(start)
			}
			out.Fate, out.Err = fateOf(err), err
			t.count(out)
		}
	})
	return t
}
