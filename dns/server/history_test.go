package server

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/dns"
)

// listed is a source of events that were given once.
type listed struct{ events []cluster.Event }

func (l *listed) Catch() ([]cluster.Event, error) {
	out := l.events
	l.events = nil
	return out, nil
}

func (l *listed) Wait(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

// readHistory returns the lines of a history, as "added Service default/web +1 -0".
func readHistory(t testing.TB, path string) []string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	var out []string
	for scan := bufio.NewScanner(f); scan.Scan(); {
		var e dns.Entry
		if err := json.Unmarshal(scan.Bytes(), &e); err != nil {
			t.Fatalf("line %q: %v", scan.Text(), err)
		}
		out = append(out, fmt.Sprintf("%s %s +%d -%d", e.Event, e.Object, len(e.Added), len(e.Removed)))
	}
	return out
}

// TestHistory: what changes is written down, by one of two servers, though nobody asks;
// when that one ends the other goes on. It begins with what was there, but for a server
// that goes on with a history.
func TestHistory(t *testing.T) {
	loopback(t)
	dir := t.TempDir()
	path := filepath.Join(dir, dns.HistoryFile)
	save(t, dir, service("old", "10.96.0.9"))
	keep := func(c *Config) { c.History = path }
	first := start(t, dir, keep)
	eventually(t, "ready", first.Ready)
	if got := readHistory(t, path); len(got) != 1 || !strings.HasPrefix(got[0], "added Service default/old") {
		t.Errorf("history begins with %q", got)
	}
	second := start(t, dir, keep)
	eventually(t, "ready", second.Ready)
	wrote := func(n int) []string {
		t.Helper()
		eventually(t, fmt.Sprintf("%d lines", n), func() bool { return len(readHistory(t, path)) >= n })
		return readHistory(t, path)
	}
	save(t, dir, service("web", "10.96.0.10"))
	wrote(2)
	save(t, dir, service("web", "10.96.0.11"))
	wrote(3)
	if err := services(dir).Delete(named("web")); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(wrote(4), "; ")
	for _, want := range []string{"added Service default/web", "modified Service default/web", "deleted Service default/web"} {
		if strings.Count(got, want) != 1 {
			t.Errorf("history %q: want %q once", got, want)
		}
	}
	if strings.Count(got, "old") != 1 {
		t.Errorf("history %q: what was there before once", got)
	}
	for i, l := range []*lab{first, second} {
		save(t, dir, service("next", fmt.Sprintf("10.96.1.%d", i+1)))
		wrote(5 + i)
		if err := l.stop(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestHistoryIsBounded: the older half goes when it grows too long; what stays is whole.
// A history that was removed, with its directory, begins anew.
func TestHistoryIsBounded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dns")
	h := openHistory(filepath.Join(dir, "history.jsonl"))
	entry := dns.Entry{Time: time.Unix(1, 0).UTC(), Event: "added", Object: "Service default/web", Added: []string{strings.Repeat("x", 10_000)}}
	for range 2 * historyBytes / 10_000 {
		if err := h.note([]dns.Entry{entry}); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(h.path)
	if err != nil || info.Size() > historyBytes || info.Size() < historyBytes/4 {
		t.Errorf("size %v, %v", info.Size(), err)
	}
	text, err := os.ReadFile(h.path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if !json.Valid([]byte(line)) || !strings.HasSuffix(line, "\n") {
			t.Fatalf("line %.40q", line)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := h.note([]dns.Entry{entry}); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(h.path); err != nil || strings.Count(string(text), "\n") != 1 {
		t.Errorf("after it was removed: %d bytes, %v", len(text), err)
	}
	if err := h.close(); err != nil {
		t.Error(err)
	}
}
