package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// crashes is how often the agent is killed.
const crashes = 200

// TestCrash kills the agent at random moments while objects change: while it
// makes Pods, writes rules, rolls out. Whatever the moment, the next one goes on:
// Pods that nobody changed live on, connections to their Service neither fail nor
// move, and in the end nothing is left over.
func TestCrash(t *testing.T) {
	requireRoot(t)
	if inGuest() {
		return // a guest is for IPVS, and slow
	}
	t.Parallel()
	b := newBox(t)
	before := b.sh(dumps)
	b.write("client.yaml", clientText("pod-a"))
	b.write("stable.yaml", deploymentText("stable", "10.96.0.10", 3, "v1"))
	const flags = "--min-sync-period 20ms"
	b.run(flags)
	b.awaitAnswer("pod-a", "10.96.0.10")
	b.await("three Pods", func() bool { return strings.Count(b.sh("toyproxy get pods -l app=stable --no-headers"), "1/1") == 3 })
	pods := b.sh("toyproxy get pods -l app=stable -o name")
	tcp, udp := b.dial("pod-a", "tcp", "10.96.0.10:80"), b.dial("pod-a", "udp", "10.96.0.10:80")
	stop := b.stream("pod-a", "10.96.0.10:80", 50)
	c := &churn{box: b, dice: rand.New(rand.NewPCG(1, 2))}
	for i := range crashes {
		c.edit()
		time.Sleep(time.Duration(c.dice.IntN(300)) * time.Millisecond)
		b.kill(syscall.SIGKILL)
		if i%20 == 0 {
			tcp.check(t, fmt.Sprintf("after kill %d", i+1))
			udp.check(t, fmt.Sprintf("after kill %d", i+1))
		}
		b.run(flags)
	}
	c.settle()
	tcp.check(t, "in the end")
	udp.check(t, "in the end")
	res := stop()
	if res.Failed > 0 || res.Answered == 0 {
		t.Errorf("connections to a Service that did not change: %+v", res)
	}
	if now := b.sh("toyproxy get pods -l app=stable -o name"); now != pods {
		t.Errorf("Pods that nobody touched:\n%swere\n%s", now, pods)
	}
	t.Logf("%d kills, %d connections meanwhile, %d failed", crashes, res.Sent, res.Failed)
	b.awaitNoLeak()
	b.kill(syscall.SIGTERM)
	b.expectNoLeak()
	b.sh("toyproxy down")
	if diff := cmp.Diff(strings.Split(before, "\n"), strings.Split(b.sh(dumps), "\n")); diff != "" {
		t.Errorf("down leaves what was not there before (+), or not what was (-):\n%s", diff)
	}
}

// churn edits Deployments and Services at random.
type churn struct {
	*box
	dice *rand.Rand
	// replicas and versions of the Deployments, by their number.
	replicas, versions [3]int
	services           [4]bool
}

// edit makes one change.
func (c *churn) edit() {
	n := c.dice.IntN(len(c.replicas))
	switch c.dice.IntN(4) {
	case 0, 1:
		c.replicas[n] = c.dice.IntN(5)
	case 2:
		c.versions[n]++
	default:
		s := c.dice.IntN(len(c.services))
		c.services[s] = !c.services[s]
		name := fmt.Sprintf("svc-%d.yaml", s)
		if !c.services[s] {
			c.remove(name)
			return
		}
		c.write(name, serviceText(fmt.Sprintf("svc-%d", s), fmt.Sprintf("10.96.1.%d", s+1), fmt.Sprintf("churn-%d", n), 80))
		return
	}
	name := fmt.Sprintf("churn-%d", n)
	c.write(name+".yaml", deploymentText(name, "", c.replicas[n], fmt.Sprintf("v%d", c.versions[n])))
}

// settle makes the objects final and waits until the node is as they say.
func (c *churn) settle() {
	c.t.Helper()
	for n := range c.replicas {
		name := fmt.Sprintf("churn-%d", n)
		c.write(name+".yaml", deploymentText(name, "", n+1, "last"))
	}
	c.await("the last Pods", func() bool {
		for n := range c.replicas {
			out, err := c.try(fmt.Sprintf("toyproxy get deployment churn-%d --no-headers", n))
			want := fmt.Sprintf("%d/%[1]d", n+1)
			if f := strings.Fields(out); err != nil || len(f) < 4 || f[1] != want || f[2] != fmt.Sprint(n+1) {
				return false
			}
		}
		return strings.Count(c.sh("toyproxy get pods --no-headers"), "\n") == 1+3+1+2+3
	})
}

// awaitNoLeak waits until the agent has done all that there is to do: Pods are
// counted before the last of what they had is gone.
func (b *box) awaitNoLeak() {
	b.t.Helper()
	b.await("the node to be as the manifests say", func() bool {
		_, err := b.try("toyproxy verify -f manifests")
		return err == nil && len(b.leaks()) == 0
	})
}

// expectNoLeak compares what there is with the Pods there are, and the kernel
// with what a pass from scratch would make it.
func (b *box) expectNoLeak() {
	b.t.Helper()
	for _, leak := range b.leaks() {
		b.t.Error(leak)
	}
	if out, err := b.try("toyproxy verify -f manifests"); err != nil {
		b.t.Errorf("verify: %v\n%s", err, out)
	}
	if out, err := b.try("toyproxy sync -f manifests"); err != nil || !strings.Contains(out, "nothing changed") {
		b.t.Errorf("a sync afterwards: %v\n%s", err, out)
	}
}

// leaks are what there is of Pods that there are not.
func (b *box) leaks() (found []string) {
	b.t.Helper()
	lines := func(text string) []string {
		out := strings.Fields(text)
		slices.Sort(out)
		return out
	}
	pods := lines(b.sh("toyproxy get pods --no-headers | cut -d' ' -f1"))
	for what, line := range map[string]string{
		"namespaces":      "ls /run/netns",
		"pause processes": `ps -e -o args= | sed -n 's|^toyproxy pause default/\([^ ]*\) .*|\1|p'`,
		"resolv.conf":     "ls /run/etc/upper/netns", // what was written to /etc/netns
		"state files":     `ls /run/toyproxy/pods | sed 's/^default_//; s/\.json$//'`,
		"reports":         `ls /run/toyproxy/pause | sed 's/^default_//; s/\.json$//'`,
	} {
		if got := lines(b.sh(line)); len(got) > 0 && !slices.Equal(got, pods) {
			found = append(found, fmt.Sprintf("%s: %q, want those of the Pods: %q", what, got, pods))
		}
	}
	var leased struct{ Networks map[string]any }
	if err := json.Unmarshal([]byte(b.sh("cat /run/toyproxy/podnet.json")), &leased); err != nil {
		b.t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(leased.Networks)); !slices.Equal(got, pods) {
		found = append(found, fmt.Sprintf("leases: %q, want those of the Pods: %q", got, pods))
	}
	links := strings.Count(b.sh("ip -o link show master toybr0"), "\n")
	if links != len(pods) {
		found = append(found, fmt.Sprintf("%d links of Pods, want %d:\n%s", links, len(pods), b.sh("ip -o link")))
	}
	return found
}
