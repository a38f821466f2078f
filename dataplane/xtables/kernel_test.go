package xtables

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/test/lab"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }

// eachTool runs a test for every engine and family that the kernel has.
func eachTool(t *testing.T, test func(t *testing.T, node *lab.Host, tool Tool)) {
	for _, e := range []Engine{NFT, Legacy} {
		for _, f := range []dataplane.Family{dataplane.IPv4, dataplane.IPv6} {
			t.Run(e.String()+"/"+f.String(), func(t *testing.T) {
				lab.Require(t, lab.Namespaces)
				tool := Tool{Engine: e, Family: f}
				if err := tool.Probe(t.Context()); errors.Is(err, dataplane.ErrUnsupported) {
					lab.Skip(t, err)
				} else if err != nil {
					t.Fatal(err)
				}
				test(t, lab.New(t, lab.WithPods(0)).Node, tool)
			})
		}
	}
}

// TestNotExist proves that what is not there is told alike by both engines, and
// that listed rules are those that were written.
func TestNotExist(t *testing.T) {
	eachTool(t, func(t *testing.T, node *lab.Host, tool Tool) {
		node.Do(func() {
			if _, err := tool.Rules(NAT, "TOY-NOT"); !errors.Is(err, ErrNotExist) {
				t.Errorf("rules of a chain that is not there: %v", err)
			}
			if ok, err := tool.Exists(NAT, "TOY-NOT"); ok || err != nil {
				t.Errorf("a chain that is not there exists: %v, %v", ok, err)
			}
			text := "*nat\n:TOY-A - [0:0]\n-A TOY-A -m comment --comment \"it is a quote\" -j ACCEPT\nCOMMIT\n"
			if err := tool.Restore(t.Context(), text); err != nil {
				t.Fatal(err)
			}
			got, err := tool.Rules(NAT, "TOY-A")
			if err != nil || strings.Join(got, ";") != `-m comment --comment "it is a quote" -j ACCEPT` {
				t.Errorf("rules %q, %v", got, err)
			}
			if err := tool.Restore(t.Context(), "*nat\n-A TOY-A -j TOY-NOT\nCOMMIT\n"); !errors.Is(err, ErrNotExist) {
				t.Errorf("a rule that leads nowhere: %v, want ErrNotExist", err)
			}
		})
	})
}

// TestRefused proves that a Service whose rules the tool or the kernel refuses
// is named, and that the others are served.
func TestRefused(t *testing.T) {
	for _, tc := range []struct{ name, rule string }{
		{"by the tool", "-p tcp -m tcp --dport 99999 -j RETURN"},
		{"by the kernel", "-p tcp -j REJECT --reject-with tcp-reset"}, // not in table nat
	} {
		t.Run(tc.name, func(t *testing.T) {
			eachTool(t, func(t *testing.T, node *lab.Host, tool Tool) {
				want := web()
				want.Family = tool.Family
				want.Chains[1].Rules = []string{"-p tcp -j ACCEPT"}
				want.Chains[2].Rules = []string{tc.rule}
				want.Chains[3].Rules = []string{"-p tcp -m tcp --dport 1 -g TOY-SVC-A", "-p tcp -m tcp --dport 2 -g TOY-SVC-B"}
				node.Do(func() { checkRefused(t, tool, want) })
			})
		})
	}
}

