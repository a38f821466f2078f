package agent

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/pods"
)

// diary is what the fakes below write down: the order of effects.
type diary struct{ lines []string }

func (d *diary) note(line string) { d.lines = append(d.lines, line) }

// deed is a plan of one change that notes that it was applied.
type deed struct {
	diary *diary
	name  string
	err   error
}

func (d deed) Changes() []dataplane.Change {
	return []dataplane.Change{{Op: dataplane.Add, Object: d.name}}
}

func (d deed) Apply(context.Context) error {
	d.diary.note(d.name)
	return d.err
}

// kernel is a backend that remembers the table it was last asked to plan.
type kernel struct {
	diary *diary
	table dataplane.Table
	err   error
}

func (k *kernel) Render(dataplane.Table) (string, error) { return "", nil }

func (k *kernel) Plan(_ context.Context, t dataplane.Table) (dataplane.Plan, error) {
	k.table = t
	return deed{k.diary, "rules", nil}, k.err
}

func (k *kernel) Remove(context.Context) (dataplane.Plan, error) {
	return deed{k.diary, "remove rules", nil}, k.err
}

func (k *kernel) Leftovers(context.Context) (dataplane.Plan, error) {
	return deed{k.diary, "leftovers", nil}, nil
}

// runtime makes Pods at given addresses; those in broken cannot be made.
type runtime struct {
	diary  *diary
	addrs  map[string]string
	broken error
}

func (r *runtime) at(p *corev1.Pod) *corev1.Pod {
	p = p.DeepCopy()
	p.Status.PodIP = r.addrs[p.Name]
	p.Status.PodIPs = []corev1.PodIP{{IP: p.Status.PodIP}}
	return p
}

func (r *runtime) Plan(_ context.Context, wanted []*corev1.Pod) (pods.Plan, error) {
	plan := pods.Plan{Create: deed{r.diary, "create Pods", r.broken}, Delete: deed{r.diary, "delete Pods", nil}}
	for _, p := range wanted {
		plan.Pods = append(plan.Pods, r.at(p))
	}
	return plan, nil
}

func (r *runtime) List(context.Context) ([]*corev1.Pod, error) {
	return []*corev1.Pod{r.at(pod("web-1"))}, nil
}

func (r *runtime) Remove(context.Context) (dataplane.Plan, error) {
	return deed{r.diary, "remove Pods", nil}, nil
}

// flows notes what it is told, and plans to remove one.
type flows struct {
	diary *diary
	err   error
}

func (f flows) Expect(context.Context, dataplane.Table) error {
	f.diary.note("expect flows")
	return nil
}

func (f flows) Plan(context.Context, dataplane.Table) (dataplane.Plan, error) {
	f.diary.note("read flows")
	return deed{f.diary, "remove flows", nil}, f.err
}

type record struct{ diary *diary }

func (r record) Record(context.Context, Desired) error {
	r.diary.note("record")
	return nil
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": "web"}}}
}

func input() Input {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.96.0.10", ClusterIPs: []string{"10.96.0.10"},
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, Selector: map[string]string{"app": "web"},
			Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080), Protocol: corev1.ProtocolTCP}},
		},
	}
	return Input{Objects: cluster.Objects{Services: []*corev1.Service{svc}, Pods: []*corev1.Pod{pod("web-1"), pod("web-2")}}}
}

func newAgent(d *diary) (*Agent, *kernel, *runtime) {
	k := &kernel{diary: d}
	r := &runtime{diary: d, addrs: map[string]string{"web-1": "10.244.0.2", "web-2": "10.244.0.3"}}
	return &Agent{Node: Node{PodRanges: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}},
		Pods: r, Backend: k, Others: []Leftover{k}, Record: record{d}}, k, r
}

// endpointsOf lists the endpoints of the only set of a table.
func endpointsOf(t *testing.T, table dataplane.Table) []string {
	t.Helper()
	if len(table.Sets) != 1 {
		t.Fatalf("%d endpoint sets, want 1", len(table.Sets))
	}
	var out []string
	for _, e := range table.Sets[0].Endpoints {
		out = append(out, e.Addr.String())
	}
	return out
}

func TestApplyInOrder(t *testing.T) {
	var d diary
	a, k, _ := newAgent(&d)
	p, err := a.Plan(t.Context(), input())
	if err != nil {
		t.Fatal(err)
	}
	if len(d.lines) != 0 {
		t.Fatalf("Plan did something: %v", d.lines)
	}
	if got, want := endpointsOf(t, k.table), []string{"10.244.0.2:8080", "10.244.0.3:8080"}; !slices.Equal(got, want) {
		t.Errorf("endpoints %v, want %v: rules are planned for Pods as they will be", got, want)
	}
	if got := len(p.Changes()); got != 4 {
		t.Errorf("%d changes, want those of all 4 steps", got)
	}
	if err := p.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"create Pods", "rules", "leftovers", "delete Pods", "record"}
	if !slices.Equal(d.lines, want) {
		t.Errorf("effects %v, want %v", d.lines, want)
	}
}

