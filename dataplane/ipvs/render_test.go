package ipvs_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/ipvs"
	"github.com/toyproxy/toyproxy/test/lab"
)

// sample is a table with one of everything.
func sample() dataplane.Table {
	b := newTable()
	ep := func(a string, local bool) dataplane.Endpoint {
		return dataplane.Endpoint{Addr: addrPort(a), Weight: 1, Local: local}
	}
	b.add("default/web:http", "10.96.0.10", dataplane.TCP, 80, ep("10.244.0.11:8080", true), ep("10.244.1.11:8080", false))
	b.add("default/web:empty", "10.96.0.10", dataplane.TCP, 81)
	b.add("default/web:none-here", "10.96.0.10", dataplane.TCP, 82)
	b.add("kube-system/kube-dns", "fd00:10:96::35", dataplane.UDP, 53, ep("[fd00:10:244::12]:5353", true))
	b.add("default/sig", "fd00:10:96::35", dataplane.SCTP, 3868, ep("[fd00:10:244::12]:3868", true))
	b.edit(2, func(fe *dataplane.Frontend, _ *dataplane.EndpointSet) { drop(fe) })
	b.edit(0, func(_ *dataplane.Frontend, s *dataplane.EndpointSet) { s.Affinity = 3 * time.Hour })
	return b.Table
}

func render(t *testing.T, b *ipvs.Backend, table dataplane.Table) string {
	t.Helper()
	got, err := b.Render(table)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestRenderGolden(t *testing.T) {
	got := render(t, ipvs.New(ipvs.Config{}), sample())
	const golden = "testdata/render.txt"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("rendering (-golden +now; UPDATE_GOLDEN=1 writes it anew):\n%s", diff)
	}
}

// parts splits a rendering at the comment lines that name the tools.
func parts(rendering string) (tools, inputs []string) {
	for _, p := range strings.Split("\n"+rendering, "\n# ")[1:] {
		tool, input, _ := strings.Cut(p, "\n")
		tools, inputs = append(tools, tool), append(inputs, strings.TrimRight(input, "\n")+"\n")
	}
	return tools, inputs
}

// Each part loads with the tool that its comment names, and afterwards the
// backend finds next to nothing to do: only the source of the local routes.
func TestRenderLoads(t *testing.T) {
	n := newNode(t, ipvs.Config{}, lab.WithPods(2))
	tools, inputs := parts(render(t, n.backend, sample()))
	if len(tools) != 6 {
		t.Fatalf("parts: %v", tools)
	}
	for i, tool := range tools {
		tool = strings.Replace(tool, "iptables-restore", n.iptables+"-restore", 1)
		tool = strings.Replace(tool, "ip6"+n.iptables, n.ip6tables, 1)
		n.Node.Do(func() {
			args := strings.Fields(tool)
			cmd := exec.Command(args[0], args[1:]...)
			cmd.Stdin = strings.NewReader(inputs[i])
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v: %s\ninput:\n%s", tool, err, out, inputs[i])
			}
		})
	}
	want := "~ local route 10.96.0.10 for default/web: source none, want 10.244.0.1: local clients would send from a wrong address\n" +
		"~ local route fd00:10:96::35 for "
	if got := text(n.sync(sample())); !strings.HasPrefix(got, want) || strings.Count(got, "\n") != 2 {
		t.Errorf("after loading all parts the changes are\n%s", got)
	}
}
