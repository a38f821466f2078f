package dns

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	mdns "github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/google/go-cmp/cmp"

	"github.com/toyproxy/toyproxy/cluster"
)

func TestChangesTellTheirRecords(t *testing.T) {
	z := newZone()
	web := svc("web", "10.96.0.10", "http:80")
	changes := z.Apply(came(web, namespace("default"), pod("p", "10.0.0.1")), noon)
	expected := []Change{
		{Object: cluster.MakeRef(cluster.Service, "default", "web"), Added: []string{
			"10.0.96.10.in-addr.arpa. 5 IN PTR web.default.svc.cluster.local.",
			"_http._tcp.web.default.svc.cluster.local. 5 IN SRV 0 100 80 web.default.svc.cluster.local.",
			"web.default.svc.cluster.local. 5 IN A 10.96.0.10",
			"web.default.svc.cluster.local. 5 IN SRV 0 100 80 web.default.svc.cluster.local.",
		}},
		{Object: cluster.MakeRef(cluster.Pod, "default", "p"), Added: []string{"10-0-0-1.default.pod.cluster.local. 5 IN A 10.0.0.1"}},
	}
	if diff := cmp.Diff(expected, changes); diff != "" {
		t.Error(diff)
	}
	moved := svc("web", "10.96.0.11", "http:80")
	changes = z.Apply([]cluster.Event{{Object: refOf(web), Old: web, New: moved}}, noon)
	expected = []Change{{Object: refOf(web),
		Added:   []string{"11.0.96.10.in-addr.arpa. 5 IN PTR web.default.svc.cluster.local.", "web.default.svc.cluster.local. 5 IN A 10.96.0.11"},
		Removed: []string{"10.0.96.10.in-addr.arpa. 5 IN PTR web.default.svc.cluster.local.", "web.default.svc.cluster.local. 5 IN A 10.96.0.10"}}}
	if diff := cmp.Diff(expected, changes); diff != "" {
		t.Error(diff)
	}
	if again := z.Apply(came(moved, pod("p", "10.0.0.1")), noon); again != nil {
		t.Errorf("told again, with effect: %v", again)
	}
	if changes = z.Apply(gone(moved), noon); len(changes) != 1 || len(changes[0].Removed) != 4 || changes[0].Added != nil {
		t.Errorf("removal: %v", changes)
	}
	if got := ask(z, "web.default.svc.cluster.local A"); got != "NXDOMAIN\nauthority cluster.local. SOA" {
		t.Errorf("removed, and answers %s", got)
	}
}

// TestPodsThatEnd: a Pod keeps its name while it terminates, and loses it when it has
// ended; one of two Pods with the node's address leaves the name to the other.
func TestPodsThatEnd(t *testing.T) {
	z := newZone(pod("a", "10.0.0.1"), pod("h1", "192.0.2.1"), pod("h2", "192.0.2.1"))
	ending := pod("a", "10.0.0.1")
	ending.DeletionTimestamp = &metav1.Time{Time: noon}
	if c := z.Apply(came(ending), noon); c != nil {
		t.Errorf("terminating: %v", c)
	}
	ended := pod("a", "10.0.0.1")
	ended.Status.Phase = corev1.PodSucceeded
	if c := z.Apply(came(ended), noon); len(c) != 1 || len(c[0].Removed) != 1 {
		t.Errorf("ended: %v", c)
	}
	if c := z.Apply(gone(pod("h1")), noon); c != nil {
		t.Errorf("the address is still the other's: %v", c)
	}
	if c := z.Apply(gone(pod("h2")), noon); len(c) != 1 {
		t.Errorf("the last of the address: %v", c)
	}
}

func TestSerial(t *testing.T) {
	z := newZone(svc("web", "10.96.0.10"))
	serial := func() uint32 {
		return z.Answer(mdns.Question{Name: "cluster.local.", Qtype: mdns.TypeSOA, Qclass: mdns.ClassINET}).Answer[0].(*mdns.SOA).Serial
	}
	if serial() != uint32(noon.Unix()) {
		t.Errorf("serial %d", serial())
	}
	z.Apply(nil, noon.Add(time.Hour))
	if serial() != uint32(noon.Unix()) {
		t.Error("nothing happened, and the serial moved")
	}
	z.Apply(came(svc("db", "10.96.0.11")), noon.Add(time.Hour))
	if serial() != uint32(noon.Unix())+3600 {
		t.Errorf("serial %d", serial())
	}
}

