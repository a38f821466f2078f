package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	rolloutReplicas = 10
	rolloutSurge    = 2
	rolloutMissing  = 0
)

// playRolling is row L9: a rollout that no client notices.
func playRolling(ctx context.Context, s *stage) error {
	return s.play(ctx, func(ctx context.Context, s *stage) (err error) {
		s.say("Ten Pods of v1 behind %s. At most %d more than ten at a time, and never fewer ready.", vip, rolloutSurge)
		err = errors.Join(
			s.write("web.yaml", rolling("v1").manifest()),
			s.writeService(serviceSpec{"web", vip, "app: web"}),
			s.writePod(podSpec{Name: "pod-a", Labels: "app: client"}))
		if err != nil {
			return err
		}
		stop, err := s.follow(ctx, "--min-sync-period 100ms")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
		old, err := s.untilPods(ctx, "web", rolloutReplicas)
		if err != nil {
			return err
		}
		if _, err := s.until(ctx, "ip netns exec pod-a curl -s "+vip, "the Service answers", func(string) bool { return true }); err != nil {
			return err
		}
		return underLoad(ctx, s, old)
	})
}

func rolling(version string) deployment {
	return deployment{name: "web", labels: "app: web", replicas: rolloutReplicas, version: version,
		strategy: fmt.Sprintf("{type: RollingUpdate, rollingUpdate: {maxSurge: %d, maxUnavailable: %d}}", rolloutSurge, rolloutMissing)}
}

// underLoad rolls out v2 while connections come at a steady rate.
func underLoad(ctx context.Context, s *stage, old []pod) error {
	s.say("A client opens 2,000 connections a second. Meanwhile the template changes: v2.")
	stop, err := s.beside(ctx, "ip netns exec pod-a "+s.Self+" load "+vip+":80 --rate 2000 --patience 20s --for 30m -o json", "load.json")
	if err != nil {
		return err
	}
	watch := s.sample(ctx)
	err = s.rollOut(ctx)
	bounds := watch()
	if loadErr := stop(); loadErr != nil {
		err = errors.Join(err, loadErr)
	}
	if err != nil {
		return err
	}
	return judge(ctx, s, old, bounds)
}

func (s *stage) rollOut(ctx context.Context) error {
	if err := s.write("web.yaml", rolling("v2").manifest()); err != nil {
		return err
	}
	// The controller is to have seen the change before its status is asked for.
	if _, err := s.silently(ctx, "toyproxy get replicasets -l app=web --no-headers", func(answer string) bool {
		return strings.Count(answer, "\n") == 2
	}); err != nil {
		return err
	}
	if _, err := s.run(ctx, "toyproxy rollout status deployment/web --timeout 5m"); err != nil {
		return err
	}
	_, err := s.untilPods(ctx, "web", rolloutReplicas)
	return err
}

// judge reads what the client has counted.
func judge(ctx context.Context, s *stage, old []pod, b bounds) error {
	data, err := os.ReadFile(filepath.Join(s.Dir, "load.json"))
	if err != nil {
		return fmt.Errorf("result of the load: %w", err)
	}
	var res struct {
		Answered, Failed int
		By               map[string]int
	}
	if err := json.Unmarshal(data, &res); err != nil {
		return fmt.Errorf("result of the load: %w: %s", err, data)
	}
	now, err := s.pods(ctx, "web")
	if err != nil {
		return err
	}
	if err := s.expect(len(fresh(old, now)) == rolloutReplicas, "all ten Pods are others than before: none was changed in place"); err != nil {
		return err
	}
	if err := s.expect(b.samples > 0 && b.leastReady >= rolloutReplicas-rolloutMissing, "in %d looks never fewer than %d were ready (the least: %d)",
		b.samples, rolloutReplicas-rolloutMissing, b.leastReady); err != nil {
		return err
	}
	if err := s.expect(b.mostThere <= rolloutReplicas+rolloutSurge, "and never more than %d were there (the most: %d)", rolloutReplicas+rolloutSurge, b.mostThere); err != nil {
		return err
	}
	if err := s.expect(len(res.By) > rolloutReplicas, "Pods of both versions have answered (%d Pods)", len(res.By)); err != nil {
		return err
	}
	return s.expect(res.Failed == 0, "%d connections, %d failed", res.Answered+res.Failed, res.Failed)
}

// bounds are what was seen of a Deployment's Pods.
type bounds struct{ samples, leastReady, mostThere int }

// sample looks at the Pods again and again until the returned function is called.
func (s *stage) sample(ctx context.Context) (stop func() bounds) {
	ctx, cancel := context.WithCancel(ctx)
	b := bounds{leastReady: 1 << 30}
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			if pods, err := s.pods(ctx, "web"); err == nil {
				b.add(pods)
			}
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	return func() bounds {
		cancel()
		done.Wait()
		return b
	}
}

func (b *bounds) add(pods []pod) {
	ready, there := 0, 0
	for _, p := range pods {
		if p.status == "Terminating" {
			continue // it has left the rules, and only finishes what it has begun
		}
		there++
		if p.up() {
			ready++
		}
	}
	b.samples++
	b.leastReady, b.mostThere = min(b.leastReady, ready), max(b.mostThere, there)
}
