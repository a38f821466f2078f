package dns

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	mdns "github.com/miekg/dns"
)

// TestAnswersWhileItChanges: answers are those of before or of after a change, never of
// something between, and Apply has been seen once it returns.
func TestAnswersWhileItChanges(t *testing.T) {
	z := newZone(svc("hl", "None"), svc("web", "10.96.0.10", "http:80"))
	rounds := [][]string{{"10.0.0.1", "10.0.0.2", "10.0.0.3"}, {"10.0.1.1", "10.0.1.2"}}
	z.Load(came(eps("hl", "a", "http:80", rounds[0]...)), noon)
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for open := true; open; {
				select {
				case <-done:
					open = false
				default:
				}
				if got := addrsOf(z, "hl.default.svc.cluster.local."); !slices.Equal(got, rounds[0]) && !slices.Equal(got, rounds[1]) {
					t.Errorf("neither before nor after: %v", got)
					return
				}
				z.Answer(mdns.Question{Name: "_http._tcp.web.default.svc.cluster.local.", Qtype: mdns.TypeSRV, Qclass: mdns.ClassINET})
				z.Answer(mdns.Question{Name: "1.0.0.10.in-addr.arpa.", Qtype: mdns.TypePTR, Qclass: mdns.ClassINET})
			}
		})
	}
	for i := range 300 {
		want := rounds[i%2]
		z.Apply(came(eps("hl", "a", "http:80", want...), svc("web", fmt.Sprintf("10.96.0.%d", 1+i%200), "http:80"), pod("p", want[0])), noon)
		if got := addrsOf(z, "hl.default.svc.cluster.local."); !slices.Equal(got, want) {
			t.Errorf("after Apply: %v, want %v", got, want)
		}
		if i%100 == 0 {
			z.Records()
		}
	}
	close(done)
	readers.Wait()
}

func addrsOf(z *Zone, name string) []string {
	var out []string
	for _, rr := range z.Answer(mdns.Question{Name: name, Qtype: mdns.TypeA, Qclass: mdns.ClassINET}).Answer {
		out = append(out, strings.Fields(rr.String())[4])
	}
	return out
}

// TestAnswersAreTheCallers: what a server does to records it was given is not seen by
// others.
func TestAnswersAreTheCallers(t *testing.T) {
	z := specified()
	for _, q := range []string{"kubernetes.default.svc.cluster.local. A", "headless.default.svc.cluster.local. AAAA", "_https._tcp.headless.default.svc.cluster.local. SRV",
		"nope.cluster.local. A", "foo.default.svc.cluster.local. A", "1.0.3.10.in-addr.arpa. PTR", "cluster.local. NS"} {
		before := ask(z, q)
		name, typ, _ := strings.Cut(q, " ")
		a := z.Answer(mdns.Question{Name: name, Qtype: mdns.StringToType[typ], Qclass: mdns.ClassINET})
		for _, rr := range slices.Concat(a.Answer, a.Authority, a.Extra) {
			rr.Header().Ttl, rr.Header().Name = 77, "changed."
			switch rr := rr.(type) {
			case *mdns.A:
				rr.A[0]++
			case *mdns.AAAA:
				rr.AAAA[0]++
			}
		}
		if after := ask(z, q); after != before {
			t.Errorf("%s:\n%s\nand now\n%s", q, before, after)
		}
	}
}

// FuzzAnswer: no name, of whatever bytes, makes a panic; what is answered is asked for.
func FuzzAnswer(f *testing.F) {
	z := specified()
	for _, r := range z.Records() {
		fields := strings.Fields(r)
		f.Add(fields[0], mdns.StringToType[fields[3]], uint16(mdns.ClassINET))
	}
	f.Add(`a\.b.cluster.local.`, mdns.TypeA, uint16(mdns.ClassCHAOS))
	f.Add("_._.x.default.svc.cluster.local", mdns.TypeSRV, uint16(mdns.ClassANY))
	f.Fuzz(func(t *testing.T, name string, qtype, qclass uint16) {
		a := z.Answer(mdns.Question{Name: name, Qtype: qtype, Qclass: qclass})
		if !a.Ours && (a.Rcode != 0 || len(a.Answer)+len(a.Authority)+len(a.Extra) > 0) {
			t.Errorf("%q: not ours, and yet %+v", name, a)
		}
		if len(a.Answer) == 0 {
			return
		}
		if got := a.Answer[0].Header(); got.Name != mdns.Fqdn(name) || got.Rrtype != qtype && got.Rrtype != mdns.TypeCNAME {
			t.Errorf("%q %s: answered %s", name, mdns.Type(qtype), got)
		}
		m := new(mdns.Msg)
		m.Answer, m.Ns, m.Extra = a.Answer, a.Authority, a.Extra
		if _, err := m.Pack(); err != nil {
			t.Errorf("%q: the answer cannot be sent: %v", name, err)
		}
	})
}
