package xtables

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
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
			if err := tool.Restore(t.Context(), Text(text)); err != nil {
				t.Fatal(err)
			}
			got, err := tool.Rules(NAT, "TOY-A")
			if err != nil || strings.Join(got, ";") != `-m comment --comment "it is a quote" -j ACCEPT` {
				t.Errorf("rules %q, %v", got, err)
			}
			if err := tool.Restore(t.Context(), Text("*nat\n-A TOY-A -j TOY-NOT\nCOMMIT\n")); !errors.Is(err, ErrNotExist) {
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
				want.Chains[3].Rules = []string{"-p tcp -m tcp --dport 1 -g TOY-SVC-AAAAAAAAAAAAAAAA", "-p tcp -m tcp --dport 2 -g TOY-SVC-BBBBBBBBBBBBBBBB"}
				node.Do(func() { checkRefused(t, tool, want) })
			})
		})
	}
}

// checkRefused applies a ruleset of which the kernel takes all but TOY-SVC-BBBBBBBBBBBBBBBB.
func checkRefused(t *testing.T, tool Tool, want Ruleset) {
	t.Helper()
	have, err := tool.Save(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = apply(t.Context(), tool, want, Diff(want, have), 0)
	if err == nil || !strings.Contains(err.Error(), "refused chain TOY-SVC-BBBBBBBBBBBBBBBB for default/b") {
		t.Errorf("error %v, want one that names chain and Service", err)
	}
	have, err = tool.Save(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range Diff(want, have).Edits {
		if e.Chain != "TOY-SVC-BBBBBBBBBBBBBBBB" {
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
			node.Do(func() { err = tool.Restore(t.Context(), Text("*nat\n:TOY-A - [0:0]\nCOMMIT\n")) })
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

// TestDropTable proves that a table of the nft engine goes when nothing but our
// mark is in it, with the mark; and that one with anything else, or without the
// mark, stays as it is.
func TestDropTable(t *testing.T) {
	const mark = ":" + marker + " - [0:0]\n-A " + marker + " -j RETURN\n"
	eachTool(t, func(t *testing.T, node *lab.Host, tool Tool) {
		if tool.Engine != NFT {
			return
		}
		node.Do(func() {
			for _, tc := range []struct {
				name, text string
				want       bool
			}{
				{"absent", "", false},
				{"no mark", ":FOREIGN - [0:0]\n", false},
				{"mark and another chain", mark, false},
				{"mark alone", "-X FOREIGN\n", true},
			} {
				if tc.text != "" {
					if err := tool.Restore(t.Context(), Text("*nat\n"+tc.text+"COMMIT\n")); err != nil {
						t.Fatal(err)
					}
				}
				before := node.Run(tool.program("save"))
				gone, err := tool.DropTable(t.Context(), NAT)
				after := node.Run(tool.program("save"))
				if gone != tc.want || err != nil || gone && rules(after) != "" || !gone && rules(after) != rules(before) {
					t.Errorf("%s: gone %v, %v, left\n%s", tc.name, gone, err, after)
				}
			}
		})
	})
}

// rules is the output of iptables-save without its comments, which tell the time.
func rules(save string) string {
	var out []string
	for line := range strings.Lines(save) {
		if line[0] != '#' {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}

// mortal is a kernel for a process that is killed after some calls.
type mortal struct {
	Tool
	left *int
}

var errKilled = errors.New("killed")

func (m mortal) Restore(ctx context.Context, text io.WriterTo) error {
	if *m.left--; *m.left < 0 {
		return errKilled
	}
	return m.Tool.Restore(ctx, text)
}

func (m mortal) DropTable(ctx context.Context, table Table) (bool, error) {
	if *m.left--; *m.left < 0 {
		return false, errKilled
	}
	return m.Tool.DropTable(ctx, table)
}

// TestKilledRemoval proves that a removal which is killed between any two of its
// calls is finished by the next one, after which no table is left that was not
// there before.
func TestKilledRemoval(t *testing.T) {
	eachTool(t, func(t *testing.T, node *lab.Host, tool Tool) {
		if tool.Engine != NFT {
			return
		}
		want, nothing := web(), Ruleset{Family: tool.Family}
		want.Family = tool.Family
		want.Chains[1].Rules, want.Chains[2].Rules = []string{"-j RETURN"}, []string{"-j RETURN"}
		want.Chains[3].Rules = []string{"-g " + want.Chains[1].Name, "-g " + want.Chains[2].Name}
		node.Do(func() {
			for calls, killed := 0, true; killed; calls++ {
				marked := withMarkers(want, State{})
				if err := apply(t.Context(), tool, marked, Diff(marked, State{}), 0); err != nil {
					t.Fatal(err)
				}
				remove := func(k kernel) error {
					have, err := tool.Save(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					return apply(t.Context(), k, nothing, Diff(nothing, have), 2)
				}
				left := calls
				killed = errors.Is(remove(mortal{tool, &left}), errKilled)
				if err := remove(tool); err != nil {
					t.Fatal(err)
				}
				if after := node.Run(tool.program("save")); rules(after) != "" {
					t.Errorf("killed after %d calls, the next removal left\n%s", calls, after)
					return
				}
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
