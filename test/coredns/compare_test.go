package coredns

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	mdns "github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/dns"
	"github.com/toyproxy/toyproxy/test/coredns/apiserver"
)

const (
	seed      = 20261201
	questions = 7000
	// afterwards is the number of questions after the cluster has changed.
	afterwards = 3000
)

// reply is what one of the two says, in a form that can be compared.
type reply struct {
	rcode                    int
	answer, authority, extra []string
}

func (r reply) String() string {
	return fmt.Sprintf("%s\n  answer    %s\n  authority %s\n  extra     %s", mdns.RcodeToString[r.rcode],
		strings.Join(r.answer, "\n            "), strings.Join(r.authority, "\n            "), strings.Join(r.extra, "\n            "))
}

// texts are records as text, sorted; a SOA without its serial, which is a time.
func texts(rrs []mdns.RR) []string {
	var out []string
	for _, rr := range rrs {
		if soa, ok := rr.(*mdns.SOA); ok {
			copied := *soa
			copied.Serial = 0
			rr = &copied
		}
		out = append(out, strings.Join(strings.Fields(rr.String()), " "))
	}
	slices.Sort(out)
	return out
}

func theirs(m *mdns.Msg) reply {
	return reply{m.Rcode, texts(m.Answer), texts(m.Ns), texts(m.Extra)}
}

// ours is the zone's answer, completed as a server completes it.
func ours(z *dns.Zone, q mdns.Question) reply {
	a := z.Answer(q)
	switch {
	case !a.Ours && q.Qclass != mdns.ClassINET:
		a.Rcode = mdns.RcodeRefused
	case !a.Ours:
		a.Rcode, a.Answer = upstream(q)
	case a.Chase != "":
		rcode, rest := upstream(mdns.Question{Name: a.Chase, Qtype: q.Qtype, Qclass: q.Qclass})
		a.Rcode, a.Answer = rcode, append(a.Answer, rest...)
	}
	return reply{a.Rcode, texts(a.Answer), texts(a.Authority), texts(a.Extra)}
}

func event(obj metav1.Object) cluster.Event {
	kind := cluster.Namespace
	switch obj.(type) {
	case *corev1.Service:
		kind = cluster.Service
	case *corev1.Pod:
		kind = cluster.Pod
	case *discoveryv1.EndpointSlice:
		kind = cluster.EndpointSlice
	}
	return cluster.Event{Object: cluster.MakeRef(kind, obj.GetNamespace(), obj.GetName()), New: obj}
}

// ownAddrs are this machine's, but for those of loopback: CoreDNS takes them for its own.
func ownAddrs(t *testing.T) []netip.Addr {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	var out []netip.Addr
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil && !p.Addr().IsLoopback() {
			out = append(out, p.Addr().Unmap())
		}
	}
	return out
}

// bench is the two of them with one cluster.
type bench struct {
	*generator
	api   *apiserver.Server
	zone  *dns.Zone
	judge *judge
}

func newBench(t *testing.T) *bench {
	b := &bench{generator: newCluster(seed), api: apiserver.New()}
	b.zone = dns.New(dns.Options{Domain: domain, TTL: 5, Server: ownAddrs(t)})
	for _, obj := range b.objects {
		b.set(t, obj)
	}
	b.judge = startJudge(t, b.api, startUpstream(t))
	return b
}

func (b *bench) set(t *testing.T, obj metav1.Object) {
	t.Helper()
	if err := b.api.Set(obj); err != nil {
		t.Fatal(err)
	}
	b.zone.Apply([]cluster.Event{event(obj)}, time.Unix(1_800_000_000, 0))
}

func (b *bench) delete(t *testing.T, obj metav1.Object) {
	t.Helper()
	if err := b.api.Delete(obj); err != nil {
		t.Fatal(err)
	}
	e := event(obj)
	e.Old, e.New = e.New, nil
	b.zone.Apply([]cluster.Event{e}, time.Unix(1_800_000_000, 0))
	b.remove(obj)
}

// TestAnswersAgree: for thousands of questions both answer alike, but for the differences
// that the table explains; each row of it is met.
func TestAnswersAgree(t *testing.T) {
	b := newBench(t)
	table := readTable(t)
	b.compare(t, table, questions)
	b.change(t)
	b.compare(t, table, afterwards)
	table.finish(t)
}

func (b *bench) compare(t *testing.T, table *table, n int) {
	t.Helper()
	began := time.Now()
	var equal int
	asked := b.questions(n)
	for _, q := range asked {
		c := meeting{bench: b, q: q, theirs: theirs(b.judge.ask(t, q)), ours: ours(b.zone, q)}
		if c.theirs.String() == c.ours.String() {
			equal++
			continue
		}
		table.explain(t, c)
	}
	t.Logf("%d questions in %.1f s: %d answered alike", len(asked), time.Since(began).Seconds(), equal)
}