// drawn draws an object out of few names and addresses, so that all meet.
func drawn(t *rapid.T) metav1.Object {
	name := rapid.SampledFrom([]string{"web", "any", "hl", "kube-dns.kube-system", "web.shop", "hl.shop"}).Draw(t, "name")
	addr := rapid.SampledFrom([]string{"10.0.0.1", "10.0.0.2", "fd00::1", "fd00::", "192.0.2.1"})
	ports := rapid.SampledFrom([]string{"", "http:80", "http:80,:81", "dns:53/udp,dns:53", "http:8080,HTTP:80"})
	switch rapid.IntRange(0, 6).Draw(t, "kind") {
	case 0, 1:
		ips := rapid.SampledFrom([]string{"None", "10.96.0.1", "10.96.0.2,fd00:96::1", "10.0.0.1", "name:example.com", "name:web.default.svc.cluster.local",
			"name:1.2.3.4", ""}).Draw(t, "ips")
		s := svc(name, ips, strings.Split(ports.Draw(t, "ports"), ",")...)
		s.Spec.PublishNotReadyAddresses = rapid.Bool().Draw(t, "publish")
		return s
	case 2, 3, 4:
		var endpoints []string
		for range rapid.IntRange(0, 3).Draw(t, "endpoints") {
			endpoints = append(endpoints, rapid.SampledFrom([]string{"", "!"}).Draw(t, "ready")+addr.Draw(t, "endpoint")+
				rapid.SampledFrom([]string{"", "", "=pet", "=Pet"}).Draw(t, "host"))
		}
		// the slice's own name does not tell its Service: that may change
		s := eps(name, "x", ports.Draw(t, "ports"), endpoints...)
		s.Name = rapid.SampledFrom([]string{"s1", "s2", "s3"}).Draw(t, "slice")
		return s
	case 5:
		p := pod(rapid.SampledFrom([]string{"p", "q", "r.shop"}).Draw(t, "pod"), addr.Draw(t, "ip"), addr.Draw(t, "ip2"))
		if rapid.IntRange(0, 4).Draw(t, "ends") == 0 {
			p.Status.Phase = corev1.PodFailed
		}
		return p
	}
	return namespace(rapid.SampledFrom([]string{"default", "shop", "empty"}).Draw(t, "namespace"))
}

// TestZoneFollowsEvents: after any events the zone is the one that is built from the
// objects, and the changes sum to the difference.
func TestZoneFollowsEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var options Options
		options.Domain, options.TTL = "cluster.local", 5
		z := New(options)
		live := map[cluster.Ref]metav1.Object{}
		sum := map[string]bool{}
		for range rapid.IntRange(1, 25).Draw(t, "events") {
			obj := drawn(t)
			ref := refOf(obj)
			e := cluster.Event{Object: ref, Old: live[ref], New: obj}
			if live[ref] != nil && rapid.IntRange(0, 2).Draw(t, "goes") == 0 {
				e.New = nil
				delete(live, ref)
			} else {
				live[ref] = obj
			}
			for _, c := range z.Apply([]cluster.Event{e}, noon) {
				sumUp(t, sum, c)
			}
		}
		fresh := New(options)
		fresh.Load(came(slices.Collect(maps.Values(live))...), noon)
		if diff := cmp.Diff(withoutSerial(fresh.Records()), withoutSerial(z.Records())); diff != "" {
			t.Fatalf("built anew (-) and by events (+):\n%s", diff)
		}
		empty := New(options).Records()
		if diff := cmp.Diff(withoutSerial(z.Records()), withoutSerial(append(empty, slices.Collect(maps.Keys(sum))...))); diff != "" {
			t.Fatalf("the zone (-) and the sum of its changes (+):\n%s", diff)
		}
		sameInside(t, fresh, z)
		answersAreRecords(t, z)
		namesAreOwners(t, z)
	})
}

