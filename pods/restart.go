package pods

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Backoff says how long a container that keeps ending waits before it is started
// again. Its first restart comes at once.
type Backoff struct {
	// Initial is the wait before the second restart. Each further one waits twice
	// as long. 0: 10 s.
	Initial time.Duration
	// Most is the longest wait. A run of more than twice as long makes the next
	// restart the first one again. 0: 300 s.
	Most time.Duration
}

func (b Backoff) orDefault() Backoff {
	return Backoff{cmp.Or(b.Initial, 10*time.Second), cmp.Or(b.Most, 300*time.Second)}
}

// backoffEnv carries a Backoff that is not the usual one to the pause process, as
// two durations. Containers do not get it.
const backoffEnv = "TOYPROXY_BACKOFF"

func (b Backoff) env() string { return fmt.Sprintf("%s=%s,%s", backoffEnv, b.Initial, b.Most) }

// backoffFromEnv is what whoever started this process wants; zero: the usual.
func backoffFromEnv() (b Backoff) {
	initial, most, _ := strings.Cut(os.Getenv(backoffEnv), ",")
	b.Initial, _ = time.ParseDuration(initial)
	b.Most, _ = time.ParseDuration(most)
	return b
}

// patience is where one container stands in its back-off.
type patience struct {
	// wait goes before the next restart, unless the run since the last one was long.
	wait time.Duration
	// restarted is when it was last started again.
	restarted time.Time
}

// after returns how long a container that has just ended has to wait.
func (p *patience) after(b Backoff, ended time.Time) time.Duration {
	if p.wait > 0 && ended.Sub(p.restarted) > 2*b.Most {
		p.wait = 0
	}
	return p.wait
}

// restart notes a restart.
func (p *patience) restart(b Backoff, now time.Time) {
	p.restarted = now
	p.wait = min(max(2*p.wait, b.Initial), b.Most)
}

// again decides by role, restartPolicyRules and restartPolicy whether a container
// that has ended with a status is started again.
func (u *unit) again(status int) bool {
	switch {
	case u.Role == sidecarRole:
		return true
	case slices.ContainsFunc(u.spec.RestartPolicyRules, func(r corev1.ContainerRestartRule) bool { return restarts(r, status) }):
		return true
	case u.policy == corev1.RestartPolicyAlways:
		return u.Role == mainRole || status != 0
	}
	return u.policy == corev1.RestartPolicyOnFailure && status != 0
}

// restarts tells whether a rule speaks of a status.
func restarts(r corev1.ContainerRestartRule, status int) bool {
	if r.Action != corev1.ContainerRestartRuleActionRestart || r.ExitCodes == nil {
		return false
	}
	listed := slices.Contains(r.ExitCodes.Values, int32(status))
	return listed == (r.ExitCodes.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn)
}

// restartPolicy is that of a container: its own, else that of its Pod.
func restartPolicy(pod *corev1.Pod, c *corev1.Container) corev1.RestartPolicy {
	if c.RestartPolicy != nil {
		return corev1.RestartPolicy(*c.RestartPolicy)
	}
	return cmp.Or(pod.Spec.RestartPolicy, corev1.RestartPolicyAlways)
}
