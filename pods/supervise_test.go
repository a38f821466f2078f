package pods

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
)

// The figures of a kubelet: at once, then 10 s doubling to 300 s; a run of more
// than 600 s begins anew.
func TestBackoff(t *testing.T) {
	s := newStage(t, pod(corev1.RestartPolicyAlways, "a"))
	s.runs["a"] = []play{{time.Second, 1}, {time.Second, 1}, {time.Second, 1}, {time.Second, 0}, {time.Second, 1}, {time.Second, 1}, {time.Second, 1}, {time.Second, 1}, {600 * time.Second, 1}, {602 * time.Second, 1}, {time.Second, 1}, {time.Hour, 1}}
	s.until(3200 * time.Second)
	want := "0s start a, 1s start a, 12s start a, 33s start a, 74s start a, 155s start a, 316s start a, 617s start a, 918s start a, 1818s start a, 2420s start a, 2431s start a"
	if got := s.did(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := s.brief(); got != "Running Initialized ContainersReady Ready; a running (11)" {
		t.Errorf("status %s", got)
	}
}

func TestRestartPolicies(t *testing.T) {
	for _, tc := range []struct {
		policy corev1.RestartPolicy
		status int
		want   string
	}{
		{corev1.RestartPolicyAlways, 0, "Running Initialized; a CrashLoopBackOff (1)"},
		{corev1.RestartPolicyAlways, 1, "Running Initialized; a CrashLoopBackOff (1)"},
		{"", 1, "Running Initialized; a CrashLoopBackOff (1)"},
		{corev1.RestartPolicyOnFailure, 0, "Succeeded Initialized; a Completed"},
		{corev1.RestartPolicyOnFailure, 1, "Running Initialized; a CrashLoopBackOff (1)"},
		{corev1.RestartPolicyNever, 0, "Succeeded Initialized; a Completed"},
		{corev1.RestartPolicyNever, 1, "Failed Initialized; a Error"},
	} {
		s := newStage(t, pod(tc.policy, "a"))
		s.runs["a"] = []play{{time.Second, tc.status}}
		if got := s.until(5 * time.Second).brief(); got != tc.want {
			t.Errorf("%s, status %d: %s, want %s", tc.policy, tc.status, got, tc.want)
		}
	}
}

// A container's own restartPolicy goes before that of its Pod.
func TestRestartPolicyOfAContainer(t *testing.T) {
	p := pod(corev1.RestartPolicyNever, "a", "b")
	p.Spec.Containers[0].RestartPolicy = new(corev1.ContainerRestartPolicyOnFailure)
	s := newStage(t, p)
	s.runs["a"], s.runs["b"] = []play{{time.Second, 1}, {time.Second, 0}}, []play{{time.Second, 1}}
	if got := s.until(5 * time.Second).brief(); got != "Failed Initialized; a Completed (1); b Error" {
		t.Error(got)
	}
}

// Rules about exit codes go before the policy.
func TestRestartRules(t *testing.T) {
	for status, want := range map[int]string{42: "Running Initialized; a CrashLoopBackOff (1)", 1: "Failed Initialized; a Error", 0: "Succeeded Initialized; a Completed"} {
		p := pod(corev1.RestartPolicyNever, "a")
		c := &p.Spec.Containers[0]
		c.RestartPolicy = new(corev1.ContainerRestartPolicyNever)
		c.RestartPolicyRules = []corev1.ContainerRestartRule{{
			Action:    corev1.ContainerRestartRuleActionRestart,
			ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{41, 42}},
		}}
		s := newStage(t, p)
		s.runs["a"] = []play{{time.Second, status}}
		if got := s.until(5 * time.Second).brief(); got != want {
			t.Errorf("status %d: %s, want %s", status, got, want)
		}
	}
}

