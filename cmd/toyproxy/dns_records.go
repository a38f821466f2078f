package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/cluster/state"
	"github.com/toyproxy/toyproxy/dns"
)

const dnsRecordsLong = `Prints the records of the cluster's zone as a zone file has them: those of the live
objects, or with -f those that the manifests will give. No server is asked.

With NAME only the records of names that are NAME or end in it are printed; a short
name means one below svc.DOMAIN of --namespace.`

// recordsQuestion is what one dns records asks.
type recordsQuestion struct {
	src       sourceFlags
	nf        nodeFlags
	namespace string
	ttl       uint32
	out       outputFlag
}

func dnsRecordsCommand() *cobra.Command {
	var q recordsQuestion
	cmd := &cobra.Command{
		Use:   "records [NAME]",
		Short: "Print the records of the cluster's zone",
		Long:  dnsRecordsLong,
		Example: `  toyproxy dns records
  toyproxy dns records web
  toyproxy dns records -f examples/guestbook.yaml`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, args []string) error { return q.run(cmd, args) },
	}
	q.src.register(cmd)
	q.nf.registerScope(cmd)
	q.out.register(cmd, "json")
	cmd.Flags().StringVarP(&q.namespace, "namespace", "n", "default", "namespace of a short NAME")
	cmd.Flags().Uint32Var(&q.ttl, "ttl", 5, "seconds for which others may keep an answer")
	return cmd
}

func (q *recordsQuestion) run(cmd *cobra.Command, args []string) error {
	l, err := readLook(cmd, &q.src, &q.nf)
	if err != nil {
		return err
	}
	domain := q.src.domain.value
	if l.live {
		domain = keptDomain(cmd, q.src.domain, q.nf.scope().stateDir)
	}
	records := zoneOf(l.Desired, domain, q.ttl).Records()
	if len(args) == 1 {
		records = recordsOf(records, args[0], q.namespace+".svc."+domain)
	}
	w := cmd.OutOrStdout()
	if len(records) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "No records found.")
	}
	if !q.out.isJSON() {
		cols := newColumns(w)
		for _, r := range records {
			cols.row(strings.SplitN(strings.ReplaceAll(r, "\t", " "), " ", 5)...)
		}
		return cols.flush()
	}
	items := make([]recordJSON, 0, len(records))
	for _, r := range records {
		items = append(items, asRecord(r))
	}
	return printJSON(w, items)
}

// recordJSON is a record of the zone.
type recordJSON struct {
	Name string `json:"name"`
	TTL  uint32 `json:"ttl"`
	Type string `json:"type"`
	Data string `json:"data"`
}

func asRecord(text string) recordJSON {
	f := append(strings.SplitN(strings.ReplaceAll(text, "\t", " "), " ", 5), "", "", "", "", "")
	ttl, _ := strconv.ParseUint(f[1], 10, 32)
	return recordJSON{Name: f[0], TTL: uint32(ttl), Type: f[3], Data: f[4]}
}

// recordsOf are the records of a name and of those below it. A name without a dot
// is taken below a domain.
func recordsOf(records []string, name, domain string) []string {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if !strings.Contains(name, ".") {
		name += "." + domain
	}
	return slices.DeleteFunc(records, func(r string) bool {
		owner, _, _ := strings.Cut(strings.ReplaceAll(r, "\t", " "), " ")
		owner = strings.TrimSuffix(owner, ".")
		return owner != name && !strings.HasSuffix(owner, "."+name)
	})
}

// keptDomain is the zone of a node's cluster DNS: what the flag says if it was given,
// else what the node was synced with.
func keptDomain(cmd *cobra.Command, flag checkedString, stateDir string) string {
	if last := state.ReadLast(stateDir); last.ClusterDomain != "" && !cmd.Flags().Changed("cluster-domain") {
		return last.ClusterDomain
	}
	return flag.value
}

// zoneOf is the zone of a set of objects and of the slices made from them.
func zoneOf(d agent.Desired, domain string, ttl uint32) *dns.Zone {
	z := dns.New(dns.Options{Domain: domain, TTL: ttl, Server: dnsServers(d.Objects.Services)})
	objs := cluster.Objects{Services: d.Objects.Services, Pods: d.Pods, EndpointSlices: d.Slices, Namespaces: d.Objects.Namespaces}
	z.Apply(cluster.NewStore().Replace(objs), time.Unix(0, 0))
	return z
}
