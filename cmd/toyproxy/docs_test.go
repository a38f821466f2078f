package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// Each fence of kind "console" in the documentation is a session of its own: a
// line that begins with "$ " is run in a fresh node, and what it prints has to
// be what the page shows. A line "..." stands for any lines. What differs from
// run to run (which Pod answered, how long it took) is compared by its shape.
// A fence "console ipvs" needs a kernel with IPVS.

var documents = []string{"README.md", "docs/*.md", "examples/README.md"}

func TestDocumentation(t *testing.T) {
	requireRoot(t)
	t.Parallel()
	top, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, pattern := range documents {
		pages, err := filepath.Glob(filepath.Join(top, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pages {
			name := strings.TrimSuffix(strings.TrimPrefix(page, top+"/"), ".md")
			writeSessions(t, page, filepath.Join(dir, strings.ReplaceAll(name, "/", "_")))
		}
	}
	testscript.Run(t, testscript.Params{
		Dir:       dir,
		Condition: condition,
		Setup: func(env *testscript.Env) error {
			env.Setenv("TOP", top)
			return startNode(env)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"node": nodeCommand, "shows": showsCommand},
	})
}

var fence = regexp.MustCompile("(?ms)^```console( ipvs)?\n(.*?)^```$")

// writeSessions turns the sessions of a page into scripts, one each,
// whose paths begin with name.
func writeSessions(t *testing.T, page, name string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range fence.FindAllStringSubmatch(string(text), -1) {
		if inGuest() && m[1] == "" {
			continue
		}
		var script, files strings.Builder
		if m[1] != "" {
			script.WriteString("[!ipvs] skip 'SKIP(kernel): no IPVS'\n")
		} else if strings.Contains(m[2], "iptables-nft") {
			script.WriteString("[!nft] skip 'SKIP(kernel): no nf_tables, and the page shows iptables-nft'\n")
		} else if strings.Contains(m[2], "nftables") || strings.Contains(m[2], " nft ") {
			script.WriteString("[!nftables] skip 'SKIP(kernel): no nftables, and the page shows it'\n")
		}
		for j, step := range sessionSteps(m[2]) {
			fmt.Fprintf(&script, "shows cmd%d want%d\n", j, j)
			fmt.Fprintf(&files, "-- cmd%d --\n%s\n-- want%d --\n%s", j, step.command, j, step.output)
		}
		path := fmt.Sprintf("%s_%d.txtar", name, i+1)
		if err := os.WriteFile(path, []byte(script.String()+files.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

type sessionStep struct{ command, output string }

func sessionSteps(session string) []sessionStep {
	var steps []sessionStep
	for line := range strings.Lines(session) {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			steps = append(steps, sessionStep{command: strings.TrimSuffix(command, "\n")})
		} else if n := len(steps); n > 0 {
			steps[n-1].output += line
		}
	}
	return steps
}

// showsCommand runs the command in a file and compares what it prints with
// another file. The exit code does not matter: the page shows what it shows.
func showsCommand(ts *testscript.TestScript, _ bool, args []string) {
	command, want := ts.ReadFile(args[0]), ts.ReadFile(args[1])
	// An alias, not a function: a shell that runs one in the background keeps the
	// output open.
	line := "alias sudo=''\ncd \"$TOP\"\n" + command
	cmd := exec.Command("nsenter", nodeArgs(ts, []string{"sh", "-c", line})...)
	cmd.Env = append(os.Environ(), "TOP="+ts.Getenv("TOP"), "PATH="+ts.Getenv("PATH"), "NO_COLOR=1")
	out, _ := cmd.CombinedOutput()
	if got := shape(string(out)); !shapePattern(want).MatchString(got) {
		ts.Fatalf("$ %s\nprints\n%s\nbut the page shows\n%s", strings.TrimSpace(command), out, want)
	}
}

var volatile = []struct {
	re *regexp.Regexp
	to string
}{
	{regexp.MustCompile(`web-[0-9]`), "web-N"},
	{regexp.MustCompile(`10\.244\.0\.[0-9]+`), "10.244.0.N"},
	{regexp.MustCompile(`\b[0-9]+\.[0-9]+s\b`), "Ns"},
	{regexp.MustCompile(`\b[0-9]+(s|ms)\b`), "Ns"},
	{regexp.MustCompile(`\b(devel|v?[0-9]+\.[0-9]+\.[0-9]+|devel-[0-9a-f]+)\b`), "VERSION"},
	// how much there is to change depends on the machine's kernel parameters
	{regexp.MustCompile(`[0-9]+ to add, [0-9]+ to change`), "N to add, N to change"},
	{regexp.MustCompile(`\+[0-9]+ ~[0-9]+ -[0-9]+`), "+N ~N -N"},
	{regexp.MustCompile(`[0-9]+ changes made`), "N changes made"},
	{regexp.MustCompile(`[ \t]+`), " "},
	{regexp.MustCompile(` \n`), "\n"},
}

// shape replaces what differs from run to run.
func shape(s string) string {
	if host, err := os.Hostname(); err == nil {
		s = strings.ReplaceAll(s, " "+strings.ToLower(host)+" ", " laptop ")
	}
	for _, v := range volatile {
		s = v.re.ReplaceAllString(s, v.to)
	}
	return strings.TrimSpace(s)
}

// shapePattern is the expected output as a pattern: "..." is any lines.
func shapePattern(want string) *regexp.Regexp {
	parts := strings.Split("\n"+shape(want)+"\n", "\n...\n")
	for i, p := range parts {
		parts[i] = regexp.QuoteMeta(strings.Trim(p, "\n"))
	}
	pattern := strings.Join(parts, `(?:.*\n?)*?`)
	return regexp.MustCompile(`^` + pattern + `$`)
}
