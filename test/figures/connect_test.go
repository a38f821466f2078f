package figures

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/test/lab"
)

// connects opens n connections one after the other and returns how long they
// took, sorted. What is timed is the way of the first packet and its answer: the
// connection is reset at once.
func connects(b *testing.B, from *lab.Host, to netip.AddrPort, n int) []time.Duration {
	b.Helper()
	took := make([]time.Duration, 0, n)
	var failed error
	from.Do(func() {
		for range n {
			d, err := connect(to)
			if err != nil {
				failed = err
				return
			}
			took = append(took, d)
		}
	})
	if failed != nil {
		b.Fatalf("connection to %s: %v", to, failed)
	}
	slices.Sort(took)
	return took
}

func connect(to netip.AddrPort) (time.Duration, error) {
	address := &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())}
	start := time.Now()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, address); err != nil {
		return 0, err
	}
	d := time.Since(start)
	return d, unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
}

// percentile returns the p-th percentile of sorted durations.
func percentile(sorted []time.Duration, p float64) time.Duration {
	return sorted[min(int(float64(len(sorted))*p/100), len(sorted)-1)]
}