func TestRulesFollowThePodsThatLive(t *testing.T) {
	var d diary
	a, k, r := newAgent(&d)
	r.broken = errors.New("Pod default/web-2: program not found")
	p, err := a.Plan(t.Context(), input())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Apply(t.Context()); !errors.Is(err, r.broken) {
		t.Errorf("Apply: %v, want the Pod's error", err)
	}
	if got, want := endpointsOf(t, k.table), []string{"10.244.0.2:8080"}; !slices.Equal(got, want) {
		t.Errorf("endpoints %v, want %v: the Pod that failed is none", got, want)
	}
	if !slices.Contains(d.lines, "rules") || !slices.Contains(d.lines, "record") {
		t.Errorf("effects %v: the good part was not done", d.lines)
	}
}

func TestFlowsAfterTheRules(t *testing.T) {
	broken := errors.New("no answer")
	tests := []struct {
		name    string
		err     error
		changes int
		want    []string
	}{
		{"stale flows", nil, 1, []string{"create Pods", "expect flows", "rules", "leftovers", "read flows", "remove flows", "delete Pods", "record"}},
		{"unreadable", broken, 0, []string{"create Pods", "expect flows", "rules", "leftovers", "read flows", "delete Pods", "record"}},
		{"unsupported", &dataplane.Unsupported{Feature: "list of tracked flows"}, 0,
			[]string{"create Pods", "expect flows", "rules", "leftovers", "read flows", "delete Pods", "record"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var d diary
			a, _, _ := newAgent(&d)
			a.Flows = flows{&d, tt.err}
			p, err := a.Plan(t.Context(), input())
			if err != nil {
				t.Fatal(err)
			}
			if got := len(p.Changes()); got != 4 || len(d.lines) != 0 {
				t.Errorf("plan: %d changes, effects %v; stale flows are not known yet", got, d.lines)
			}
			unsupported := errors.Is(tt.err, dataplane.ErrUnsupported)
			if err := p.Apply(t.Context()); (err != nil) != (tt.err != nil && !unsupported) {
				t.Errorf("Apply: %v", err)
			}
			if !slices.Equal(d.lines, tt.want) {
				t.Errorf("effects %v, want %v", d.lines, tt.want)
			}
			if len(p.Flows.Changes()) != tt.changes || len(p.Changes()) != 4 || (len(p.Remarks()) == 1) != unsupported {
				t.Errorf("afterwards %d flows, %d changes, remarks %v", len(p.Flows.Changes()), len(p.Changes()), p.Remarks())
			}
		})
	}
}

func TestUnsupportedBackendDoesNothing(t *testing.T) {
	var d diary
	a, k, _ := newAgent(&d)
	k.err = &dataplane.Unsupported{Feature: "IPVS", Missing: "module ip_vs", Mend: "load it"}
	if _, err := a.Plan(t.Context(), input()); !errors.Is(err, dataplane.ErrUnsupported) {
		t.Errorf("Plan: %v, want ErrUnsupported", err)
	}
	if len(d.lines) != 0 {
		t.Errorf("effects %v, want none", d.lines)
	}
}

func TestDownInReverse(t *testing.T) {
	var d diary
	a, _, _ := newAgent(&d)
	p, err := a.Down(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := []string{"remove rules", "leftovers", "remove Pods"}; !slices.Equal(d.lines, want) {
		t.Errorf("effects %v, want %v", d.lines, want)
	}
}

func TestPlace(t *testing.T) {
	free, here, there, remote := pod("free"), pod("here"), pod("there"), pod("remote")
	here.Spec.NodeName, there.Spec.NodeName = "n1", "n2"
	remote.Spec.NodeName, remote.Status.PodIP = "n2", "10.244.1.5"
	placed, problems := Place([]*corev1.Pod{free, here, there, remote}, "n1", nil)
	var got []string
	for _, p := range placed {
		got = append(got, p.Name+"@"+p.Spec.NodeName)
	}
	if want := []string{"free@n1", "here@n1", "remote@n2"}; !slices.Equal(got, want) {
		t.Errorf("placed %v, want %v", got, want)
	}
	if free.Spec.NodeName != "" {
		t.Error("the given Pod was changed, not a copy")
	}
	if len(problems) != 1 || !problems[0].Warning || !strings.Contains(problems[0].String(), "Pod default/there: spec.nodeName") {
		t.Errorf("problems %v, want one warning about there", problems)
	}
}

func TestProblemsArePlaced(t *testing.T) {
	in := input()
	twin := in.Objects.Services[0].DeepCopy()
	twin.Name = "web-twin"
	in.Objects.Services = append(in.Objects.Services, twin)
	in.Locate = func(ref cluster.Ref, field string) cluster.Position {
		return cluster.Position{File: ref.Name + ".yaml", Line: 7}
	}
	d := Resolve(in, Node{}, nil)
	if len(d.Errors()) != 1 || !strings.HasPrefix(d.Errors()[0].String(), "web-twin.yaml:7: Service default/web-twin") {
		t.Errorf("problems %v, want the younger claim of the address, with its place", d.Problems)
	}
}
