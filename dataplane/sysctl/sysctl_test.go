package sysctl_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netns"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/sysctl"
)

const (
	forward = "net.ipv4.ip_forward"
	ports   = "net.ipv4.ip_local_port_range"
)

// inNewNamespace puts the test's thread into a fresh network namespace. The
// thread is never unlocked, so it ends with the test.
func inNewNamespace(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("VMRUN_GUEST") != "" {
			t.Fatal("the guest must run tests as root")
		}
		t.Skip("SKIP(kernel): root, to make a network namespace")
	}
	runtime.LockOSThread()
	h, err := netns.New()
	if err != nil {
		t.Fatalf("new network namespace: %v", err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	set(t, forward, "0")
}

func file(key string) string { return "/proc/sys/" + strings.ReplaceAll(key, ".", "/") }

func set(t *testing.T, key, value string) {
	t.Helper()
	if err := os.WriteFile(file(key), []byte(value), 0); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, key string) string {
	t.Helper()
	b, err := os.ReadFile(file(key))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(b)), " ")
}

func plan(t *testing.T, journal string, settings ...sysctl.Setting) dataplane.Plan {
	t.Helper()
	p, err := sysctl.Plan(settings, journal)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func restore(t *testing.T, journal string) dataplane.Plan {
	t.Helper()
	p, err := sysctl.Restore(journal)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func apply(t *testing.T, p dataplane.Plan) {
	t.Helper()
	if err := p.Apply(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func lines(p dataplane.Plan) string {
	var b strings.Builder
	for _, c := range p.Changes() {
		b.WriteString(c.String() + "\n")
	}
	return b.String()
}

func TestSetAndRestore(t *testing.T) {
	inNewNamespace(t)
	journal := filepath.Join(t.TempDir(), "node", "sysctls.json")
	oldPorts := get(t, ports)
	settings := []sysctl.Setting{
		{Key: forward, Want: "1", Why: "Pods are routed"},
		{Key: ports, Want: "20000\t30000", Why: "test"},
		{Key: "net.ipv4.no_such_key", Want: "1", Why: "test", Optional: true},
	}
	p := plan(t, journal, settings...)
	want := "~ sysctl net.ipv4.ip_forward: is 0, want 1: Pods are routed\n" +
		"~ sysctl net.ipv4.ip_local_port_range: is \"" + oldPorts + "\", want \"20000 30000\": test\n"
	if diff := cmp.Diff(want, lines(p)); diff != "" {
		t.Fatalf("plan (-want +got):\n%s", diff)
	}
	if got := get(t, forward); got != "0" {
		t.Fatalf("planning wrote: %s", got)
	}
	apply(t, p)
	if got := get(t, forward) + " " + get(t, ports); got != "1 20000 30000" {
		t.Fatalf("values: %s", got)
	}
	if again := plan(t, journal, settings...).Changes(); len(again) != 0 {
		t.Fatalf("second plan: %v", again)
	}
	apply(t, restore(t, journal))
	if got := get(t, forward) + " " + get(t, ports); got != "0 "+oldPorts {
		t.Fatalf("restored: %s", got)
	}
	if _, err := os.Stat(journal); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("journal after restore: %v", err)
	}
	if again := restore(t, journal).Changes(); len(again) != 0 {
		t.Fatalf("second restore: %v", again)
	}
}

// What somebody else changed after us is theirs.
func TestRestoreLeavesForeignChange(t *testing.T) {
	inNewNamespace(t)
	journal := filepath.Join(t.TempDir(), "sysctls.json")
	old := get(t, ports)
	apply(t, plan(t, journal, sysctl.Setting{Key: ports, Want: "20000 30000", Why: "test"}))
	set(t, ports, "21000 31000")
	p := restore(t, journal)
	want := "- record of sysctl net.ipv4.ip_local_port_range: is \"21000 31000\", not the \"20000 30000\" that was set: " +
		"somebody else changed it, so it stays; it was \"" + old + "\" before\n"
	if diff := cmp.Diff(want, lines(p)); diff != "" {
		t.Fatalf("plan (-want +got):\n%s", diff)
	}
	apply(t, p)
	if got := get(t, ports); got != "21000 31000" {
		t.Fatalf("value: %s", got)
	}
}

// Drift is repaired, and the value from before the first pass is the one that
// comes back, not the drifted one.
func TestOldestValueSurvivesDrift(t *testing.T) {
	inNewNamespace(t)
	journal := filepath.Join(t.TempDir(), "sysctls.json")
	old := get(t, ports)
	s := sysctl.Setting{Key: ports, Want: "20000 30000", Why: "test"}
	apply(t, plan(t, journal, s))
	set(t, ports, "21000 31000")
	apply(t, plan(t, journal, s))
	apply(t, restore(t, journal))
	if got := get(t, ports); got != old {
		t.Fatalf("restored %q, want %q", got, old)
	}
}

// Killed between journal and write: the record is there, the value is not.
func TestRecordPrecedesWrite(t *testing.T) {
	inNewNamespace(t)
	journal := filepath.Join(t.TempDir(), "sysctls.json")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := plan(t, journal, sysctl.Setting{Key: forward, Want: "1", Why: "test"}).Apply(ctx)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("error: %v", err)
	}
	if _, err := os.Stat(journal); err != nil {
		t.Fatalf("nothing recorded before the write: %v", err)
	}
	apply(t, restore(t, journal))
	if got := get(t, forward); got != "0" {
		t.Fatalf("value: %s", got)
	}
	if _, err := os.Stat(journal); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("journal after restore: %v", err)
	}
}

func TestErrors(t *testing.T) {
	_, err := sysctl.Plan([]sysctl.Setting{{Key: "net.ipv4.no_such_key", Want: "1", Why: "test"}}, "unused")
	if !errors.Is(err, dataplane.ErrUnsupported) || !strings.Contains(err.Error(), "net.ipv4.no_such_key") {
		t.Errorf("missing key: %v", err)
	}
	journal := filepath.Join(t.TempDir(), "sysctls.json")
	if err := os.WriteFile(journal, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	// a damaged journal stops nothing: it is set aside, and named
	plan, err := sysctl.Restore(journal)
	if err != nil {
		t.Fatalf("damaged journal: %v", err)
	}
	if c := plan.Changes(); len(c) != 1 || !strings.Contains(c[0].Reason, journal+".damaged") {
		t.Errorf("damaged journal: changes %v", c)
	}
	if err := plan.Apply(t.Context()); err != nil {
		t.Errorf("damaged journal: %v", err)
	}
	if _, err := os.Stat(journal + ".damaged"); err != nil {
		t.Errorf("damaged journal: %v", err)
	}
}

func TestKeyWithDotsInAPart(t *testing.T) {
	_, err := sysctl.Plan([]sysctl.Setting{{Key: "net/ipv4/conf/eth0.100/rp_filter", Want: "1", Why: "test"}}, "unused")
	var missing *dataplane.Unsupported
	if !errors.As(err, &missing) || missing.Missing != "/proc/sys/net/ipv4/conf/eth0.100/rp_filter" {
		t.Errorf("file looked for: %v", err)
	}
}