// checkRefused applies a ruleset of which the kernel takes all but TOY-SVC-B.
func checkRefused(t *testing.T, tool Tool, want Ruleset) {
	t.Helper()
	have, err := tool.Save(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = apply(t.Context(), tool, want, Diff(want, have), 0)
	if err == nil || !strings.Contains(err.Error(), "refused chain TOY-SVC-B for default/b") {
		t.Errorf("error %v, want one that names chain and Service", err)
	}
	have, err = tool.Save(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range Diff(want, have).Edits {
		if e.Chain != "TOY-SVC-B" {
			t.Errorf("left to do: %s, %s", e.Chain, e.Reason)
		}
	}
}

// TestLock proves that a held lock is waited for a bounded time, that the error
// names the holder, and that it is well after the release. The nft engine does
// not know the lock.
func TestLock(t *testing.T) {
	lock := filepath.Join(t.TempDir(), "xtables.lock")
	t.Setenv("XTABLES_LOCKFILE", lock)
	eachTool(t, func(t *testing.T, node *lab.Host, tool Tool) {
		tool.Wait = time.Second
		f, err := os.Create(lock)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
			t.Fatal(err)
		}
		restore := func() (err error) {
			node.Do(func() { err = tool.Restore(t.Context(), "*nat\n:TOY-A - [0:0]\nCOMMIT\n") })
			return err
		}
		var held *LockError
		err = restore()
		if tool.Engine == NFT {
			if err != nil {
				t.Errorf("engine nft: %v", err)
			}
			return
		}
		if !errors.As(err, &held) || !strings.Contains(held.Error(), fmt.Sprintf("(process %d)", os.Getpid())) {
			t.Errorf("error %v, want one that names this process", err)
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_UN); err != nil {
			t.Fatal(err)
		}
		if err := restore(); err != nil {
			t.Errorf("after the release: %v", err)
		}
	})
}

// TestProbeLeavesNothing proves that trying an engine changes nothing here.
func TestProbeLeavesNothing(t *testing.T) {
	eachTool(t, func(t *testing.T, node *lab.Host, tool Tool) {
		node.Do(func() {
			if _, err := Detect(t.Context(), Auto); err != nil {
				t.Fatal(err)
			}
			if err := tool.Probe(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
		if left := node.Run(tool.program("save")); strings.Contains(left, "*") {
			t.Errorf("left:\n%s", left)
		}
	})
}

// TestDetect proves that the engine which other programs use is taken.
func TestDetect(t *testing.T) {
	eachTool(t, func(t *testing.T, node *lab.Host, tool Tool) {
		if tool.Family == dataplane.IPv6 || tool.Engine.Other() == Auto {
			return
		}
		node.Run(tool.program(""), "-t", "nat", "-A", "OUTPUT", "-p", "udp", "-j", "ACCEPT")
		node.Do(func() {
			got, err := Detect(t.Context(), Auto)
			if err != nil || got.Engine != tool.Engine || got.Version == "" {
				t.Errorf("%+v, %v", got, err)
			}
		})
	})
}

// TestDropEmptyTable proves that an empty table of the nft engine goes, and one
// with anything in it stays.
func TestDropEmptyTable(t *testing.T) {
	eachTool(t, func(t *testing.T, node *lab.Host, tool Tool) {
		if tool.Engine != NFT {
			return
		}
		node.Do(func() {
			drop := func() {
				t.Helper()
				if err := tool.DropTable(t.Context(), NAT); err != nil {
					t.Error(err)
				}
			}
			drop() // absent
			if err := tool.Restore(t.Context(), "*nat\n:FOREIGN - [0:0]\nCOMMIT\n"); err != nil {
				t.Fatal(err)
			}
			drop()
			if st, err := tool.Save(t.Context()); err != nil || st.Tables[NAT] == nil {
				t.Errorf("a table with a chain went: %v", err)
			}
			if err := exec.Command(tool.program(""), "-t", "nat", "-X", "FOREIGN").Run(); err != nil {
				t.Fatal(err)
			}
			drop()
			if st, err := tool.Save(t.Context()); err != nil || st.Tables[NAT] != nil {
				t.Errorf("the empty table is still there: %v", err)
			}
		})
	})
}

// TestMissingProgram proves that a machine without the tool hears so.
func TestMissingProgram(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := Tool{Engine: Engine(Auto), Family: dataplane.IPv4}.path("no-such-program")
	var u *dataplane.Unsupported
	if !errors.As(err, &u) || !strings.Contains(u.Error(), "install the package iptables") {
		t.Errorf("error %v", err)
	}
}
