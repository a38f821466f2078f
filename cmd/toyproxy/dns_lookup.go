package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	mdns "github.com/miekg/dns"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster/state"
	"github.com/toyproxy/toyproxy/dns"
	"github.com/toyproxy/toyproxy/podnet"
	"github.com/toyproxy/toyproxy/pods"
)

const dnsLookupLong = `Asks for a name as a program in a Pod would: by the servers, the search list and
ndots of its resolv.conf, from its network namespace. Every name that is tried is
shown with its answer, up to the first that has one.

With --from it is asked as that Pod asks; without it from the node, with the search
list that Pods of the namespace have. An address asks for its name (PTR). Exit code
1: no name has an answer.`

// lookupPatience is how long one server is waited for, as resolv.conf(5) has it.
const lookupPatience = 5 * time.Second

// lookup is what one dns lookup asks.
type lookup struct {
	place placeFlags
	from  string
	types []string
	// domain is the zone of cluster DNS, where no Pod says it.
	domain checkedString
	out    outputFlag
}

func dnsLookupCommand() *cobra.Command {
	var l lookup
	cmd := &cobra.Command{
		Use:   "lookup NAME",
		Short: "Ask for a name as a Pod would, and show every name that is tried",
		Long:  dnsLookupLong,
		Example: `  sudo toyproxy dns lookup web --from pod-a
  sudo toyproxy dns lookup ledger.shop --from pod-a
  sudo toyproxy dns lookup _http._tcp.web.default.svc.cluster.local. -t SRV
  sudo toyproxy dns lookup 10.96.0.10`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, args []string) error { return l.run(cmd, args[0]) },
	}
	l.place.register(cmd)
	l.out.register(cmd, "json")
	l.domain = clusterDomain()
	cmd.Flags().Var(&l.domain, "cluster-domain", "zone of cluster DNS, for a lookup from the node")
	cmd.Flags().StringVar(&l.from, "from", "", "who asks: POD or NAMESPACE/POD (default: the node)")
	cmd.Flags().StringSliceVarP(&l.types, "type", "t", nil, "types of records (default A and AAAA, for an address PTR)")
	return cmd
}

// try is one question of a lookup, and what became of it.
type try struct {
	Name   string `json:"name"`
	Type   string `json:"type"`
	Server string `json:"server"`
	// Status is a response code such as NOERROR, or what went wrong.
	Status string `json:"status"`
	// Records are those of the answer section, as in a zone file.
	Records []string `json:"records"`
}

func (l *lookup) run(cmd *cobra.Command, name string) error {
	names, kinds, err := l.questions(name)
	if err != nil {
		return exit(exitUsage, err)
	}
	if os.Geteuid() == 0 {
		if err := enterNamespace(l.place.nf.netns.value); err != nil {
			return err
		}
	}
	namespace, conf, err := l.resolver(cmd)
	if err != nil {
		return err
	}
	if names == nil {
		names = dns.Candidates(name, conf.Search, conf.Ndots())
	}
	tries, err := lookUp(cmd.Context(), namespace, conf.Servers, names, kinds)
	if err != nil {
		return err
	}
	if err := l.print(cmd.OutOrStdout(), tries); err != nil {
		return err
	}
	if !slices.ContainsFunc(tries, func(t try) bool { return len(t.Records) > 0 }) {
		return fmt.Errorf("%s: none of the names tried has an answer", name)
	}
	return nil
}

// questions are the types to ask for, and for an address the one name.
func (l *lookup) questions(name string) (names []string, kinds []uint16, err error) {
	asked := l.types
	if _, err := netip.ParseAddr(name); err == nil {
		reverse, err := mdns.ReverseAddr(name)
		if err != nil {
			return nil, nil, fmt.Errorf("reverse name of %s: %w", name, err)
		}
		names = []string{reverse}
		if len(asked) == 0 {
			asked = []string{"PTR"}
		}
	}
	if len(asked) == 0 {
		asked = []string{"A", "AAAA"}
	}
	for _, t := range asked {
		kind, ok := mdns.StringToType[strings.ToUpper(t)]
		if !ok {
			return nil, nil, fmt.Errorf("there is no record type %q: use A, AAAA, SRV, PTR, CNAME, TXT, NS or SOA", t)
		}
		kinds = append(kinds, kind)
	}
	if _, ok := mdns.IsDomainName(name); !ok {
		return nil, nil, fmt.Errorf("%q is no domain name: labels of at most 63 characters, with dots between them", name)
	}
	return names, kinds, nil
}

