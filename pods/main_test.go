package pods

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/toyproxy/toyproxy/podnet"
	"github.com/toyproxy/toyproxy/test/sandbox"
)

// TestMain lets the test binary be the toyproxy that its tests start.
func TestMain(m *testing.M) {
	if os.Args[0] == StandInName {
		os.Args = append([]string{os.Args[0], StandInName}, os.Args[1:]...)
	}
	if len(os.Args) > 1 {
		commands := map[string]func(context.Context, []string) error{"pause": Pause, InitName: PauseInit, "stand-in": StandIn, "apply-and-hang": applyAndHang, "version": version}
		if command, ok := commands[os.Args[1]]; ok {
			if err := command(context.Background(), os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	sandbox.Main(m)
}

// version is a command of toyproxy that a container may run. It leaves a note in
// the state directory.
func version(context.Context, []string) error {
	dir := os.Getenv(StateDirVariable)
	fmt.Printf("%s %s %s\n", os.Args[0], os.Args[1], dir)
	host, err := os.Hostname()
	if err != nil || dir == "/elsewhere" {
		return err
	}
	_ = os.WriteFile(filepath.Join(dir, "note-of-"+host), nil, 0o644) // root's alone
	return nil
}

// lab is a node of one test.
type lab struct {
	*Runtime
	t   *testing.T
	net *podnet.Node
	dir string
}

func newLab(t *testing.T, ranges ...string) *lab {
	t.Helper()
	sandbox.Node(t)
	dir := t.TempDir()
	l := &lab{t: t, dir: dir}
	l.open(ranges...)
	t.Cleanup(func() {
		if p, err := l.Remove(context.Background()); err != nil || p.Apply(context.Background()) != nil {
			t.Errorf("clean-up: %v", err)
		}
	})
	return l
}

// open makes the runtime, as another toyproxy process would.
func (l *lab) open(ranges ...string) {
	l.t.Helper()
	r, net, err := openRuntime(l.dir, ranges...)
	if err != nil {
		l.t.Fatal(err)
	}
	l.Runtime, l.net = r, net
}

func openRuntime(dir string, ranges ...string) (*Runtime, *podnet.Node, error) {
	if len(ranges) == 0 {
		ranges = []string{"10.244.0.0/24", "fd00:10:244::/64"}
	}
	cfg := podnet.Config{StateDir: filepath.Join(dir, "state"), NetnsDir: filepath.Join(dir, "netns"), EtcNetnsDir: filepath.Join(dir, "etc")}
	for _, s := range ranges {
		cfg.PodRanges = append(cfg.PodRanges, netip.MustParsePrefix(s))
	}
	net, err := podnet.New(cfg)
	if err != nil {
		return nil, nil, err
	}
	r, err := New(Config{Net: net, StateDir: filepath.Join(dir, "state"), HostAddrs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}})
	return r, net, err
}

// applyAndHang is a toyproxy that makes a Pod and never returns.
func applyAndHang(ctx context.Context, args []string) error {
	r, _, err := openRuntime(args[0])
	if err != nil {
		return err
	}
	p, err := r.Plan(ctx, []*corev1.Pod{web("web-1")})
	if err == nil {
		err = p.Apply(ctx)
	}
	fmt.Println("applied", err)
	select {}
}

// web is a Pod served by the stand-in.
func web(name string) *corev1.Pod {
	p := program(name)
	p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8080, Protocol: corev1.ProtocolTCP}, {ContainerPort: 5353, Protocol: corev1.ProtocolUDP}}
	return p
}

// program is a Pod that runs a command; without one it just stays.
func program(name string, command ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "web:1", Command: command}}},
	}
}

// sync plans and applies, and fails the test unless the plan then is empty.
func (l *lab) sync(pods ...*corev1.Pod) []*corev1.Pod {
	l.t.Helper()
	if err := l.try(pods...); err != nil {
		l.t.Fatal(err)
	}
	again, err := l.Plan(l.t.Context(), pods)
	if err != nil {
		l.t.Fatal(err)
	}
	for _, c := range again.Changes() {
		l.t.Errorf("second pass: unexpected change: %s", c)
	}
	return again.Pods
}

func (l *lab) try(pods ...*corev1.Pod) error {
	l.t.Helper()
	p, err := l.Plan(l.t.Context(), pods)
	if err != nil {
		l.t.Fatal(err)
	}
	return p.Apply(l.t.Context())
}

func (l *lab) pause(name string) process {
	l.t.Helper()
	rep, exists, err := readReport(reportPath(l.cfg.StateDir, "default", name))
	if err != nil || !exists {
		l.t.Fatalf("no report of %s: %v", name, err)
	}
	return rep.process
}

func (l *lab) report(name string) report {
	l.t.Helper()
	rep, _, err := readReport(reportPath(l.cfg.StateDir, "default", name))
	if err != nil {
		l.t.Fatal(err)
	}
	return rep
}

// ask sends a message to an address and returns the answer.
func ask(t *testing.T, network, to, message string) string {
	t.Helper()
	c, err := net.DialTimeout(network, to, 3*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(3 * time.Second))
	if _, err := io.WriteString(c, message); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 4096)
	n, err := c.Read(b)
	if err != nil {
		t.Fatalf("%s %s: %v", network, to, err)
	}
	return string(b[:n])
}

func poll(t *testing.T, what string, done func() bool) {
	t.Helper()
	const longest = 2 * time.Minute // many times what it takes
	for end := time.Now().Add(longest); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %s", what, longest)
		}
	}
}

func sh(t *testing.T, format string, args ...any) string {
	t.Helper()
	out, err := exec.Command("sh", "-c", fmt.Sprintf(format, args...)).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", fmt.Sprintf(format, args...), err, out)
	}
	return strings.TrimSpace(string(out))
}

func ready(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
