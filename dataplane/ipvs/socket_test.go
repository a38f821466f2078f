package ipvs

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/lab"
)

// onSocket runs a test with a socket of a fresh namespace, whose loopback link
// has the number 1.
func onSocket(t *testing.T, protocol int, test func(s *socket)) {
	lab.Require(t, lab.Namespaces)
	lab.New(t).Node.Do(func() {
		s, err := openSocket(protocol)
		if err != nil {
			t.Fatal(err)
		}
		defer s.close()
		test(s)
	})
}

// addRoute encodes a route to the n-th address, which must not exist yet.
func addRoute(n int, e *encoder) {
	addr := netip.AddrFrom4([4]byte{198, 18, byte(n >> 8), byte(n)})
	e.route(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, localRoute{addr: addr, link: 1})
}

// Every refused request of a call is told, with its place and its error, even if
// all are; what comes in later calls is not sent.
func TestRefused(t *testing.T) {
	onSocket(t, unix.NETLINK_ROUTE, func(s *socket) {
		const all = 3*batchRequests + 10
		refused, seen, err := s.send(context.Background(), all, addRoute)
		if err != nil || len(refused) != 0 || seen != all {
			t.Fatalf("first time: refused %v, seen %d of %d, %v", refused, seen, all, err)
		}
		refused, seen, err = s.send(context.Background(), all, addRoute)
		if err != nil || len(refused) != batchRequests || seen != batchRequests {
			t.Fatalf("again: refused %d, seen %d, %v; want %d", len(refused), seen, err, batchRequests)
		}
		// Only the 7th and the last of the second call are there already.
		bad := map[int]int{batchRequests + 7: 7, 2*batchRequests - 1: 8}
		refused, seen, err = s.send(context.Background(), all, func(i int, e *encoder) {
			if n, ok := bad[i]; ok {
				addRoute(n, e)
				return
			}
			addRoute(all+i, e)
		})
		want := fmt.Sprint([]failure{{batchRequests + 7, unix.EEXIST}, {2*batchRequests - 1, unix.EEXIST}})
		if err != nil || fmt.Sprint(refused) != want || seen != 2*batchRequests {
			t.Errorf("refused %v, seen %d, %v; want %s", refused, seen, err, want)
		}
	})
}

// A kernel that does not answer holds nobody up for longer than the context.
func TestNoAnswer(t *testing.T) {
	onSocket(t, unix.NETLINK_ROUTE, func(s *socket) {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		addRoute(1, &s.out) // asks for no answer
		start := time.Now()
		err := s.exchange(ctx, func(answer) (bool, error) { return false, nil })
		if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took > callLimit/2 {
			t.Errorf("no answer: %v after %s", err, took)
		}
		// The next request gets its own answers.
		if refused, seen, err := s.send(context.Background(), 2, addRoute); err != nil || seen != 2 || len(refused) != 1 {
			t.Errorf("afterwards: refused %v, seen %d, %v", refused, seen, err)
		}
	})
}

// Refusals are told with the objects that they are about; what only follows from
// another one is not.
func TestRefusedObjects(t *testing.T) {
	lab.Require(t, lab.Namespaces, lab.IPVS, lab.IPSet)
	lab.New(t).Node.Do(func() {
		k, err := openKernel()
		if err != nil {
			t.Fatal(err)
		}
		defer k.close()
		want := newTarget(table(frontend("10.96.0.1", 80), frontend("10.96.0.2", 80)), dataplane.IPv4, "rr")
		want.servers[0].scheduler = "nonesuch"
		var s steps
		s.raiseServers(want, observed{})
		err = (&phase{steps: s}).Apply(context.Background())
		if err == nil || !strings.Contains(err.Error(), "virtual server tcp 10.96.0.1:80: this kernel has no IPVS scheduler nonesuch") ||
			strings.Contains(err.Error(), "real server") || strings.Contains(err.Error(), "10.96.0.2") {
			t.Errorf("refused: %v", err)
		}
		want.servers[0].scheduler = "rr"
		s = nil
		s.raiseServers(want, observed{})
		// The second virtual server and its real servers are there, the first is not.
		if err := (&phase{steps: s}).Apply(context.Background()); err != nil {
			t.Errorf("adding what is there: %v", err)
		}
		list, err := k.listServers(context.Background(), 2)
		if err != nil || len(list) != 2 {
			t.Errorf("%d virtual servers, %v", len(list), err)
		}
		s = nil
		for _, v := range append(list, list...) { // the second time it is gone
			s.add(dropServer{v}, dataplane.Change{})
		}
		if err := (&phase{steps: s}).Apply(context.Background()); err != nil {
			t.Errorf("removing what is gone: %v", err)
		}
	})
}
