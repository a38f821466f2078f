package demo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

const vip = "10.96.0.10"

// playService is the lesson's t0 … t4 (rows L10 to L13 and L15) on real Pods.
func playService(ctx context.Context, s *stage) error {
	return s.play(ctx, steady, kernelOnly, podLost, replacement, superset, sharedPods)
}

func (s *stage) sync(ctx context.Context) error {
	_, err := s.run(ctx, "toyproxy sync --backend "+s.Backend)
	return err
}

// steady is t0: three Pods behind one address, and even shares.
func steady(ctx context.Context, s *stage) error {
	s.say("t0: three Pods carry app=web; Service web selects that label and has the address %s.", vip)
	err := errors.Join(
		s.writePod(podSpec{Name: "pod-a", Labels: "app: client"}),
		s.writePod(podSpec{Name: "web-1", Labels: "app: web", Port: 8080}),
		s.writePod(podSpec{Name: "web-2", Labels: "app: web", Port: 8080}),
		s.writePod(podSpec{Name: "web-3", Labels: "app: web", Port: 8080}),
		s.writeService(serviceSpec{"web", vip, "app: web"}))
	if err != nil {
		return err
	}
	if err := s.sync(ctx); err != nil {
		return err
	}
	if _, err := s.run(ctx, "toyproxy get pods -o wide"); err != nil {
		return err
	}
	if err := s.expectEndpoints(ctx, "web", "web-1", "web-2", "web-3"); err != nil {
		return err
	}
	if _, err := s.run(ctx, "ip netns exec pod-a curl -s "+vip); err != nil {
		return err
	}
	return s.expectShares(ctx, vip, "web-1", "web-2", "web-3")
}

// kernelOnly is L12 and L13: no process in the path, the address on no interface.
func kernelOnly(ctx context.Context, s *stage) error {
	s.say("Who forwards these connections? The kernel alone: sync has returned, only the Pods' own processes live.")
	line := `for p in /proc/[0-9]*; do c=$(tr '\0' ' ' < $p/cmdline); case $c in *toyproxy*pause*|*stand-in*|*demo*|*"sh -c"*) ;; *toyproxy*) echo "$c";; esac; done 2>/dev/null; true`
	out, err := s.quiet(ctx, line)
	if err != nil {
		return err
	}
	if err := s.expect(strings.TrimSpace(out) == "", "no toyproxy process but the Pods' own"); err != nil {
		return err
	}
	switch s.Backend {
	case "ipvs":
		_, err = s.run(ctx, "ipvsadm -Ln")
	case "nftables":
		_, err = s.run(ctx, "nft list table ip toyproxy | grep -E 'default/web|"+vip+"|dnat'")
	default:
		_, err = s.run(ctx, "{ iptables-nft-save -t nat; iptables-legacy-save -t nat; } 2>/dev/null | grep -E 'default/web|"+vip+"|DNAT'")
	}
	if err != nil {
		return err
	}
	out, err = s.run(ctx, "ip -brief address")
	if err != nil {
		return err
	}
	return s.expect(!strings.Contains(out, vip), "%s is bound to no interface", vip)
}

// podLost is t1 and t2: a Pod dies and its address leaves the rules.
func podLost(ctx context.Context, s *stage) error {
	s.say("t1: web-2 is lost: its processes are killed. Nobody repairs a lost Pod; whoever wanted it takes its manifest away.")
	if _, err := s.run(ctx, killPause("web-2")); err != nil {
		return err
	}
	if err := s.remove("web-2.yaml"); err != nil {
		return err
	}
	s.say("t2: the next pass resolves the selector again; the Service and its address are untouched.")
	if _, err := s.run(ctx, "toyproxy plan --backend "+s.Backend+" --brief"); err != nil {
		return err
	}
	if err := s.sync(ctx); err != nil {
		return err
	}
	if err := s.expectEndpoints(ctx, "web", "web-1", "web-3"); err != nil {
		return err
	}
	return s.expectShares(ctx, vip, "web-1", "web-3")
}

