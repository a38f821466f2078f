package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// BenchmarkPods starts 250 Pods on one node, all of one Deployment, and reports
// how long it takes until all are ready.
func BenchmarkPods(b *testing.B) {
	const pods = 250
	for b.Loop() {
		x := newBox(b)
		x.write("web.yaml", deploymentText("web", "10.96.0.10", pods, "v1"))
		start := time.Now()
		x.run("--min-sync-period 100ms")
		x.await("250 Pods", func() bool {
			out, err := x.try("toyproxy get deployment web --no-headers")
			return err == nil && strings.HasPrefix(strings.Join(strings.Fields(out), " "), fmt.Sprintf("web %d/%[1]d", pods))
		})
		b.ReportMetric(time.Since(start).Seconds(), "s")
		x.kill(syscall.SIGTERM)
	}
}

// BenchmarkIdle lets an agent with 1,000 Services of 10 endpoints each do nothing for
// a minute, and reports its part of one processor and its memory.
func BenchmarkIdle(b *testing.B) {
	const idle = time.Minute
	for _, backend := range []string{"nftables", "iptables", "ipvs"} {
		b.Run(backend, func(b *testing.B) {
			if ok, err := condition(backend); backend != "iptables" && (!ok || err != nil) {
				b.Skipf("SKIP(kernel): no %s", backend)
			}
			for b.Loop() {
				x := newBox(b)
				var text strings.Builder
				if err := largeManifest(&text, 1000, -1, -1); err != nil {
					b.Fatal(err)
				}
				x.write("large.yaml", text.String())
				x.run("--backend " + backend)
				x.await("the first pass", func() bool {
					_, err := x.try("curl -sf http://127.0.0.1:10256/healthz")
					return err == nil
				})
				pid := x.agentPID()
				time.Sleep(2 * time.Second) // what the first pass has left to do
				before := processorTime(b, pid)
				time.Sleep(idle)
				used := processorTime(b, pid) - before
				b.ReportMetric(100*used.Seconds()/idle.Seconds(), "%CPU")
				b.ReportMetric(float64(ownMemory(b, fmt.Sprintf("/proc/%d", pid)))/1024, "MB")
				x.kill(syscall.SIGTERM)
			}
		})
	}
}

// processorTime is what a process has used.
func processorTime(t testing.TB, pid int) time.Duration {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	var ticks int
	for _, f := range fields[11:13] { // utime and stime
		n, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	const perSecond = 100 // USER_HZ, on every architecture Go runs on
	return time.Duration(ticks) * time.Second / perSecond
}
