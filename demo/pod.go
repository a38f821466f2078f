package demo

import (
	"context"
	"errors"
	"strings"
)

const pairManifest = `apiVersion: v1
kind: Pod
metadata: {name: pair, labels: {app: pair}}
spec:
  containers:
    - name: web
      image: example.com/web
      ports: [{containerPort: 8080}]
    - name: client
      image: example.com/client
      command: [sleep, infinity]
`

const clashManifest = `apiVersion: v1
kind: Pod
metadata: {name: clash}
spec:
  restartPolicy: Never
  containers:
    - name: first
      image: example.com/web
      ports: [{containerPort: 8080}]
    - name: second
      image: example.com/web
      ports: [{containerPort: 8080}]
`

// playPod is row L1: a Pod is a group of containers in one network namespace.
func playPod(ctx context.Context, s *stage) error {
	return s.play(ctx, oneNamespace, oneNetwork, onePortSpace, pauseLost)
}

// oneNamespace shows who holds the namespace and who joined it.
func oneNamespace(ctx context.Context, s *stage) error {
	s.say("Pod pair has two containers: a web server, and a client that only sleeps.")
	if err := errors.Join(s.write("pair.yaml", pairManifest), s.sync(ctx)); err != nil {
		return err
	}
	s.say("A pause process made the Pod's network namespace and holds it; the containers are processes that joined.")
	out, err := s.run(ctx, `for p in $(ip netns pids pair); do echo "$(readlink /proc/$p/ns/net) $(cat /proc/$p/comm)"; done`)
	if err != nil {
		return err
	}
	namespaces, processes := map[string]bool{}, 0
	for l := range strings.Lines(out) {
		namespace, _, _ := strings.Cut(l, " ")
		namespaces[namespace] = true
		processes++
	}
	if err := s.expect(len(namespaces) == 1 && processes >= 3, "the pause process and both containers are in one network namespace"); err != nil {
		return err
	}
	return s.expect(strings.Contains(out, "toyproxy-pause"), "one of them is the pause process")
}

// oneNetwork shows the one address, and localhost.
func oneNetwork(ctx context.Context, s *stage) error {
	s.say("So they have one address, whichever of them is asked, and so has whoever joins the namespace by hand.")
	client, err := s.run(ctx, "toyproxy exec pair -c client -- ip -brief -4 address show dev eth0")
	if err != nil {
		return err
	}
	joined, err := s.run(ctx, "ip netns exec pair ip -brief -4 address show dev eth0")
	if err != nil {
		return err
	}
	if err := s.expect(client == joined && client != "", "both see the same link and address"); err != nil {
		return err
	}
	s.say("And the client reaches the server on localhost, without a hop.")
	out, err := s.run(ctx, "toyproxy exec pair -c client -- curl -s http://localhost:8080/hostname")
	if err != nil {
		return err
	}
	return s.expect(strings.TrimSpace(out) == "pair", "localhost:8080 of one container is the other")
}

// onePortSpace shows that two containers cannot have the same port.
func onePortSpace(ctx context.Context, s *stage) error {
	s.say("One namespace has one port space: two containers that want port 8080 cannot both have it.")
	if err := s.write("clash.yaml", clashManifest); err != nil {
		return err
	}
	if _, err := s.run(ctx, "toyproxy sync --backend "+s.Backend+" 2>&1 || true"); err != nil {
		return err
	}
	refused := func(log string) bool { return strings.Contains(log, "address already in use") }
	const logs = "toyproxy logs clash --all-containers"
	if _, err := s.silently(ctx, logs, refused); err != nil {
		return err
	}
	if _, err := s.run(ctx, logs); err != nil {
		return err
	}
	first, err := s.quiet(ctx, "toyproxy logs clash -c first")
	if err != nil {
		return err
	}
	second, err := s.quiet(ctx, "toyproxy logs clash -c second")
	if err != nil {
		return err
	}
	if err := s.expect(refused(first) != refused(second), "one of them has the port, the other finds the address in use"); err != nil {
		return err
	}
	return s.remove("clash.yaml")
}

// pauseLost shows that the Pod is as long as its pause process.
func pauseLost(ctx context.Context, s *stage) error {
	s.say("The pause process is the Pod: when it is lost, the Pod is, with all its containers.")
	if _, err := s.run(ctx, killPause("pair")); err != nil {
		return err
	}
	_, err := s.until(ctx, "toyproxy get pods pair --no-headers", "the Pod has failed", func(answer string) bool {
		return strings.Contains(answer, "Failed") || strings.Contains(answer, "Error") || strings.Contains(answer, "PauseProcessGone")
	})
	return err
}
