package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// soakVariable says how long TestSoak lasts, as a duration.
	soakVariable = "TOYPROXY_SOAK"
	soakShort    = 3 * time.Minute
	soakServices = 200
	// soakDeployments have five Pods each at first.
	soakDeployments = 20
	// soakEvery: five edits a second.
	soakEvery = 200 * time.Millisecond
	// soakLook is how often the agent's size is looked at.
	soakLook = 3 * time.Second
)

// TestSoak edits 200 Services and 100 Pods at random, five times a second, for three
// minutes, or as long as TOYPROXY_SOAK says: ten minutes in scripts/test --long.
// What the agent holds has to stay as it is, each of its threads in its namespace,
// and the kernel has to end as one that was programmed from nothing.
func TestSoak(t *testing.T) {
	requireRoot(t)
	if inGuest() {
		return // a guest is for IPVS, and slow
	}
	lasts, err := time.ParseDuration(cmp.Or(os.Getenv(soakVariable), soakShort.String()))
	if err != nil {
		t.Fatal(err)
	}
	t.Parallel()
	b := newBox(t)
	b.write("client.yaml", clientText("pod-a"))
	b.write("stable.yaml", deploymentText("stable", "10.96.0.10", 3, "v1"))
	s := &soak{box: b, dice: rand.New(rand.NewPCG(3, 4))}
	s.begin()
	b.run("--min-sync-period 100ms")
	b.awaitAnswer("pod-a", "10.96.0.10")
	s.untilSteady()
	tcp, udp := b.dial("pod-a", "tcp", "10.96.0.10:80"), b.dial("pod-a", "udp", "10.96.0.10:80")
	stop := b.stream("pod-a", "10.96.0.10:80", 50)
	s.work(lasts, tcp, udp)
	if res := stop(); res.Failed > 0 || res.Answered == 0 {
		t.Errorf("connections to a Service that did not change: %+v", res)
	}
	s.untilSteady()
	// The last rollouts may be under way, with as many Pods as there are to be.
	b.awaitNoLeak()
	s.judge()
	b.kill(syscall.SIGTERM)
	b.expectNoLeak()
}

// soak is a node whose objects change.
type soak struct {
	*box
	dice     *rand.Rand
	replicas [soakDeployments]int
	versions [soakDeployments]int
	present  [soakServices]bool
	edits    int
	sizes    []size
}

// size is what an agent holds at a moment.
type size struct {
	// kilobytes of memory that are its own, threads, descriptors but those of
	// Pods' processes, goroutines.
	kilobytes, threads, files, goroutines int
}

func (s *soak) begin() {
	for d := range s.replicas {
		s.replicas[d] = 5
		s.writeDeployment(d)
	}
	for n := range s.present {
		s.writeService(n)
	}
}

func (s *soak) writeDeployment(d int) {
	name := fmt.Sprintf("app-%d", d)
	s.write(name+".yaml", deploymentText(name, "", s.replicas[d], fmt.Sprintf("v%d", s.versions[d])))
}

func (s *soak) writeService(n int) {
	s.present[n] = true
	name := fmt.Sprintf("svc-%d", n)
	s.write(name+".yaml", serviceText(name, fmt.Sprintf("10.96.1.%d", n+1), fmt.Sprintf("app-%d", s.dice.IntN(soakDeployments)), 80+s.dice.IntN(3)))
}

// work edits and looks until the time is over. Flows have to go on: one of UDP that
// is silent for long is a new one.
func (s *soak) work(lasts time.Duration, flows ...*flow) {
	s.t.Helper()
	end, look := time.Now().Add(lasts), time.Now()
	edit := time.NewTicker(soakEvery)
	defer edit.Stop()
	for now := range edit.C {
		if now.After(end) {
			return
		}
		s.edit()
		if now.After(look) {
			s.sizes = append(s.sizes, s.look())
			for _, f := range flows {
				f.check(s.t, fmt.Sprintf("after %d edits", s.edits))
			}
			look = now.Add(soakLook)
		}
	}
}

// edit makes one change.
func (s *soak) edit() {
	s.edits++
	switch d, n := s.dice.IntN(soakDeployments), s.dice.IntN(soakServices); s.dice.IntN(10) {
	case 0:
		s.replicas[d] = 4 + s.dice.IntN(3)
		s.writeDeployment(d)
	case 1:
		s.versions[d]++
		s.writeDeployment(d)
	case 2:
		s.present[n] = false
		s.remove(fmt.Sprintf("svc-%d.yaml", n))
	default:
		s.writeService(n)
	}
}