// resolver is the namespace to ask from, empty for the current one, and what
// resolv.conf says there.
func (l *lookup) resolver(cmd *cobra.Command) (namespace string, conf podnet.DNS, err error) {
	if l.from == "" {
		conf, err = l.nodeResolver(keptDomain(cmd, l.domain, l.place.stateDir()))
		return "", conf, err
	}
	id := types.NamespacedName{Namespace: l.place.namespace, Name: l.from}
	if ns, pod, ok := strings.Cut(l.from, "/"); ok {
		id = types.NamespacedName{Namespace: ns, Name: pod}
	}
	p, err := pods.LoadPod(l.place.stateDir(), id)
	if err != nil {
		return "", conf, err
	}
	if !p.Spec.HostNetwork {
		namespace = pods.NetworkName(p.Namespace, p.Name)
	}
	text, err := os.ReadFile(filepath.Join(podnet.DefaultEtcNetnsDir, cmp.Or(namespace, "none"), "resolv.conf"))
	if errors.Is(err, os.ErrNotExist) {
		text, err = os.ReadFile("/etc/resolv.conf")
	}
	if err != nil {
		return "", conf, fmt.Errorf("resolv.conf of Pod %s: %w", id, err)
	}
	if conf = podnet.ParseDNS(string(text)); len(conf.Servers) == 0 {
		return "", conf, fmt.Errorf("Pod %s has no name server: there was no Service kube-system/kube-dns when it was made", id)
	}
	return namespace, conf, nil
}

// nodeResolver asks cluster DNS from the node, with a Pod's search list.
func (l *lookup) nodeResolver(domain string) (podnet.DNS, error) {
	services, err := state.Open(l.place.stateDir(), "services", func() *corev1.Service { return &corev1.Service{} }).List()
	if err := skipDamaged(err); err != nil {
		return podnet.DNS{}, err
	}
	servers := dnsServers(services)
	if len(servers) == 0 {
		return podnet.DNS{}, errors.New("this node has no cluster DNS: there is no Service kube-system/kube-dns; examples/dns.yaml is one")
	}
	search := []string{l.place.namespace + ".svc." + domain, "svc." + domain, domain}
	return podnet.DNS{Servers: servers, Search: search, Options: []string{"ndots:5"}}, nil
}

// lookUp asks for each name in turn, all types of it, until one has an answer.
func lookUp(ctx context.Context, namespace string, servers []netip.Addr, names []string, kinds []uint16) (tries []try, err error) {
	for _, name := range names {
		found := false
		for _, kind := range kinds {
			t := try{Name: name, Type: mdns.TypeToString[kind]}
			if err := t.ask(ctx, namespace, servers, kind); err != nil {
				return nil, err
			}
			found = found || len(t.Records) > 0
			tries = append(tries, t)
		}
		if found {
			break
		}
	}
	return tries, nil
}

// ask puts one question to the servers in turn, until one has said something. The
// error is one of entering the namespace; what else fails is the status.
func (t *try) ask(ctx context.Context, namespace string, servers []netip.Addr, kind uint16) error {
	question := new(mdns.Msg)
	question.SetQuestion(t.Name, kind)
	question.SetEdns0(1232, false)
	for _, server := range servers {
		t.Server = server.String()
		var answer *mdns.Msg
		var failed error
		exchange := func() error {
			answer, failed = exchangeDNS(ctx, question, server)
			return nil
		}
		enter := func() error { return podnet.Do(namespace, exchange) }
		if namespace == "" {
			enter = exchange
		}
		if err := enter(); err != nil {
			return err
		}
		if failed != nil {
			t.Status = failed.Error()
			continue
		}
		t.Status = mdns.RcodeToString[answer.Rcode]
		for _, rr := range answer.Answer {
			t.Records = append(t.Records, rr.String())
		}
		return nil
	}
	return nil
}

// exchangeDNS asks one server from the namespace of the calling thread: by UDP, and
// by TCP when the answer is too long for that.
func exchangeDNS(ctx context.Context, question *mdns.Msg, server netip.Addr) (*mdns.Msg, error) {
	at := netip.AddrPortFrom(server, 53).String()
	var answer *mdns.Msg
	for _, network := range []string{"udp", "tcp"} {
		client := mdns.Client{Net: network, Timeout: lookupPatience}
		conn, err := client.DialContext(ctx, at)
		if err != nil {
			return nil, err
		}
		answer, _, err = client.ExchangeWithConnContext(ctx, question, conn)
		_ = conn.Close()
		if err != nil {
			return nil, err
		}
		if !answer.Truncated {
			break
		}
	}
	return answer, nil
}

func (l *lookup) print(w io.Writer, tries []try) error {
	if l.out.isJSON() {
		for i := range tries {
			tries[i].Records = append([]string{}, tries[i].Records...)
		}
		return printJSON(w, tries)
	}
	cols := newColumns(w)
	cols.row("NAME", "TYPE", "SERVER", "STATUS", "TTL", "ANSWER")
	for _, t := range tries {
		if len(t.Records) == 0 {
			cols.row(t.Name, t.Type, t.Server, t.Status, "", "")
		}
		for _, record := range t.Records {
			r := asRecord(record)
			data := r.Type + " " + r.Data
			if r.Name != t.Name {
				data = r.Name + " " + data // behind a CNAME
			}
			cols.row(t.Name, t.Type, t.Server, t.Status, strconv.FormatUint(uint64(r.TTL), 10), data)
		}
	}
	return cols.flush()
}
