package pods

import (
	"os"

	corev1 "k8s.io/api/core/v1"
)

// launch starts a container in the Pod's world, and returns the number of its
// process. It may be called again when that has ended.
func (p *pause) launch(c *corev1.Container, out, ready *os.File) (int, error) {
	return p.world.launch(c, out, ready)
}

// enter starts a command inside a container that runs.
func (p *pause) enter(u *unit, args []string, out *os.File) (int, error) {
	return p.world.enter(u.spec, u.Pid, args, nil, out)
}
