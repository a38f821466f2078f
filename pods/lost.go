package pods

import (
	"bufio"
	"os"
	"strings"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/cluster/state"
)

// tellLost makes an event of a Pod whose pause process has ended though nobody
// had deleted the Pod: its log goes with it.
func (r *Runtime) tellLost(s Seen) error {
	if s.Pod == nil || s.Ending() || !s.live.reported || s.live.held {
		return nil
	}
	why := "somebody has killed it"
	if last := lastWords(LogPath(r.cfg.StateDir, s.Name.Namespace, s.Name.Name, "pause")); last != "" {
		why = "it said: " + last
	}
	return state.OpenEvents(r.cfg.StateDir).Note(state.Happening{
		Object: cluster.MakeRef(cluster.Pod, s.Name.Namespace, s.Name.Name), UID: s.Pod.UID, APIVersion: "v1",
		Warning: true, Reason: reasonPauseGone, Component: "toyproxy",
		Message: "the process that held the Pod has ended, and its containers with it: " + why,
	}, r.cfg.Now())
}

// lastWords returns what a pause process says that ends by itself: its error, or
// the first line of a panic. Empty: it was ended.
func lastWords(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	last := ""
	for lines := bufio.NewScanner(f); lines.Scan(); {
		for _, begin := range []string{"panic: ", "fatal error: ", "Error: "} {
			if strings.HasPrefix(lines.Text(), begin) {
				last = lastOf(lines.Bytes())
			}
		}
	}
	return last
}
