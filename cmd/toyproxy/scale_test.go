package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// largeService is the address of Service i of largeManifest.
func largeService(i int) string { return fmt.Sprintf("10.96.%d.%d", i/250, 1+i%250) }

// largeEndpoint is the address of an endpoint of Service i. The changed one is
// another.
func largeEndpoint(i, e int, changed bool) string {
	if changed {
		return "10.244.255.9"
	}
	return fmt.Sprintf("10.%d.%d.%d", 200+e, i/250, 1+i%250)
}

// largeManifest writes n Services of ten endpoints each, every second of which
// lives on the node "here". changed says which Service has another address for
// which endpoint; none is -1.
func largeManifest(to io.Writer, n, service, endpoint int) error {
	w := bufio.NewWriter(to)
	for i := range n {
		fmt.Fprintf(w, "apiVersion: v1\nkind: Service\nmetadata: {name: s%d}\nspec: {clusterIP: %s, ports: [{name: http, port: 80}]}\n---\n", i, largeService(i))
		fmt.Fprintf(w, "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: s%d-a, labels: {kubernetes.io/service-name: s%d}}\n", i, i)
		fmt.Fprint(w, "addressType: IPv4\nports: [{name: http, port: 8080}]\nendpoints:\n")
		for e := range 10 {
			node := [...]string{"here", "elsewhere"}[e%2]
			fmt.Fprintf(w, "- {addresses: [%s], nodeName: %s}\n", largeEndpoint(i, e, i == service && e == endpoint), node)
		}
		fmt.Fprint(w, "---\n")
	}
	return w.Flush()
}

// largeCommand writes a large manifest in a script:
//
//	large N FILE                    N Services
//	large N FILE SERVICE ENDPOINT   with another address for one endpoint
func largeCommand(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 && len(args) != 4 {
		ts.Fatalf("usage: large N FILE [SERVICE ENDPOINT]")
	}
	number := func(i int) int {
		if i >= len(args) {
			return -1
		}
		n, err := strconv.Atoi(args[i])
		ts.Check(err)
		return n
	}
	f, err := os.Create(ts.MkAbs(args[1]))
	ts.Check(err)
	defer f.Close()
	ts.Check(largeManifest(f, number(0), number(2), number(3)))
}

// TestTenThousandServices is what a user with a large cluster does: render it,
// load the text with the kernel's own tool, and send one packet to the last
// Service, which has to meet fewer than 100 rules.
func TestTenThousandServices(t *testing.T) {
	if testing.Short() {
		t.Skip("large")
	}
	requireRoot(t)
	if inGuest() {
		return // a guest is for IPVS, and slow
	}
	t.Run("legacy", testTenThousandServices)
}

func testTenThousandServices(t *testing.T) {
	requireLegacy(t)
	const n = 10_000
	file := filepath.Join(t.TempDir(), "big.yaml")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := largeManifest(f, n, -1, -1); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	rules := renderCommandLine(t, "--backend", "iptables", "--node", "here", "-f", file)
	rendered := time.Since(began)
	saved := loadAndDial(t, rules, largeService(n-1))
	t.Logf("rendered %d lines in %v", bytes.Count(rules, []byte("\n")), rendered.Round(time.Millisecond))
	met := 0
	for _, hook := range []string{"nat OUTPUT", "filter OUTPUT", "nat POSTROUTING"} {
		at, _ := saved.met(hook)
		t.Logf("%s: %d rules", hook, at)
		met += at
	}
	if !saved.reached("--to-destination 10.2") || met >= 100 {
		t.Errorf("a packet to the last of %d Services met %d rules (translated: %v), want fewer than 100 and an endpoint",
			n, met, saved.reached("--to-destination 10.2"))
	}
	t.Logf("a packet to the last of %d Services met %d rules", n, met)
}

// requireLegacy skips where the kernel takes no rules of iptables-legacy.
func requireLegacy(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("unshare", "-n", "iptables-legacy", "-t", "nat", "-N", "PROBE").CombinedOutput(); err != nil {
		t.Skipf("SKIP(kernel): iptables-legacy: %v: %s", err, out)
	}
}

// renderCommandLine runs toyproxy render in this process.
func renderCommandLine(t *testing.T, args ...string) []byte {
	t.Helper()
	var stdout, stderr bytes.Buffer
	root := newRoot()
	root.SetArgs(append([]string{"render", "--state-dir", t.TempDir()}, args...))
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("render: %v\n%s", err, stderr.String())
	}
	return stdout.Bytes()
}

// loadAndDial loads rules into a network namespace of their own, opens one
// connection from there, which nobody answers, and returns the rules with their
// counters.
func loadAndDial(t *testing.T, rules []byte, address string) counted {
	t.Helper()
	const script = `set -e
ip link set lo up
ip link add uplink type veth peer name other
ip addr add 192.0.2.1/24 dev uplink
ip link set uplink up; ip link set other up
ip route add default via 192.0.2.10
ip neigh replace 192.0.2.10 lladdr 02:00:00:00:00:01 dev uplink
iptables-legacy-restore
timeout 0.5 bash -c "exec 3<>/dev/tcp/$1/80" 2>/dev/null || true
iptables-legacy-save -c`
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "unshare", "-n", "sh", "-c", script, "sh", address)
	cmd.Stdin, cmd.Env = bytes.NewReader(rules), append(os.Environ(), "XTABLES_LOCKFILE="+filepath.Join(t.TempDir(), "lock"))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	began := time.Now()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("iptables-legacy-restore and one connection: %v: %s", err, stderr.String())
	}
	t.Logf("loaded, dialled and saved in %v", time.Since(began).Round(time.Millisecond))
	return parseCounted(string(out))
}

// counted is the output of iptables-save -c: the rules of each chain, by table
// and name.
type counted map[string][]countedRule

type countedRule struct {
	matched bool
	text    string
}

func parseCounted(save string) counted {
	out, table := counted{}, ""
	for line := range strings.Lines(save) {
		if name, ok := strings.CutPrefix(line, "*"); ok {
			table = strings.TrimSpace(name)
		}
		counters, rule, ok := strings.Cut(strings.TrimSpace(line), "] -A ")
		if !ok {
			continue
		}
		chain, text, _ := strings.Cut(rule, " ")
		key := table + " " + chain
		out[key] = append(out[key], countedRule{!strings.HasPrefix(counters, "[0:"), text})
	}
	return out
}

// reached reports whether a rule with that text matched.
func (c counted) reached(text string) bool {
	for _, rules := range c {
		for _, r := range rules {
			if r.matched && strings.Contains(r.text, text) {
				return true
			}
		}
	}
	return false
}

// met walks from a chain the way of the only flow there was, and counts the
// rules that its first packet met, those that did not match too. ended says that
// a rule settled what becomes of it.
func (c counted) met(key string) (n int, ended bool) {
	table, _, _ := strings.Cut(key, " ")
	for _, r := range c[key] {
		n++
		if !r.matched {
			continue
		}
		words := strings.Fields(r.text)
		for i, w := range words[:len(words)-1] {
			if w != "-j" && w != "-g" {
				continue
			}
			switch target := table + " " + words[i+1]; {
			case words[i+1] == "DNAT" || words[i+1] == "MASQUERADE" || words[i+1] == "ACCEPT":
				return n, true
			case c[target] != nil:
				deeper, ended := c.met(target)
				if n += deeper; ended || w == "-g" {
					return n, ended
				}
			}
		}
	}
	return n, false
}
