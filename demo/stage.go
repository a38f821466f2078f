package demo

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/template"
)

// stage plays commands and keeps count of what was asserted.
type stage struct {
	Options
	asserted int
}

// say prints a paragraph of narration.
func (s *stage) say(format string, args ...any) {
	fmt.Fprintf(s.Out, "\n# "+format+"\n", args...)
}

// run prints a command line as a learner would type it, runs it and prints
// what it answered. "toyproxy" stands for this binary.
func (s *stage) run(ctx context.Context, line string) (string, error) {
	fmt.Fprintf(s.Out, "$ %s\n", line)
	out, err := s.quiet(ctx, line)
	for l := range strings.Lines(out) {
		fmt.Fprintf(s.Out, "  %s", l)
	}
	if out != "" && !strings.HasSuffix(out, "\n") {
		fmt.Fprintln(s.Out)
	}
	return out, err
}

// quiet runs a command line and returns its standard output.
func (s *stage) quiet(ctx context.Context, line string) (string, error) {
	script := "toyproxy() { " + shellQuote(s.Self) + ` "$@"; }` + "\n" + line
	cmd := exec.CommandContext(ctx, "sh", "-c", script)
	cmd.Dir = s.Dir
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s: %w: %s", line, err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// expect fails the lesson unless the condition holds, and says what was seen.
func (s *stage) expect(ok bool, format string, args ...any) error {
	what := fmt.Sprintf(format, args...)
	if !ok {
		return fmt.Errorf("the lesson does not hold: expected %s", what)
	}
	s.asserted++
	fmt.Fprintf(s.Out, "  ok: %s\n", what)
	return nil
}

// write puts a manifest into the scenario's directory.
func (s *stage) write(name, text string) error {
	if err := os.WriteFile(filepath.Join(s.Dir, "manifests", name), []byte(text), 0o644); err != nil {
		return fmt.Errorf("manifest %s: %w", name, err)
	}
	fmt.Fprintf(s.Out, "$ cat manifests/%s\n", name)
	for l := range strings.Lines(text) {
		fmt.Fprintf(s.Out, "  %s", l)
	}
	return nil
}

// remove takes a manifest away.
func (s *stage) remove(name string) error {
	fmt.Fprintf(s.Out, "$ rm manifests/%s\n", name)
	if err := os.Remove(filepath.Join(s.Dir, "manifests", name)); err != nil {
		return fmt.Errorf("manifest %s: %w", name, err)
	}
	return nil
}

// podManifest is a Pod whose stand-in listens on 8080; without a port it only sleeps.
var podManifest = template.Must(template.New("pod").Parse(`apiVersion: v1
kind: Pod
metadata:
  name: {{.Name}}
  labels: { {{.Labels}} }
spec:
  containers:
    - name: main
      image: example.com/{{.Name}}
{{- if .Port}}
      ports: [{name: http, containerPort: {{.Port}}}]
{{- end}}
`))

type podSpec struct {
	Name, Labels string
	Port         int
}

func (s *stage) writePod(p podSpec) error {
	var text strings.Builder
	if err := podManifest.Execute(&text, p); err != nil {
		return fmt.Errorf("manifest of Pod %s: %w", p.Name, err)
	}
	return s.write(p.Name+".yaml", text.String())
}

var serviceManifest = template.Must(template.New("service").Parse(`apiVersion: v1
kind: Service
metadata:
  name: {{.Name}}
spec:
{{- if .ClusterIP}}
  clusterIP: {{.ClusterIP}}
{{- end}}
  selector: { {{.Selector}} }
  ports: [{name: http, port: 80, targetPort: http}]
`))

type serviceSpec struct{ Name, ClusterIP, Selector string }

func (s *stage) writeService(v serviceSpec) error {
	var text strings.Builder
	if err := serviceManifest.Execute(&text, v); err != nil {
		return fmt.Errorf("manifest of Service %s: %w", v.Name, err)
	}
	return s.write("svc-"+v.Name+".yaml", text.String())
}
