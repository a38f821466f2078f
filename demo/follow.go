package demo

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// patience is how long a lesson waits for what is to come by itself: much longer
// than it takes, as the machine may have other work.
const patience = 4 * time.Minute

// killPause is the command line that loses a Pod: its pause process is killed. Not by
// the numbers that pgrep finds, as one of them may be a child that is gone by then.
func killPause(pod string) string { return "pkill -9 -f 'paus[e] default/" + pod + " '" }

// play makes the manifest directory, plays acts in their order, and removes what
// they made.
func (s *stage) play(ctx context.Context, acts ...func(context.Context, *stage) error) error {
	if err := os.MkdirAll(filepath.Join(s.Dir, "manifests"), 0o755); err != nil {
		return fmt.Errorf("manifest directory: %w", err)
	}
	for _, act := range acts {
		if err := act(ctx, s); err != nil {
			return err
		}
	}
	s.say("%d things were asserted on %s and all held.", s.asserted, s.Backend)
	_, err := s.run(ctx, "toyproxy down")
	return err
}

// follow starts `toyproxy run` beside the lesson and returns what ends it.
func (s *stage) follow(ctx context.Context, flags string) (stop func() error, err error) {
	return s.beside(ctx, strings.TrimSpace("toyproxy run --backend "+s.Backend+" "+flags), "run.log")
}

// beside starts a command whose output goes to a file of the scenario's directory.
// The returned function asks it to end, and waits until it has.
func (s *stage) beside(ctx context.Context, line, file string) (stop func() error, err error) {
	fmt.Fprintf(s.Out, "$ %s > %s 2>&1 &\n", line, file)
	out, err := os.Create(filepath.Join(s.Dir, file))
	if err != nil {
		return nil, fmt.Errorf("output of %s: %w", line, err)
	}
	defer out.Close() // the command has its own
	words := strings.Fields(line)
	if words[0] == "toyproxy" {
		words[0] = s.Self
	}
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.Dir, out, out
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", line, err)
	}
	return func() error {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			told, _ := os.ReadFile(out.Name())
			return fmt.Errorf("%s: %w: %s", line, err, told)
		}
		return nil
	}, nil
}

// until runs a command line again and again until its answer satisfies, then
// prints line and answer.
func (s *stage) until(ctx context.Context, line, what string, good func(answer string) bool) (string, error) {
	out, err := s.silently(ctx, line, good)
	if err != nil {
		return out, fmt.Errorf("the lesson does not hold: expected %s: %w", what, err)
	}
	fmt.Fprintf(s.Out, "$ %s\n", line)
	for l := range strings.Lines(out) {
		fmt.Fprintf(s.Out, "  %s", l)
	}
	return out, s.expect(true, "%s", what)
}

// silently runs a command line until its answer satisfies.
func (s *stage) silently(ctx context.Context, line string, good func(answer string) bool) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		out, err := s.quiet(ctx, line)
		if err == nil && good(out) {
			return out, nil
		}
		select {
		case <-ctx.Done():
			return out, fmt.Errorf("%s: not within %s, the last answer: %s", line, patience, out)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// pod is what `get pods -o wide` says of one.
type pod struct{ name, ready, status, restarts, addr string }

func (p pod) up() bool { return p.status == "Running" && p.ready == "1/1" }

// parsePods reads the table without its head.
func parsePods(table string) []pod {
	var out []pod
	for l := range strings.Lines(table) {
		// From the right: RESTARTS may be "1 (3s ago)".
		if f := strings.Fields(l); len(f) >= 8 {
			out = append(out, pod{f[0], f[1], f[2], f[3], f[len(f)-3]})
		}
	}
	return out
}

const podsOf = "toyproxy get pods -o wide --no-headers -l app="

// pods asks which Pods there are with a label app.
func (s *stage) pods(ctx context.Context, app string) ([]pod, error) {
	out, err := s.quiet(ctx, podsOf+app)
	return parsePods(out), err
}

// untilPods waits until there are so many Pods of an app, all of them ready.
func (s *stage) untilPods(ctx context.Context, app string, n int) ([]pod, error) {
	out, err := s.until(ctx, podsOf+app, fmt.Sprintf("%d of %d Pods of %s are ready", n, n, app), func(answer string) bool {
		return allUp(parsePods(answer), n)
	})
	return parsePods(out), err
}

func allUp(pods []pod, n int) bool {
	for _, p := range pods {
		if !p.up() {
			return false
		}
	}
	return len(pods) == n
}

// names are those of Pods, as a set.
func names(pods []pod) map[string]bool {
	out := map[string]bool{}
	for _, p := range pods {
		out[p.name] = true
	}
	return out
}

// fresh are the names of Pods that are not among those of before.
func fresh(before, after []pod) []string {
	old := names(before)
	var out []string
	for _, p := range after {
		if !old[p.name] {
			out = append(out, p.name)
		}
	}
	return out
}

// deployment is a Deployment of stand-ins that listen on 8080. It selects by all
// its labels: two Deployments must not select the same Pods.
type deployment struct {
	name, labels string
	replicas     int
	// version is the tag of the image; strategy an extra line of the spec, or empty.
	version, strategy string
}

func (d deployment) manifest() string {
	strategy := ""
	if d.strategy != "" {
		strategy = "\n  strategy: " + d.strategy
	}
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: %s}
spec:
  replicas: %d%s
  selector: {matchLabels: {%s}}
  template:
    metadata: {labels: {%s}}
    spec:
      containers:
        - name: main
          image: example.com/%s:%s
          ports: [{name: http, containerPort: 8080}]
`, d.name, d.replicas, strategy, d.labels, d.labels, d.name, cmp.Or(d.version, "v1"))
}
