package demo

import (
	"context"
	"errors"
	"slices"
)

// playRestart is row L3: a container is restarted, a Pod is replaced.
func playRestart(ctx context.Context, s *stage) error {
	return s.play(ctx, func(ctx context.Context, s *stage) (err error) {
		s.say("Deployment web wants one Pod. toyproxy run follows the manifests and the Pods.")
		if err := s.write("web.yaml", deployment{name: "web", labels: "app: web", replicas: 1}.manifest()); err != nil {
			return err
		}
		stop, err := s.follow(ctx, "--min-sync-period 100ms")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
		before, err := s.untilPods(ctx, "web", 1)
		if err != nil {
			return err
		}
		if before, err = restarted(ctx, s, before[0]); err != nil {
			return err
		}
		return replaced(ctx, s, before[0])
	})
}

// restarted: a container that crashes is started again in its Pod.
func restarted(ctx context.Context, s *stage, before pod) ([]pod, error) {
	s.say("Its container crashes. The pause process, which needs nobody for that, starts it again: same Pod, same address.")
	if _, err := s.run(ctx, "pkill -9 -f 'stand-i[n] .*"+before.name+"'"); err != nil {
		return nil, err
	}
	out, err := s.until(ctx, podsOf+"web", "the container runs again, and was counted", func(answer string) bool {
		p := parsePods(answer)
		return allUp(p, 1) && p[0].restarts == "1"
	})
	if err != nil {
		return nil, err
	}
	after := parsePods(out)
	return after, s.expect(after[0].name == before.name && after[0].addr == before.addr, "the Pod is still %s at %s", before.name, before.addr)
}

// replaced: a Pod that is lost is never repaired.
func replaced(ctx context.Context, s *stage, before pod) error {
	s.say("Now the Pod itself is lost: its pause process is killed. Nobody repairs it: another one takes its place.")
	if _, err := s.run(ctx, killPause(before.name)); err != nil {
		return err
	}
	out, err := s.until(ctx, podsOf+"web", "one Pod is ready again", func(answer string) bool {
		p := parsePods(answer)
		return allUp(p, 1) && p[0].name != before.name
	})
	if err != nil {
		return err
	}
	after := parsePods(out)[0]
	if err := s.expect(after.name != before.name && after.restarts == "0", "it has another name, %s, and was never restarted", after.name); err != nil {
		return err
	}
	leases, err := s.pods(ctx, "web")
	if err != nil {
		return err
	}
	used := slices.ContainsFunc(leases, func(p pod) bool { return p.addr == before.addr })
	return s.expect(!used, "it has another address, %s; that of the lost one, %s, is not given out again at once", after.addr, before.addr)
}
