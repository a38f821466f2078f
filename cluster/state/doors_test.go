package state

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/toyproxy/toyproxy/cluster"
)

func ingressFor(host string) *networkingv1.Ingress {
	return &networkingv1.Ingress{ObjectMeta: meta("web"), Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{Host: host}}}}
}

func notLocal(*corev1.Pod) bool { return false }

// TestStatusStays writes an Ingress, its status, and the Ingress again: what a
// manifest says and what a server says never undo each other.
func TestStatusStays(t *testing.T) {
	dir := t.TempDir()
	live, doors, name := OpenLive(dir), OpenDoors(dir), types.NamespacedName{Namespace: "default", Name: "web"}
	event := func(i *networkingv1.Ingress) []cluster.Event {
		return []cluster.Event{{Object: cluster.MakeRef(cluster.Ingress, "default", "web"), New: i}}
	}
	steps := []struct {
		name       string
		do         func() error
		host, ip   string
		generation int64
	}{
		{"made", func() error {
			return live.Write(cluster.Objects{Ingresses: []*networkingv1.Ingress{ingressFor("a.example")}}, notLocal, time.Unix(1000, 0))
		}, "a.example", "", 1},
		{"a server gives it an address", func() error {
			return doors.Ingresses.Update(name, func(old *networkingv1.Ingress, exists bool) (*networkingv1.Ingress, bool) {
				old.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{IP: "203.0.113.1"}}
				return old, exists
			})
		}, "a.example", "203.0.113.1", 1},
		{"the same manifest", func() error {
			return live.Write(cluster.Objects{Ingresses: []*networkingv1.Ingress{ingressFor("a.example")}}, notLocal, time.Unix(2000, 0))
		}, "a.example", "203.0.113.1", 1},
		{"the same as an event", func() error { return live.WriteEvents(event(ingressFor("a.example")), notLocal, time.Unix(2000, 0)) }, "a.example", "203.0.113.1", 1},
		{"another manifest", func() error { return live.WriteEvents(event(ingressFor("b.example")), notLocal, time.Unix(3000, 0)) }, "b.example", "203.0.113.1", 2},
	}
	for _, s := range steps {
		before, _ := os.Stat(doors.Ingresses.file(name))
		if err := s.do(); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		i, err := doors.Ingresses.Load(name)
		ip := ""
		for _, in := range i.Status.LoadBalancer.Ingress {
			ip = in.IP
		}
		if err != nil || i.Spec.Rules[0].Host != s.host || ip != s.ip || i.Generation != s.generation || i.CreationTimestamp.Unix() != 1000 {
			t.Errorf("%s: %v; %+v", s.name, err, i)
		}
		after, err := os.Stat(doors.Ingresses.file(name))
		if same := strings.HasPrefix(s.name, "the same"); err != nil || before != nil && os.SameFile(before, after) != same {
			t.Errorf("%s: the file is written anew only when something changed (%v)", s.name, err)
		}
	}
	if err := live.WriteEvents([]cluster.Event{{Object: event(nil)[0].Object}}, notLocal, time.Unix(3000, 0)); err != nil {
		t.Fatal(err)
	}
	if all, err := doors.Read(); err != nil || len(all.Ingresses) != 0 {
		t.Errorf("after its deletion: %v, %v", all.Ingresses, err)
	}
}

// TestDoorsOfAllKinds writes, reads and removes one object of each kind.
func TestDoorsOfAllKinds(t *testing.T) {
	dir := t.TempDir()
	live, cluster1 := OpenLive(dir), metav1.ObjectMeta{Name: "web"}
	objs := cluster.Objects{
		Ingresses:       []*networkingv1.Ingress{{ObjectMeta: meta("web")}},
		IngressClasses:  []*networkingv1.IngressClass{{ObjectMeta: cluster1}},
		GatewayClasses:  []*gatewayv1.GatewayClass{{ObjectMeta: cluster1}},
		Gateways:        []*gatewayv1.Gateway{{ObjectMeta: meta("web")}},
		HTTPRoutes:      []*gatewayv1.HTTPRoute{{ObjectMeta: meta("web")}},
		ReferenceGrants: []*gatewayv1.ReferenceGrant{{ObjectMeta: meta("web")}},
	}
	if err := live.Write(objs, notLocal, time.Unix(1000, 0)); err != nil {
		t.Fatal(err)
	}
	got, err := live.Read()
	refs := map[cluster.Kind]string{}
	for ref := range got.Refs() {
		refs[ref.Kind] = ref.String()
	}
	for _, kind := range DoorKinds() {
		if refs[kind] == "" || err != nil {
			t.Errorf("%s: %q, %v", kind, refs[kind], err)
		}
	}
	for _, name := range DoorDirs() {
		if files, _ := filepath.Glob(filepath.Join(dir, name, "*.json")); len(files) != 1 {
			t.Errorf("%s: %v", name, files)
		}
	}
	if err := live.Write(cluster.Objects{}, notLocal, time.Unix(1000, 0)); err != nil {
		t.Fatal(err)
	}
	got, err = live.Read()
	for ref := range got.Refs() {
		t.Errorf("%s is still there (%v)", ref, err)
	}
}
