package figures

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/iptables"
	"github.com/toyproxy/toyproxy/dataplane/ipvs"
	"github.com/toyproxy/toyproxy/dataplane/nftables"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
	"github.com/toyproxy/toyproxy/test/lab"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }

// figure is one line that the benchmark prints, behind the word FIGURE.
type figure struct {
	// Subject is what was measured: "nftables", "kube-proxy's shape, iptables-legacy".
	Subject string `json:"subject"`
	// Services is how many there were, of ten endpoints.
	Services int `json:"services"`
	// Name is what the value is of, such as "load"; Unit its unit.
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// subject is what can be measured: one of our backends or a peer's shape.
type subject struct {
	name  string
	needs []lab.Feature
	// prepare makes what is to be loaded, for n Services: nobody's figures are to
	// hold what that costs.
	prepare func(b *testing.B, n int) loading
	// rounds is how many changes are measured.
	rounds int
	// backend is what makes passes that change nothing; nil for peers.
	backend dataplane.Backend
}

// loading programs Services from nothing and returns what changes one endpoint.
type loading func() (change func(round int), err error)

func subjects(b *testing.B) []subject {
	four := []dataplane.Family{dataplane.IPv4}
	return []subject{
		ours("iptables-legacy", iptables.New(iptables.Config{Engine: xtables.Legacy, Families: four}), 20, lab.IptablesLegacy),
		ours("iptables-nft", iptables.New(iptables.Config{Engine: xtables.NFT, Families: four}), 20, lab.IptablesNFT),
		ours("nftables", nftables.New(nftables.Config{Families: four}), 1000, lab.Nftables),
		ours("ipvs", ipvs.New(ipvs.Config{StateDir: b.TempDir()}), 100, lab.IPVS, lab.IPSet),
		peer("peer-iptables-legacy", []string{"iptables-legacy-restore"}, peerIPTables, peerIPTablesChange, lab.IptablesLegacy),
		peer("peer-iptables-nft", []string{"iptables-nft-restore"}, peerIPTables, peerIPTablesChange, lab.IptablesNFT),
		peer("peer-nftables", []string{"nft", "-f", "-"}, peerNFTables, func(_, i, round int) string { return peerNFTablesChange(i, round) }, lab.Nftables),
	}
}

// ours measures a backend of ours: the first pass as sync makes it, changes as
// the daemon does.
func ours(name string, backend dataplane.Backend, rounds int, needs ...lab.Feature) subject {
	return subject{name: name, needs: needs, rounds: rounds, backend: backend,
		prepare: func(b *testing.B, n int) loading {
			table, follower := services(n), dataplane.Follow(backend)
			if c, ok := follower.(io.Closer); ok {
				b.Cleanup(func() { _ = c.Close() })
			}
			return func() (func(int), error) {
				plan, err := follower.Plan(b.Context(), table)
				if err == nil {
					err = plan.Apply(b.Context())
				}
				return func(round int) { oneChange(b, follower, table, round) }, err
			}
		}}
}

// measureNothing measures what it costs to find that nothing has changed: by
// a whole pass, and by the fingerprint of the kernel.
func (s subject) measureNothing(b *testing.B, node *lab.Host, n int, say func(string, float64, string)) {
	const marks = 10
	table := services(n)
	node.Do(func() {
		cpu, start := cpuTime(), time.Now()
		plan, err := s.backend.Plan(b.Context(), table)
		if err == nil && len(plan.Changes()) > 0 {
			err = fmt.Errorf("%d changes after a load", len(plan.Changes()))
		}
		if err != nil {
			b.Errorf("a pass that changes nothing: %v", err)
			return
		}
		say("unchanged", time.Since(start).Seconds(), "s")
		say("unchanged cpu", (cpuTime() - cpu).Seconds(), "s")
		cpu = cpuTime()
		for range marks {
			if _, err := dataplane.Fingerprint(b.Context(), s.backend); err != nil {
				b.Errorf("fingerprint: %v", err)
			}
		}
		say("fingerprint cpu", (cpuTime()-cpu).Seconds()/marks, "s")
	})
}

// oneChange moves one endpoint of the Service in the middle.
func oneChange(b *testing.B, follower dataplane.Follower, table dataplane.Table, round int) {
	i := len(table.Sets) / 2
	delta := dataplane.Delta{Before: only(table, i)}
	table.Sets[i].Endpoints[0].Addr = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, 1, 1 + byte(round%200)}), 80)
	delta.After = only(table, i)
	plan, err := follower.PlanChange(b.Context(), delta)
	if err == nil {
		err = plan.Apply(b.Context())
	}
	if err != nil {
		b.Fatal(err)
	}
}