func TestSignalNumber(t *testing.T) {
	for name, want := range map[string]int{"SIGTERM": 15, "SIGQUIT": 3, "SIGRTMIN": 34, "SIGRTMIN+3": 37, "SIGRTMAX-1": 63, "SIGRTMIN+99": 0, "TERM": 0} {
		if got := signalNumber(name); int(got) != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}

func TestInitOrder(t *testing.T) {
	p := pod(corev1.RestartPolicyAlways, "i:one", "s:side", "i:two", "main", "other")
	p.Spec.InitContainers[1].StartupProbe = &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 10}
	s := newStage(t, p)
	s.runs["one"], s.runs["two"] = []play{{2 * time.Second, 1}, {time.Second, 0}}, []play{{time.Second, 0}}
	s.verdicts["side startup"] = func(at time.Duration) outcome {
		if at < 5*time.Second {
			return failed
		}
		return passed
	}
	for _, step := range []struct {
		at   time.Duration
		want string
	}{
		{time.Second, "Pending; one running; side PodInitializing; two PodInitializing; main PodInitializing; other PodInitializing"},
		{4 * time.Second, "Pending; one Completed (1); side running; two PodInitializing; main PodInitializing; other PodInitializing"},
		{5500 * time.Millisecond, "Pending; one Completed (1); side running; two running; main PodInitializing; other PodInitializing"},
		{7 * time.Second, "Running Initialized ContainersReady Ready; one Completed (1); side running; two Completed; main running; other running"},
	} {
		got := strings.ReplaceAll(s.until(step.at).brief(), "side ContainerCreating", "side PodInitializing")
		if got = strings.ReplaceAll(got, "two ContainerCreating", "two PodInitializing"); got != step.want {
			t.Errorf("at %s: %s, want %s", step.at, got, step.want)
		}
	}
	if got, want := s.did("startup"), "0s start one, 2s start one, 3s start side, 5s start two, 6s start main, 6s start other"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestInitFailure(t *testing.T) {
	for _, tc := range []struct {
		policy corev1.RestartPolicy
		want   string
	}{
		{corev1.RestartPolicyNever, "Failed; one Error; side Error; main PodInitializing"},
		{corev1.RestartPolicyAlways, "Pending; one CrashLoopBackOff (1); side running; main PodInitializing"},
	} {
		p := pod(tc.policy, "i:one", "s:side", "main")
		p.Spec.InitContainers = []corev1.Container{p.Spec.InitContainers[1], p.Spec.InitContainers[0]}
		s := newStage(t, p)
		s.runs["one"] = []play{{time.Second, 1}}
		got := s.until(5 * time.Second).brief()
		if parts := strings.Split(got, "; "); len(parts) == 4 {
			got = strings.Join([]string{parts[0], parts[2], parts[1], parts[3]}, "; ")
		}
		if got != tc.want {
			t.Errorf("%s: %s, want %s", tc.policy, got, tc.want)
		}
	}
}

// Sidecars end after the others, the last first, and are started again till then.
func TestSidecarsEndLast(t *testing.T) {
	s := newStage(t, pod(corev1.RestartPolicyNever, "s:x", "s:y", "main"))
	s.runs["main"] = []play{{10 * time.Second, 0}}
	s.runs["y"] = []play{{time.Second, 0}, {time.Hour, 0}}
	if got, want := s.until(20*time.Second).did(), "0s start x, 0s start y, 0s start main, 1s start y, 10s TERM y, 10.1s TERM x"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := s.brief(); got != "Succeeded Initialized; x Error; y Error (1); main Completed" {
		t.Error(got)
	}
}

func TestEndOfAPod(t *testing.T) {
	hook := &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"x"}}}}
	sleep := &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 4}}}
	quit := &corev1.Lifecycle{StopSignal: new(corev1.SIGQUIT)}
	for _, tc := range []struct {
		name  string
		grace int64
		hook  *corev1.Lifecycle
		deaf  string
		want  string
	}{
		{"obedient", 30, nil, "", "10s TERM main, 10.1s TERM side"},
		{"deaf", 5, nil, "main", "10s TERM main, 15s TERM side, 15s KILL main"},
		{"all deaf", 5, nil, "main side", "10s TERM main, 15s TERM side, 15s KILL main, 17s KILL side"},
		{"no grace", 0, nil, "", "10s TERM side, 10s KILL main"},
		{"preStop", 30, hook, "", "10s hook of main, 13s TERM main, 13.1s TERM side"},
		{"preStop takes all the grace", 2, hook, "main", "10s hook of main, 12s TERM side, 12s TERM main, 14s KILL main"},
		{"preStop sleeps", 30, sleep, "", "14s TERM main, 14.1s TERM side"},
		{"another signal", 30, quit, "", "10s QUIT main, 10.1s TERM side"},
	} {
		p := pod(corev1.RestartPolicyAlways, "s:side", "main")
		p.Spec.TerminationGracePeriodSeconds, p.Spec.Containers[0].Lifecycle = &tc.grace, tc.hook
		s := newStage(t, p)
		s.hooks = 3 * time.Second
		for _, name := range strings.Fields(tc.deaf) {
			s.deaf[name] = true
		}
		s.until(10 * time.Second)
		s.sup.end(s.now, s.sup.grace)
		if got := s.until(time.Minute).did("start"); got != tc.want || !s.sup.idle() {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}

// A grace period can be made shorter while it runs, and no longer.
func TestEndSooner(t *testing.T) {
	s := newStage(t, pod(corev1.RestartPolicyAlways, "a"))
	s.deaf["a"] = true
	s.until(time.Second)
	s.sup.end(s.now, 30*time.Second)
	s.until(5 * time.Second)
	s.sup.end(s.now, time.Minute)
	s.until(10 * time.Second)
	s.sup.end(s.now, time.Second)
	if got := s.until(time.Minute).did(); got != "0s start a, 1s TERM a, 11s KILL a" {
		t.Error(got)
	}
}

func TestLivenessRestarts(t *testing.T) {
	p := pod(corev1.RestartPolicyAlways, "a")
	own := int64(2)
	p.Spec.Containers[0].LivenessProbe = &corev1.Probe{InitialDelaySeconds: 5, PeriodSeconds: 10, FailureThreshold: 2, TerminationGracePeriodSeconds: &own}
	s := newStage(t, p)
	s.deaf["a"] = true
	s.verdicts["a liveness"] = func(at time.Duration) outcome {
		if at > 10*time.Second && at < 30*time.Second {
			return failed
		}
		return passed
	}
	want := "0s start a, 5s liveness of a, 15s liveness of a, 25s liveness of a, 25s TERM a, 27s KILL a, 27.1s start a, 32.1s liveness of a"
	if got := s.until(40 * time.Second).did(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := s.brief(); got != "Running Initialized ContainersReady Ready; a running (1)" {
		t.Error(got)
	}
}

func TestReadiness(t *testing.T) {
	p := pod(corev1.RestartPolicyAlways, "a")
	p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, SuccessThreshold: 2, FailureThreshold: 3}
	s := newStage(t, p)
	s.verdicts["a readiness"] = func(at time.Duration) outcome {
		switch {
		case at >= 10*time.Second && at < 15*time.Second, at == 18*time.Second:
			return failed
		case at == 19*time.Second:
			return unknown
		}
		return passed
	}
	ready := ""
	for at := range 25 {
		if strings.Contains(s.until(time.Duration(at)*time.Second+500*time.Millisecond).brief(), " Ready;") {
			ready += fmt.Sprint(at, " ")
		}
	}
	if want := "1 2 3 4 5 6 7 8 9 10 11 16 17 18 19 20 21 22 23 24 "; ready != want {
		t.Errorf("ready at %s, want %s", ready, want)
	}
	if got := s.did("readiness"); got != "0s start a" {
		t.Errorf("did %s", got)
	}
}

// No other probe is asked before the startup probe has passed; when it fails for
// good the container ends.
func TestStartup(t *testing.T) {
	p := pod(corev1.RestartPolicyAlways, "a")
	c := &p.Spec.Containers[0]
	c.StartupProbe = &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 3}
	c.LivenessProbe, c.ReadinessProbe = &corev1.Probe{PeriodSeconds: 60}, &corev1.Probe{PeriodSeconds: 60}
	s := newStage(t, p)
	s.verdicts["a startup"] = func(at time.Duration) outcome {
		if at < 4*time.Second {
			return failed
		}
		return passed
	}
	s.verdicts["a readiness"] = func(time.Duration) outcome { return passed }
	s.verdicts["a liveness"] = s.verdicts["a readiness"]
	want := "0s start a, 0s startup of a, 0.1s startup of a, 0.3s startup of a, 0.7s startup of a, 1s startup of a, 2s startup of a, 2s TERM a, " +
		"2.1s start a, 2.1s startup of a, 2.2s startup of a, 2.4s startup of a, 2.8s startup of a, 3.1s startup of a, 4.1s startup of a, 4.1s readiness of a, 4.1s liveness of a"
	if got := s.until(10 * time.Second).did(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A program that is there a moment after its start is ready then, not a period
// later, and no earlier than after its initialDelaySeconds.
func TestReadySoon(t *testing.T) {
	p := pod(corev1.RestartPolicyAlways, "a")
	p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{InitialDelaySeconds: 2, PeriodSeconds: 10}
	s := newStage(t, p)
	s.verdicts["a readiness"] = func(at time.Duration) outcome {
		if at < 2500*time.Millisecond {
			return failed
		}
		return passed
	}
	if got := s.until(15 * time.Second).did("start"); got != "2s readiness of a, 2.1s readiness of a, 2.3s readiness of a, 2.7s readiness of a, 12s readiness of a" {
		t.Error(got)
	}
}

// Who takes long to be ready, or to be through, is not waited for any longer.
func TestLate(t *testing.T) {
	p, init := pod(corev1.RestartPolicyAlways, "a"), pod(corev1.RestartPolicyAlways, "i:one", "a")
	p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{InitialDelaySeconds: 60}
	for want, pod := range map[string]*corev1.Pod{
		"20s after its start its readiness probe had not passed":              p,
		"it runs for more than 20s, and the next container waits for its end": init,
	} {
		s := newStage(t, pod).until(19 * time.Second)
		if r := s.sup.units[0].tell(); r.GaveUp || r.Unready != "" {
			t.Errorf("after 19 s: %+v", r)
		}
		if r := s.until(21 * time.Second).sup.units[0].tell(); !r.GaveUp || r.Unready != want {
			t.Errorf("after 21 s: %+v, want %s", r, want)
		}
	}
}

// A probe that never answers has failed after its time, each time anew.
func TestProbeThatHangs(t *testing.T) {
	p := pod(corev1.RestartPolicyAlways, "a")
	p.Spec.Containers[0].LivenessProbe = &corev1.Probe{PeriodSeconds: 1, TimeoutSeconds: 3, FailureThreshold: 2}
	s := newStage(t, p).until(7 * time.Second)
	want := "0s start a, 0s liveness of a, 3s liveness of a, 6s TERM a, 6.1s start a, 6.1s liveness of a"
	if got := s.did(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestPostStart(t *testing.T) {
	p := pod(corev1.RestartPolicyAlways, "a", "b")
	p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt(80)}}}
	s := newStage(t, p)
	s.hooks = 5 * time.Second
	if got := s.until(time.Second).brief(); strings.Contains(got, "Ready") {
		t.Errorf("before its postStart hook is through: %s", got)
	}
	if got := s.until(10 * time.Second).did(); got != "0s start a, 0s hook of a, 5s start b" {
		t.Error(got)
	}
}

func TestActiveDeadline(t *testing.T) {
	p := pod(corev1.RestartPolicyAlways, "s:side", "a")
	p.Spec.ActiveDeadlineSeconds = new(int64(60))
	s := newStage(t, p).until(100 * time.Second)
	if got := s.did("start"); got != "60s TERM a, 60.1s TERM side" {
		t.Error(got)
	}
	if st := s.status(); st.Phase != corev1.PodFailed || st.Reason != "DeadlineExceeded" {
		t.Errorf("%s, %s", st.Phase, st.Reason)
	}
}

// What is told late, of a run or a question that is over, changes nothing.
func TestLateWords(t *testing.T) {
	p := pod(corev1.RestartPolicyAlways, "a")
	p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{PeriodSeconds: 100}
	s := newStage(t, p)
	s.runs["a"] = []play{{time.Second, 1}, {time.Hour, 0}}
	s.until(5 * time.Second)
	s.sup.answered(1, passed, "", s.now)
	s.sup.listens(s.sup.units[0], 1)
	if got := s.brief(); got != "Running Initialized; a running (1)" {
		t.Error(got)
	}
}

// A readiness gate that nobody opens keeps the Pod from being ready.
func TestReadinessGate(t *testing.T) {
	p := pod(corev1.RestartPolicyAlways, "a")
	p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.org/gate"}}
	s := newStage(t, p).until(time.Second)
	if got := s.brief(); got != "Running Initialized ContainersReady; a running" {
		t.Error(got)
	}
	p.Status.Conditions = []corev1.PodCondition{{Type: "example.org/gate", Status: corev1.ConditionTrue}}
	if got := s.brief(); got != "Running example.org/gate Initialized ContainersReady Ready; a running" {
		t.Error(got)
	}
}

// Whatever happens, the supervisor comes to rest, never runs a container before
// its turn, and ends all when it is told to.
func TestSupervisorAlwaysEnds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		names := []string{"i:one", "s:x", "i:two", "s:y", "a", "b"}
		p := pod(rapid.SampledFrom([]corev1.RestartPolicy{corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever}).Draw(rt, "policy"), names...)
		p.Spec.TerminationGracePeriodSeconds = new(int64(5))
		s := newStage(t, p)
		for _, name := range []string{"one", "x", "two", "y", "a", "b"} {
			s.deaf[name] = rapid.Bool().Draw(rt, "deaf")
			for range rapid.IntRange(0, 4).Draw(rt, "runs") {
				s.runs[name] = append(s.runs[name], play{time.Duration(rapid.IntRange(0, 100).Draw(rt, "lasts")) * time.Second, rapid.IntRange(0, 1).Draw(rt, "status")})
			}
		}
		for i := range p.Spec.Containers {
			p.Spec.Containers[i].LivenessProbe = &corev1.Probe{PeriodSeconds: 3}
		}
		s.sup = newSupervisor(p, Backoff{}, s.now)
		end := time.Duration(rapid.IntRange(0, 1000).Draw(rt, "end")) * time.Second
		s.until(end)
		if one := s.sup.units[0]; one.Phase != exited && s.sup.units[4].runs > 0 {
			rt.Errorf("a ran before one had ended")
		}
		s.sup.end(s.now, s.sup.grace)
		if s.until(end + 10*time.Second); !s.sup.idle() {
			rt.Errorf("running after the end: %s", s.brief())
		}
	})
}
