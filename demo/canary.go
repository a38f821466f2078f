package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

const (
	oldReplicas, newReplicas = 19, 1
	canaryVIP                = "10.96.0.11"
	canaryConnections        = 4000
)

// playCanary is row L16: a share of the traffic by the number of replicas.
func playCanary(ctx context.Context, s *stage) error {
	return s.play(ctx, func(ctx context.Context, s *stage) error {
		s.say("19 Pods of v1 and one of v2 carry app=shop, and Service shop selects them all. Service shop-v2 selects v2 alone.")
		err := errors.Join(
			s.write("v1.yaml", deployment{name: "shop-v1", labels: "app: shop, version: v1", replicas: oldReplicas}.manifest()),
			s.write("v2.yaml", deployment{name: "shop-v2", labels: "app: shop, version: v2", replicas: newReplicas}.manifest()),
			s.writeService(serviceSpec{"shop", vip, "app: shop"}),
			s.writeService(serviceSpec{"shop-v2", canaryVIP, "app: shop, version: v2"}),
			s.writePod(podSpec{Name: "pod-a", Labels: "app: client"}),
			s.sync(ctx))
		if err != nil {
			return err
		}
		return errors.Join(share(ctx, s), onlyNew(ctx, s))
	})
}

// shares asks so many times and counts the answers of each version.
func (s *stage) shares(ctx context.Context, addr string) (v1, v2 int, err error) {
	out, err := s.quiet(ctx, fmt.Sprintf("ip netns exec pod-a %s load %s:80 --rate 2000 --patience 20s --count %d -o json", shellQuote(s.Self), addr, canaryConnections))
	if err != nil {
		return 0, 0, err
	}
	var res struct{ By map[string]int }
	if err := json.Unmarshal([]byte(out), &res); err != nil {
		return 0, 0, fmt.Errorf("result of the load: %w", err)
	}
	young, err := s.quiet(ctx, "toyproxy get pods -o wide --no-headers -l version=v2")
	if err != nil {
		return 0, 0, err
	}
	for name, n := range res.By {
		if names(parsePods(young))[name] {
			v2 += n
		} else {
			v1 += n
		}
	}
	return v1, v2, nil
}

// share is the canary's part, which lies in the 99 % range of a fair choice. Of a
// hundred measurements one is expected to lie outside, and is taken again.
func share(ctx context.Context, s *stage) error {
	const p, fair99 = float64(newReplicas) / (oldReplicas + newReplicas), 2.576
	within := fair99 * math.Sqrt(canaryConnections*p*(1-p))
	for range 3 {
		s.say("%d connections to %s, which has both versions:", canaryConnections, vip)
		v1, v2, err := s.shares(ctx, vip)
		if err != nil {
			return err
		}
		fmt.Fprintf(s.Out, "  v1 %5d  %.2f %%\n  v2 %5d  %.2f %%\n", v1, 100*float64(v1)/canaryConnections, v2, 100*float64(v2)/canaryConnections)
		if v1+v2 == canaryConnections && math.Abs(float64(v2)-canaryConnections*p) <= within {
			return s.expect(true, "v2 has %.2f %%, within %.2f to %.2f %%", 100*float64(v2)/canaryConnections,
				100*(p-within/canaryConnections), 100*(p+within/canaryConnections))
		}
	}
	return s.expect(false, "v2 to have about %.0f %% of the connections", 100*p)
}

// onlyNew is the second Service.
func onlyNew(ctx context.Context, s *stage) error {
	s.say("%d connections to %s, which selects version v2 too:", canaryConnections, canaryVIP)
	v1, v2, err := s.shares(ctx, canaryVIP)
	if err != nil {
		return err
	}
	return s.expect(v1 == 0 && v2 == canaryConnections, "all %d went to v2", v2)
}