// peer measures a text that a tool loads. The first time nothing is there that
// the option --noflush would keep, with which iptables-nft-restore needs time that
// grows with the square of the chains.
func peer(name string, tool []string, text func(int) string, change func(n, i, round int) string, needs lab.Feature) subject {
	run := func(ctx context.Context, in string, options ...string) error {
		cmd := exec.CommandContext(ctx, tool[0], append(tool[1:len(tool):len(tool)], options...)...)
		cmd.Stdin = strings.NewReader(in)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", tool[0], err, bytes.TrimSpace(out[:min(len(out), 300)]))
		}
		return nil
	}
	return subject{name: name, needs: []lab.Feature{needs}, rounds: 5,
		prepare: func(b *testing.B, n int) loading {
			all := text(n)
			return func() (func(int), error) {
				err := run(b.Context(), all)
				if err == nil && tool[0] != "nft" {
					// The jump comes when all stands, as everybody does it.
					err = exec.Command(strings.TrimSuffix(tool[0], "-restore"), "-t", "nat", "-A", "PREROUTING", "-j", "KUBE-SERVICES").Run()
				}
				return func(round int) {
					var options []string
					if tool[0] != "nft" {
						options = []string{"--noflush"}
					}
					if err := run(b.Context(), change(n, n/2, round), options...); err != nil {
						b.Fatal(err)
					}
				}, err
			}
		}}
}

// BenchmarkFigures measures one subject at one size: name it by -bench
// 'Figures/nftables/1000$'. It prints lines FIGURE {json}.
func BenchmarkFigures(b *testing.B) {
	for _, s := range subjects(b) {
		b.Run(s.name, func(b *testing.B) {
			for _, n := range []int{1, 100, 1000, 5000, 10_000} {
				b.Run(strconv.Itoa(n), func(b *testing.B) { s.measure(b, n) })
			}
		})
	}
}

func (s subject) measure(b *testing.B, n int) {
	lab.Require(b, s.needs...)
	l := lab.New(b, lab.WithPods(1), lab.SecondNode())
	for e := range each {
		l.Remote.Serve(dataplane.TCP, uint16(8080+e))
	}
	say := func(name string, value float64, unit string) {
		line, err := json.Marshal(figure{s.name, n, name, value, unit})
		if err != nil {
			b.Fatal(err)
		}
		fmt.Printf("FIGURE %s\n", line)
	}
	load := s.prepare(b, n)
	runtime.GC()
	kernel, cpu, start := kernelMemory(), cpuTime(), time.Now()
	var change func(int)
	l.Node.Do(func() {
		var err error
		if change, err = load(); err != nil {
			b.Errorf("load: %v", err)
		}
	})
	if b.Failed() {
		return
	}
	say("load", time.Since(start).Seconds(), "s")
	say("load cpu", (cpuTime() - cpu).Seconds(), "s")
	say("kernel memory", kernelMemory()-kernel, "MB")
	own, children := peaks()
	say("peak memory", own, "MB")
	say("peak memory of children", children, "MB")
	if s.backend != nil {
		s.measureNothing(b, l.Node, n, say)
	}
	s.measureChanges(b, l.Node, change, say)
	measureConnects(b, l, n, say)
}

func (s subject) measureChanges(b *testing.B, node *lab.Host, change func(int), say func(string, float64, string)) {
	took := make([]time.Duration, 0, s.rounds)
	cpu := cpuTime()
	node.Do(func() {
		defer func() {
			if r := recover(); r != nil {
				b.Errorf("change: %v", r)
			}
		}()
		for round := range s.rounds {
			start := time.Now()
			change(round)
			took = append(took, time.Since(start))
		}
	})
	if b.Failed() || len(took) == 0 {
		return
	}
	slices.Sort(took)
	say("change p50", percentile(took, 50).Seconds(), "s")
	say("change p99", percentile(took, 99).Seconds(), "s")
	say("change cpu", (cpuTime()-cpu).Seconds()/float64(len(took)), "s")
}

// measureConnects compares the first Service and the last with the very endpoint,
// which the node tracks as well. Rounds take turns, so that what else the machine
// does meets all of them.
func measureConnects(b *testing.B, l *lab.Lab, n int, say func(string, float64, string)) {
	targets := []struct {
		name string
		to   netip.AddrPort
	}{
		{"direct", endpoint(0, 0, n)},
		{"first", netip.AddrPortFrom(vip(0), 80)},
		{"last", netip.AddrPortFrom(vip(n-1), 80)},
	}
	const rounds, perRound = 5, 400
	all := make([][]time.Duration, len(targets))
	for range rounds {
		for i, t := range targets {
			all[i] = append(all[i], connects(b, l.Pod(1), t.to, perRound)...)
		}
	}
	for i, t := range targets {
		slices.Sort(all[i])
		say("connect "+t.name+" p01", percentile(all[i], 1).Seconds(), "s")
		say("connect "+t.name+" p50", percentile(all[i], 50).Seconds(), "s")
	}
}

// cpuTime is what this process and its children that have ended have used.
func cpuTime() time.Duration {
	var total time.Duration
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		if err := unix.Getrusage(who, &u); err == nil {
			total += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return total
}

// peaks are the highest resident sizes of this process and of any child, in MB.
func peaks() (own, children float64) {
	var self, kids unix.Rusage
	if errors.Join(unix.Getrusage(unix.RUSAGE_SELF, &self), unix.Getrusage(unix.RUSAGE_CHILDREN, &kids)) != nil {
		return 0, 0
	}
	return float64(self.Maxrss) / 1024, float64(kids.Maxrss) / 1024
}

// kernelMemory is what the kernel holds for itself and cannot take back, in MB.
func kernelMemory() (mb float64) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) == 3 && slices.Contains([]string{"SUnreclaim:", "VmallocUsed:", "Percpu:"}, f[0]) {
			kb, _ := strconv.ParseFloat(f[1], 64)
			mb += kb / 1024
		}
	}
	return mb
}
