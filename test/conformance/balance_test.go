package conformance

import (
	"fmt"
	"math"
	"net/netip"
	"testing"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/lab"
)

const web = `
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {clusterIP: 10.96.0.10, selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: canary}
spec: {clusterIP: 10.96.0.11, selector: {app: web, version: v2}, ports: [{port: 80, targetPort: 8080}]}
`

// connections is how many the shares are measured over.
const connections = 6000

// TestBalance proves that every endpoint gets its share: within the range that
// chance allows where the backend draws lots, to within one connection where it
// takes turns.
func TestBalance(t *testing.T) {
	onBackends(t, 65, func(t *testing.T, s *stage, b backend) {
		for n := 2; n <= 65; n++ {
			s.Pod(n).Serve(dataplane.TCP, 8080)
		}
		for _, n := range []int{2, 3, 7, 64} {
			table := s.program(podLines(2, n+1, "app=web"), web)
			for _, vip := range vips(10, n == 7) {
				got := lab.ProbeMany(s.Pod(1), dataplane.TCP, netip.AddrPortFrom(vip, 80), connections)
				if !fair(got, n, b.turns) && !b.turns {
					// chance does that once in a thousand times, and this is drawn dozens
					// of times in a run: twice in a row it is no chance
					got = lab.ProbeMany(s.Pod(1), dataplane.TCP, netip.AddrPortFrom(vip, 80), connections)
				}
				checkShares(t, got, n, b.turns)
				checkTold(t, s.told(table, netip.AddrPortFrom(vip, 80)), got, n)
				t.Logf("%s over %d endpoints: %v", vip, n, got.Took)
			}
		}
	})
}

// TestCanary is lesson L16: 19 Pods of v1 and one of v2 behind one selector
// give v2 about 5 %, and a Service that selects version v2 reaches only that.
func TestCanary(t *testing.T) {
	onBackends(t, 21, func(t *testing.T, s *stage, b backend) {
		for n := 2; n <= 21; n++ {
			s.Pod(n).Serve(dataplane.TCP, 8080)
		}
		s.program(podLines(2, 20, "app=web version=v1")+"p21 app=web version=v2\n", web)
		all := lab.ProbeMany(s.Pod(1), dataplane.TCP, netip.AddrPortFrom(vips(10, false)[0], 80), connections)
		checkShares(t, all, 20, b.turns)
		t.Logf("v2 got %.2f %% of %d connections", 100*float64(all.Endpoints["p21:8080"])/connections, connections)
		for _, vip := range vips(11, true) {
			only := lab.ProbeMany(s.Pod(1), dataplane.TCP, netip.AddrPortFrom(vip, 80), 200)
			if only.Endpoints["p21:8080"] != 200 {
				t.Errorf("Service canary at %s: %v, first failure %v; want p21 alone", vip, only.Endpoints, only.Failure)
			}
		}
	})
}

// vips returns 10.96.0.N, and its twin if both are wanted.
func vips(n byte, both bool) []netip.Addr {
	v4 := netip.AddrFrom4([4]byte{10, 96, 0, n})
	if !both {
		return []netip.Addr{v4}
	}
	v6, _ := lab.Twin(v4)
	return []netip.Addr{v4, v6}
}

// checkShares compares what each of n endpoints got with its fair share.
func checkShares(t *testing.T, got lab.Tally, n int, turns bool) {
	t.Helper()
	if got.Fates[lab.OK] != connections || len(got.Endpoints) != n {
		t.Errorf("%v by %d endpoints, first failure %v; want %d OK by %d", got.Fates, len(got.Endpoints), got.Failure, connections, n)
		return
	}
	low, high := shareRange(n, turns)
	for name, count := range got.Endpoints {
		if count < low || count > high {
			t.Errorf("%s got %d of %d connections over %d endpoints, want %d to %d", name, count, connections, n, low, high)
		}
	}
}

// shareRange is what one of n endpoints may get. One in a thousand draws may be
// out of range, of all n endpoints together.
func shareRange(n int, turns bool) (low, high int) {
	if turns {
		return connections / n, (connections + n - 1) / n
	}
	return binomialRange(connections, 1/float64(n), 0.001/float64(n))
}

// fair tells whether every endpoint is in range.
func fair(got lab.Tally, n int, turns bool) bool {
	low, high := shareRange(n, turns)
	for _, count := range got.Endpoints {
		if count < low || count > high {
			return false
		}
	}
	return true
}

// binomialRange returns the smallest and largest number of successes in n tries
// that are not among the alpha least likely, half of them at each end.
func binomialRange(n int, p, alpha float64) (low, high int) {
	low, high = -1, n
	sum := 0.0
	for k := 0; k <= n; k++ {
		sum += math.Exp(logChoose(n, k) + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
		if low < 0 && sum > alpha/2 {
			low = k
		}
		if sum >= 1-alpha/2 {
			return low, k
		}
	}
	return low, high
}

func logChoose(n, k int) float64 {
	lg := func(x int) float64 { v, _ := math.Lgamma(float64(x + 1)); return v }
	return lg(n) - lg(k) - lg(n-k)
}

func TestBinomialRange(t *testing.T) {
	for _, tc := range []struct {
		n         int
		p, alpha  float64
		low, high int
	}{
		{10, 0.5, 0.05, 2, 8},    // 0.011 lie below 2, 0.011 above 8
		{100, 0.5, 0.05, 40, 60}, // the textbook's example
		{6000, 0.5, 0.001, 2873, 3127},
	} {
		low, high := binomialRange(tc.n, tc.p, tc.alpha)
		if low != tc.low || high != tc.high {
			t.Errorf("%s: %d to %d, want %d to %d", fmt.Sprint(tc.n, tc.p, tc.alpha), low, high, tc.low, tc.high)
		}
	}
}
