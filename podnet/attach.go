package podnet

import (
	"context"
	"fmt"

	"github.com/toyproxy/toyproxy/dataplane"
)

// Attach plans to give the network namespace of a living process the name of a
// network again, which somebody has taken away, as `ip netns attach` does. It is
// for a process that is known to hold that network: nothing of that is checked
// here. Nil when the name is there.
func (n *Node) Attach(name, holds string, pid int) (dataplane.Plan, error) {
	kind, size, err := readFile(n.Path(name))
	if err != nil || kind == namespace || size > 0 {
		return nil, err // with content it is somebody's file, and Create says so
	}
	return &attachment{path: n.Path(name), pid: pid, change: dataplane.Change{
		Op: dataplane.Update, Object: "network namespace " + name, For: holds,
		Reason: "its name was taken away, and its processes live in it still",
		Lines:  []string{fmt.Sprintf("+ ip netns attach %s %d", name, pid)},
	}}, nil
}

// attachment is a name to be given again.
type attachment struct {
	path   string
	pid    int
	change dataplane.Change
}

// Changes is the one change.
func (a *attachment) Changes() []dataplane.Change { return []dataplane.Change{a.change} }

// Apply gives the name.
func (a *attachment) Apply(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := removeNamespace(a.path); err != nil { // an empty file that was left
		return err
	}
	return Do(fmt.Sprintf("/proc/%d/ns/net", a.pid), func() error { return mountNamespace(a.path) })
}
