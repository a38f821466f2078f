package podnet

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// poll waits for a condition.
func poll(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within two minutes", what)
		}
	}
}

// stopAt is a context that ends after a number of steps: run asks it before each.
type stopAt struct {
	context.Context
	left *int
}

func (c stopAt) Err() error {
	if *c.left--; *c.left < 0 {
		return context.Canceled
	}
	return nil
}

// Fault 84: a kill at each step of the creation. The next pass completes the same
// network; or the next is `down`, and takes all of it away.
func TestKillAtEachStep(t *testing.T) {
	for _, next := range []string{"create", "create after the record was lost", "remove"} {
		for stop := range 14 {
			t.Run(fmt.Sprintf("%s after %d", next, stop), func(t *testing.T) {
				n := newNode(t)
				before := dumps(t, n)
				p, err := n.Create(t.Context(), requests("a"))
				if err != nil {
					t.Fatal(err)
				}
				if got := p.Apply(stopAt{t.Context(), &stop}); got == nil && stop < 0 {
					t.Fatal("did not stop")
				}
				if strings.HasSuffix(next, "lost") {
					os.Remove(n.statePath(recordFile))
					// That the directory's mount is ours is forgotten too.
					t.Cleanup(func() { removeAll(n); unshareDir(n.cfg.NetnsDir) })
				}
				if next != "remove" {
					if got := create(t, n, requests("a")...)[0]; next == "create" && got.Addrs[0] != p.Networks[0].Addrs[0] {
						t.Errorf("planned %v, got %v", p.Networks[0], got)
					}
					return
				}
				removeAll(n)
				if after := dumps(t, n); after != before {
					t.Errorf("before:\n%s\nafter:\n%s", before, after)
				}
			})
		}
	}
}

// What a kill within a step leaves, and what others take away.
func TestRepair(t *testing.T) {
	for _, tc := range []struct{ name, damage string }{
		{"empty file without mount", "umount -l NS; test -f NS"},
		{"file gone", "umount -l NS; rm NS"},
		{"mounts on mounts", "mount --bind NS NS; mount --bind NS NS"},
		{"host link deleted", "ip link del HOST"},
		{"host link off the bridge", "ip link set HOST nomaster"},
		{"hairpin off", "bridge link set dev HOST hairpin off"},
		{"host link without alias", "ip link set HOST alias ''"},
		{"host link down", "ip link set HOST down"},
		{"address gone", "nsenter --net=NS ip addr flush dev eth0"},
		{"default route gone", "nsenter --net=NS ip -6 route del default"},
		{"Pod link down", "nsenter --net=NS ip link set eth0 down"},
		{"loopback down", "nsenter --net=NS ip link set lo down"},
		{"bridge deleted", "ip link del toybr0"},
		{"bridge without alias", "ip link set toybr0 alias ''"},
		{"gateway gone", "ip addr del 10.244.0.1/24 dev toybr0"},
		{"Service route gone", "ip route del 10.96.0.0/12"},
		{"forwarding off", "echo 0 > /proc/sys/net/ipv4/ip_forward"},
		{"hosts file gone", "rm ETC/a/hosts"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := newNode(t)
			net := create(t, n, requests("a", "b")...)[0]
			sh(t, "%s", strings.NewReplacer("NS", n.Path("a"), "HOST", net.HostLink, "ETC", n.cfg.EtcNetnsDir).Replace(tc.damage))
			p, err := n.Create(t.Context(), requests("a", "b"))
			if err != nil || len(p.Changes()) == 0 && tc.name != "mounts on mounts" {
				t.Fatalf("the damage is not seen: %v", err)
			}
			if got := create(t, n, requests("a", "b")...)[0]; fmt.Sprint(got) != fmt.Sprint(net) {
				t.Errorf("was %v, is %v", net, got)
			}
			serve(t, n, "b", 80)
			for _, a := range create(t, n, requests("a", "b")...)[1].Addrs {
				if _, err := dialFrom(n, "a", netip.AddrPortFrom(a, 80)); err != nil {
					t.Errorf("after the repair: %v", err)
				}
			}
		})
	}
}

// Fault 83: no leftovers, with a process inside each time.
func TestCreateDelete200Times(t *testing.T) {
	n := newNode(t)
	create(t, n, requests("other")...)
	for range 200 {
		p, err := n.Create(t.Context(), requests("a"))
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Apply(t.Context()); err != nil {
			t.Fatal(err)
		}
		inside := exec.Command("nsenter", "--net="+n.Path("a"), "sleep", "60")
		if err := inside.Start(); err != nil {
			t.Fatal(err)
		}
		remove(t, n, "a")
		inside.Process.Kill()
		inside.Wait()
	}
	if got := listDir(n.cfg.NetnsDir); got != "other\n" {
		t.Errorf("left in %s: %q", n.cfg.NetnsDir, got)
	}
	if got := sh(t, "grep -c %s /proc/self/mountinfo", n.cfg.NetnsDir); got != "3\n" { // itself, and other in both views
		t.Logf("mounts: %s", got)
	}
	if got := sh(t, "ip -o link show type veth | wc -l"); got != "1\n" {
		t.Errorf("veth links left: %s", got)
	}
}

// Fault 81: the first name is somebody else's link.
func TestHostLinkCollision(t *testing.T) {
	n := newNode(t)
	sh(t, "ip link add %s type veth peer x", hostLink("a", 0))
	net := create(t, n, requests("a", "web-frontend-aaaa1", "web-frontend-aaaa2")...)[0]
	if net.HostLink != hostLink("a", 1) {
		t.Errorf("host link %s", net.HostLink)
	}
	removeAll(n)
	sh(t, "ip link show %s", hostLink("a", 0))
}

// Two passes planned at the same time cannot give one address to two Pods.
func TestStalePlanIsRefused(t *testing.T) {
	n := newNode(t)
	p1, err1 := n.Create(t.Context(), requests("a"))
	p2, err2 := n.Create(t.Context(), requests("b"))
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if err := p1.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p1.Apply(t.Context()); err != nil {
		t.Errorf("second Apply of one plan: %v", err)
	}
	if err := p2.Apply(t.Context()); err == nil || !strings.Contains(err.Error(), "plan again") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(n.Path("b")); err == nil {
		t.Error("the refused plan made a namespace")
	}
}
