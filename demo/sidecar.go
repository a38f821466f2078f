package demo

import (
	"context"
	"errors"
	"strings"
)

const sidecarManifest = `apiVersion: v1
kind: Pod
metadata: {name: app}
spec:
  volumes: [{name: log, emptyDir: {}}]
  containers:
    - name: main
      image: example.com/app
      command: [sh, -c, 'n=0; while sleep 0.1; do n=$((n+1)); echo "request $n" >> /var/log/app/app.log; done']
      volumeMounts: [{name: log, mountPath: /var/log/app}]
    - name: shipper
      image: example.com/shipper
      command: [sh, -c, 'tail -q -n +1 -F /logs/app.log | sed -u "s/^/shipped: /"']
      volumeMounts: [{name: log, mountPath: /logs, readOnly: true}]
    - name: bystander
      image: example.com/other
      command: [sleep, infinity]
`

// playSidecar is row L2: sharing is explicit.
func playSidecar(ctx context.Context, s *stage) error {
	return s.play(ctx, shared, notShared)
}

// shared shows two containers with one directory.
func shared(ctx context.Context, s *stage) error {
	s.say("The main container writes a log to a volume of the Pod; the sidecar, built by other people, reads it there and ships it.")
	if err := errors.Join(s.write("app.yaml", sidecarManifest), s.sync(ctx)); err != nil {
		return err
	}
	if _, err := s.until(ctx, "toyproxy logs app -c shipper --tail 3", "the sidecar has read what the main container wrote", func(answer string) bool {
		return strings.Contains(answer, "shipped: request ")
	}); err != nil {
		return err
	}
	s.say("One directory, at two paths. The sidecar asked for it read-only, and so it is.")
	out, err := s.run(ctx, "toyproxy exec app -c shipper -- sh -c 'echo no > /logs/app.log' 2>&1 || true")
	if err != nil {
		return err
	}
	return s.expect(strings.Contains(strings.ToLower(out), "read-only"), "the sidecar cannot write there")
}

// notShared shows who does not see it.
func notShared(ctx context.Context, s *stage) error {
	s.say("The third container has no volumeMounts. It is in the same Pod, and does not see the volume: sharing is never automatic.")
	out, err := s.run(ctx, "toyproxy exec app -c bystander -- sh -c 'cat /var/log/app/app.log /logs/app.log' 2>&1 || true")
	if err != nil {
		return err
	}
	if err := s.expect(!strings.Contains(out, "request") && strings.Contains(out, "No such file"), "the container without the mount finds nothing"); err != nil {
		return err
	}
	s.say("Nor does the host.")
	_, err = s.run(ctx, "test ! -e /var/log/app && test ! -e /logs")
	if err != nil {
		return err
	}
	return s.expect(true, "the host has neither of the two paths")
}