// sumUp adds a change: nothing comes that is there, nothing goes that is not.
func sumUp(t *rapid.T, sum map[string]bool, c Change) {
	for _, r := range c.Removed {
		if !sum[r] {
			t.Fatalf("%v removes %s, which is not there", c.Object, r)
		}
		delete(sum, r)
	}
	for _, r := range c.Added {
		if sum[r] {
			t.Fatalf("%v adds %s, which is there", c.Object, r)
		}
		sum[r] = true
	}
}

func withoutSerial(records []string) []string {
	out := slices.DeleteFunc(slices.Clone(records), func(r string) bool { return strings.Contains(r, " SOA ") })
	slices.Sort(out)
	return out
}

// sameInside: nothing is forgotten, and nothing is kept of what has gone.
func sameInside(t *rapid.T, a, b *Zone) {
	if diff := cmp.Diff(a.spaces, b.spaces, cmp.AllowUnexported(space{})); diff != "" {
		t.Fatalf("namespaces: %s", diff)
	}
	if len(a.owners) != len(b.owners) || len(a.shared) != len(b.shared) || len(a.services) != len(b.services) ||
		len(a.pods) != len(b.pods) || len(a.podAddrs) != len(b.podAddrs) || len(a.sliceOf) != len(b.sliceOf) {
		t.Fatalf("sizes differ")
	}
}

// answersAreRecords: asked for each name and type, the zone answers its records and no
// others.
func answersAreRecords(t *rapid.T, z *Zone) {
	records, aliases := map[string][]string{}, map[string]bool{}
	owners := map[string]bool{"ns.dns.cluster.local.": true}
	for _, r := range withoutSerial(z.Records()) {
		f := strings.Fields(strings.ToLower(r))
		owners[f[0]] = true
		aliases[f[0]] = aliases[f[0]] || f[3] == "cname"
		records[f[0]+" "+f[3]] = append(records[f[0]+" "+f[3]], strings.ToLower(r))
	}
	for owner := range owners {
		for _, typ := range []string{"a", "aaaa", "srv", "ptr", "cname", "txt", "ns"} {
			if aliases[owner] && typ != "cname" {
				continue // followed to its end: TestExternalNames
			}
			a := z.Answer(mdns.Question{Name: owner, Qtype: mdns.StringToType[strings.ToUpper(typ)], Qclass: mdns.ClassINET})
			var got []string
			for _, rr := range a.Answer {
				got = append(got, strings.ToLower(strings.Join(strings.Fields(rr.String()), " ")))
			}
			slices.Sort(got)
			expected := slices.Sorted(slices.Values(records[owner+" "+typ]))
			if diff := cmp.Diff(expected, got); diff != "" {
				t.Fatalf("%s %s: records (-) and answer (+):\n%s", owner, typ, diff)
			}
		}
	}
}

// namesAreOwners: a name exists if it owns a record, or stands above one that does, or is
// a namespace; and no other.
func namesAreOwners(t *rapid.T, z *Zone) {
	exists := map[string]bool{"svc.cluster.local.": true, "pod.cluster.local.": true, "ns.dns.cluster.local.": true, "dns.cluster.local.": true}
	for name := range z.spaces {
		exists[name+".svc.cluster.local."], exists[name+".pod.cluster.local."] = true, true
	}
	near := []string{"nope.cluster.local.", "nope.svc.cluster.local.", "nope.default.svc.cluster.local."}
	for _, r := range z.Records() {
		owner := strings.ToLower(strings.Fields(r)[0])
		for name := owner; strings.HasSuffix(name, "cluster.local."); _, name, _ = strings.Cut(name, ".") {
			exists[name] = true
			near = append(near, name, "x."+name, "*."+name, "_tcp."+name, "_udp."+name, "_http._tcp."+name, "10-0-0-1."+name, "a.b."+name)
		}
	}
	for _, name := range near {
		for _, qtype := range []uint16{mdns.TypeA, mdns.TypeTXT, mdns.TypeSOA} {
			a := z.Answer(mdns.Question{Name: name, Qtype: qtype, Qclass: mdns.ClassINET})
			alias := len(a.Answer) > 0 && a.Answer[0].Header().Rrtype == mdns.TypeCNAME // the code is its target's
			if missing := a.Rcode == mdns.RcodeNameError && !alias; missing == exists[name] {
				t.Fatalf("%s %s: %s, but it exists: %v", name, mdns.Type(qtype), mdns.RcodeToString[a.Rcode], exists[name])
			}
		}
	}
}