// replacement is t3 and t4: a new Pod with a new name and a new address.
func replacement(ctx context.Context, s *stage) error {
	s.say("t3: a replacement is wanted: web-4, same labels. t4: it has a new address and takes its share.")
	lost, err := s.quiet(ctx, "toyproxy get endpoints web --no-headers")
	if err != nil {
		return err
	}
	if err := s.writePod(podSpec{Name: "web-4", Labels: "app: web", Port: 8080}); err != nil {
		return err
	}
	if err := s.sync(ctx); err != nil {
		return err
	}
	if err := s.expectEndpoints(ctx, "web", "web-1", "web-3", "web-4"); err != nil {
		return err
	}
	now, err := s.quiet(ctx, "toyproxy get pods web-4 --no-headers -o wide")
	if err != nil {
		return err
	}
	fresh := strings.Fields(now)[5]
	if err := s.expect(!strings.Contains(lost, fresh+":") && fresh != "10.244.0.4", "web-4 has an address of its own (%s), not the lost one's", fresh); err != nil {
		return err
	}
	if err := s.expectShares(ctx, vip, "web-1", "web-3", "web-4"); err != nil {
		return err
	}
	out, err := s.quiet(ctx, "toyproxy get services web --no-headers")
	if err != nil {
		return err
	}
	return s.expect(strings.Contains(out, vip), "the ClusterIP is still %s", vip)
}

// superset is L11: a selector matches Pods that have at least its labels.
func superset(ctx context.Context, s *stage) error {
	s.say("A selector matches every Pod whose labels are a superset of it: extra labels do not matter, a different value does.")
	err := errors.Join(
		s.writePod(podSpec{"p1", "app: payments, env: prod, version: v2", 8080}),
		s.writePod(podSpec{"p2", "app: payments, env: staging", 8080}),
		s.writePod(podSpec{"p3", "app: payments, env: prod", 8080}),
		s.writePod(podSpec{"p4", "app: billing, env: prod", 8080}),
		s.writeService(serviceSpec{"payments", "10.96.0.20", "app: payments, env: prod"}))
	if err != nil {
		return err
	}
	if err := s.sync(ctx); err != nil {
		return err
	}
	if err := s.expectEndpoints(ctx, "payments", "p1", "p3"); err != nil {
		return err
	}
	return s.expectShares(ctx, "10.96.0.20", "p1", "p3")
}

// sharedPods is L15: Services may select the same Pods.
func sharedPods(ctx context.Context, s *stage) error {
	s.say("Two Services may select the same Pods: production selects all of env=prod, payments only its own.")
	if err := s.writeService(serviceSpec{"production", "10.96.0.21", "env: prod"}); err != nil {
		return err
	}
	if err := s.sync(ctx); err != nil {
		return err
	}
	if err := s.expectShares(ctx, "10.96.0.21", "p1", "p3", "p4"); err != nil {
		return err
	}
	return s.expectShares(ctx, "10.96.0.20", "p1", "p3")
}

// expectEndpoints compares the endpoints of a Service with the addresses of Pods.
func (s *stage) expectEndpoints(ctx context.Context, service string, pods ...string) error {
	out, err := s.run(ctx, "toyproxy get endpoints "+service)
	if err != nil {
		return err
	}
	var want []string
	for _, pod := range pods {
		line, err := s.quiet(ctx, "toyproxy get pods "+pod+" --no-headers -o wide")
		if err != nil {
			return err
		}
		want = append(want, strings.Fields(line)[5]+":8080")
	}
	slices.Sort(want)
	got := strings.Split(strings.Fields(out)[4], ",")
	slices.Sort(got)
	return s.expect(slices.Equal(got, want), "the endpoints of %s are %s", service, strings.Join(pods, ", "))
}

const connections = 300

// expectShares opens connections from pod-a and counts who answered: exactly
// these Pods, in even shares (exactly for IPVS rr; within five standard
// deviations for a random choice).
func (s *stage) expectShares(ctx context.Context, addr string, pods ...string) error {
	line := fmt.Sprintf(`ip netns exec pod-a curl -s -H 'Connection: close' 'http://%s/hostname?[1-%d]' | sort | uniq -c`, addr, connections)
	out, err := s.run(ctx, line)
	if err != nil {
		return err
	}
	counts := map[string]int{}
	for l := range strings.Lines(out) {
		var n int
		var name string
		if _, err := fmt.Sscan(l, &n, &name); err != nil {
			return fmt.Errorf("answer %q: %w", l, err)
		}
		counts[name] = n
	}
	p := 1 / float64(len(pods))
	allowed := 5 * math.Sqrt(connections*p*(1-p))
	if s.Backend == "ipvs" {
		allowed = 1
	}
	even := len(counts) == len(pods)
	for _, pod := range pods {
		even = even && math.Abs(float64(counts[pod])-connections*p) <= allowed
	}
	return s.expect(even, "%d connections reach %s and nobody else, in even shares", connections, strings.Join(pods, ", "))
}