// untilSteady waits until there are the Pods and Services that are wanted.
func (s *soak) untilSteady() {
	s.t.Helper()
	pods, services := 1+3, 1
	for _, n := range s.replicas {
		pods += n
	}
	for _, p := range s.present {
		if p {
			services++
		}
	}
	s.await(fmt.Sprintf("%d Pods and %d Services", pods, services), func() bool {
		out := s.sh("toyproxy get pods --no-headers")
		return strings.Count(out, "\n") == pods && strings.Count(out, " 1/1 ") == pods &&
			strings.Count(s.sh("toyproxy get services --no-headers"), "\n") == services
	})
}

// look measures the agent, and where its threads are.
func (s *soak) look() size {
	s.t.Helper()
	proc := fmt.Sprintf("/proc/%d", s.agentPID())
	threads, err := os.ReadDir(proc + "/task")
	if err != nil {
		s.t.Fatal(err)
	}
	home, err := os.Readlink(proc + "/ns/net")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, th := range threads {
		if at, err := os.Readlink(filepath.Join(proc, "task", th.Name(), "ns/net")); err == nil && at != home {
			s.astray(proc, th.Name(), home)
		}
	}
	files, err := os.ReadDir(proc + "/fd")
	if err != nil {
		s.t.Fatal(err)
	}
	files = slices.DeleteFunc(files, func(f os.DirEntry) bool {
		to, err := os.Readlink(filepath.Join(proc, "fd", f.Name()))
		return err != nil || to == "anon_inode:[pidfd]" // one a Pod, and their number changes
	})
	out := s.sh("curl -s http://127.0.0.1:10249/metrics")
	return size{kilobytes: ownMemory(s.t, proc), threads: len(threads), files: len(files), goroutines: gauge(s.t, out, "go_goroutines")}
}

// astray: a thread may be in a Pod's namespace while it makes that Pod, and has to
// be back soon, or gone.
func (s *soak) astray(proc, thread, home string) {
	s.t.Helper()
	s.await("thread "+thread+" to be back in the node's namespace", func() bool {
		at, err := os.Readlink(filepath.Join(proc, "task", thread, "ns/net"))
		return err != nil || at == home
	})
}

// ownMemory is the memory of a process that no file backs, in kilobytes.
func ownMemory(t testing.TB, proc string) int {
	t.Helper()
	status, err := os.ReadFile(proc + "/status")
	if err != nil {
		t.Fatal(err)
	}
	for l := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(l, "RssAnon:"); ok {
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("no RssAnon")
	return 0
}

// gauge reads a metric without labels.
func gauge(t testing.TB, metrics, name string) int {
	t.Helper()
	for l := range strings.Lines(metrics) {
		if rest, ok := strings.CutPrefix(l, name+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			if err != nil {
				t.Fatal(err)
			}
			return int(n)
		}
	}
	t.Fatalf("no metric %s in:\n%s", name, metrics)
	return 0
}

// judge compares the second quarter of the time with the last.
func (s *soak) judge() {
	s.t.Helper()
	quarter := len(s.sizes) / 4
	if quarter == 0 {
		s.t.Fatalf("%d looks are too few", len(s.sizes))
	}
	// What leaks does so with each of hundreds of edits. A few more threads or pipes
	// are those of a pass under way, of which a slow machine sees more.
	const few = 16
	early, late := middle(s.sizes[quarter:2*quarter]), middle(s.sizes[len(s.sizes)-quarter:])
	s.t.Logf("%d edits; memory %d kB → %d kB, threads %d → %d, descriptors %d → %d, goroutines %d → %d", s.edits,
		early.kilobytes, late.kilobytes, early.threads, late.threads, early.files, late.files, early.goroutines, late.goroutines)
	for what, grown := range map[string]bool{
		"memory":      late.kilobytes > early.kilobytes*3/2+8<<10,
		"threads":     late.threads > early.threads+few,
		"descriptors": late.files > early.files+few,
		"goroutines":  late.goroutines > early.goroutines+few,
	} {
		if grown {
			s.t.Errorf("%s grew: %+v, then %+v", what, early, late)
		}
	}
}

// middle is the median of each measure.
func middle(sizes []size) size {
	of := func(f func(size) int) int {
		var all []int
		for _, z := range sizes {
			all = append(all, f(z))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	return size{of(func(z size) int { return z.kilobytes }), of(func(z size) int { return z.threads }),
		of(func(z size) int { return z.files }), of(func(z size) int { return z.goroutines })}
}
