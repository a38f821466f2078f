package main

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/agent"
)

// systemd hears READY with the first pass that put everything in force, and again
// after a reload; what is wrong in between is in the status.
func TestSystemd(t *testing.T) {
	addr := &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"), Net: "unixgram"}
	conn, err := net.ListenUnixgram("unixgram", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	t.Setenv("NOTIFY_SOCKET", addr.Name)
	t.Setenv("WATCHDOG_USEC", "3000000")
	said := func() string {
		t.Helper()
		room := make([]byte, 4096)
		_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		n, err := conn.Read(room)
		if err != nil {
			return ""
		}
		return string(room[:n])
	}
	d := &daemon{log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	s := d.systemd()
	if s.every != time.Second {
		t.Errorf("watchdog every %s", s.every)
	}
	report := agent.Report{Services: 2, Frontends: 3, Pods: 4, Backend: "nftables"}
	s.Observe(report)
	if got := said(); got != "" {
		t.Errorf("before anything is in force: %q", got)
	}
	report.Settled = true
	s.Observe(report)
	if got := said(); !strings.HasPrefix(got, "READY=1\nSTATUS=2 Services, 3 frontends, 4 Pods on nftables") {
		t.Errorf("first pass: %q", got)
	}
	s.Observe(report)
	if got := said(); got != "" {
		t.Errorf("a pass without changes: %q", got)
	}
	failed := report
	failed.Err = errors.New("kernel\nrefused")
	s.Observe(failed)
	if got := said(); got != "STATUS=a pass failed, it is tried again: kernel?refused" {
		t.Errorf("a pass that failed: %q", got)
	}
	s.reloading()
	if got := said(); !strings.HasPrefix(got, "RELOADING=1\nMONOTONIC_USEC=") {
		t.Errorf("reload: %q", got)
	}
	report.Causes = []agent.Cause{agent.Reloaded}
	s.Observe(report)
	if got := said(); !strings.HasPrefix(got, "READY=1\n") {
		t.Errorf("after the reload: %q", got)
	}
	s.alive()
	s.stopping()
	if one, two := said(), said(); one != "WATCHDOG=1" || two != "STOPPING=1" {
		t.Errorf("%q, %q", one, two)
	}
}
