package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/meter"
	"github.com/toyproxy/toyproxy/top"
)

// topOptions say what top shows.
type topOptions struct {
	src                   sourceFlags
	nf                    nodeFlags
	interval              time.Duration
	once, endpoints       bool
	order, filter, namesp string
	out                   outputFlag
}

func topCommand() *cobra.Command {
	var o topOptions
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show what Services carry now, and how endpoints share it",
		Long: `A live table of Services: connections and bytes a second, open connections, and
the share of each endpoint. The kernel counts, whatever the backend; run need not
run. Without a terminal, or with --once, it prints one table after one interval.`,
		Example: `  sudo toyproxy top
  sudo toyproxy top --once --endpoints
  sudo toyproxy top --once -o json --interval 5s`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := needRoot("top"); err != nil {
				return err
			}
			if o.interval < 100*time.Millisecond {
				return exit(exitUsage, fmt.Errorf("--interval %s is too short: at least 100ms", o.interval))
			}
			if err := enterNamespace(o.nf.netns.value); err != nil {
				return err
			}
			return runTop(cmd, &o)
		},
	}
	o.register(cmd)
	return cmd
}

func (o *topOptions) register(cmd *cobra.Command) {
	o.src.register(cmd)
	o.nf.registerScope(cmd)
	fl := cmd.Flags()
	fl.DurationVar(&o.interval, "interval", 2*time.Second, "what is counted in this time is shown")
	fl.BoolVar(&o.once, "once", false, "print one table and end")
	fl.BoolVar(&o.endpoints, "endpoints", false, "with --once: a line for each endpoint")
	order := orderFlag{&o.order}
	o.order = string(top.ByConnections)
	fl.Var(order, "sort", "connections, bytes, active or name")
	_ = cmd.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(top.Orders(), cobra.ShellCompDirectiveNoFileComp))
	fl.StringVar(&o.filter, "filter", "", "only Services with this in their name, protocol or Pods")
	fl.StringVarP(&o.namesp, "namespace", "n", "", "only Services of this namespace (default: all)")
	o.out.register(cmd, "json")
}

// orderFlag is the value of --sort.
type orderFlag struct{ value *string }

// Set implements pflag.Value.
func (o orderFlag) Set(v string) error {
	for _, known := range top.Orders() {
		if v == known {
			*o.value = v
			return nil
		}
	}
	return errors.New("must be connections, bytes, active or name")
}

// String implements pflag.Value.
func (o orderFlag) String() string {
	if o.value == nil {
		return ""
	}
	return *o.value
}

// Type implements pflag.Value.
func (o orderFlag) Type() string { return "order" }

// runTop shows samples until it is told to end.
func runTop(cmd *cobra.Command, o *topOptions) error {
	s, err := newSampler(cmd, o)
	if err != nil {
		return err
	}
	defer s.meter.Close()
	if o.once || o.out.isJSON() || !term.IsTerminal(int(os.Stdout.Fd())) || !term.IsTerminal(int(os.Stdin.Fd())) {
		return printTop(cmd, o, s)
	}
	title := "toyproxy top"
	if sc := o.nf.scope(); sc.netns != "" {
		title += " " + sc.netns
	}
	return showTop(cmd.Context(), top.New(title, top.Order(o.order), o.filter), s)
}

// topJSON is the stable form of a table.
type topJSON struct {
	Seconds  float64   `json:"seconds"`
	Services []top.Row `json:"services"`
	Notes    []string  `json:"notes"`
}

// printTop prints one table.
func printTop(cmd *cobra.Command, o *topOptions, s *sampler) error {
	sample, err := s.next()
	if err != nil {
		return err
	}
	rows := top.Filter(top.Rows(sample), o.filter)
	top.Sort(rows, top.Order(o.order))
	if o.out.isJSON() {
		return printJSON(cmd.OutOrStdout(), topJSON{sample.Took.Seconds(), nonNil(rows), nonNil(sample.Notes)})
	}
	printRemarks(cmd.ErrOrStderr(), sample.Notes)
	if len(rows) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "No Services found on this node.")
		return nil
	}
	_, err = fmt.Fprint(cmd.OutOrStdout(), top.Text(rows, o.endpoints))
	return err
}

// sampler takes samples of what Services carry.
type sampler struct {
	ctx   context.Context
	cmd   *cobra.Command
	opts  *topOptions
	meter *meter.Meter
	// last is what had been carried at the end of the last interval, at its time.
	last []meter.Line
	at   time.Time
	// written is when the live objects were last written, as far as they were read.
	written time.Time
	notes   []string
}

// newSampler begins to count, in the network namespace of the calling thread. The
// kernel is made to count packets and bytes if it does not yet.
func newSampler(cmd *cobra.Command, o *topOptions) (*sampler, error) {
	s := &sampler{ctx: cmd.Context(), cmd: cmd, opts: o}
	sc := o.nf.scope()
	plan, err := meter.Accounting(sc.accountingJournal())
	if err != nil {
		return nil, err
	}
	if len(plan.Changes()) > 0 {
		if err := plan.Apply(cmd.Context()); err != nil {
			return nil, err
		}
		s.notes = append(s.notes, "packets and bytes are counted of connections that begin from now on (net.netfilter.nf_conntrack_acct is 1 now; toyproxy down puts it back)")
	}
	if s.meter, err = meter.Open(); err != nil {
		return nil, err
	}
	if err := s.begin(); err != nil {
		return nil, errors.Join(err, s.meter.Close())
	}
	return s, nil
}

// begin notes what there is before the first interval.
func (s *sampler) begin() error {
	if err := s.readTable(); err != nil {
		return err
	}
	err := s.meter.Read(s.ctx)
	s.last, s.at = s.meter.Lines(), time.Now()
	return err
}

// next waits for an interval and returns what it carried.
func (s *sampler) next() (top.Sample, error) {
	if err := s.readTable(); err != nil {
		return top.Sample{}, err
	}
	if err := s.meter.Wait(s.ctx, s.opts.interval); err != nil {
		return top.Sample{}, err
	}
	now, at := s.meter.Lines(), time.Now()
	sample := top.Sample{Lines: meter.Since(now, s.last), Took: at.Sub(s.at), Notes: s.notes}
	s.last, s.at = now, at
	if lost := s.meter.Stats().Lost; lost > 0 {
		sample.Notes = append(sample.Notes[:len(sample.Notes):len(sample.Notes)], fmt.Sprintf("%d flows ended faster than they could be counted", lost))
	}
	return sample, nil
}

// readTable reads which Services there are, if that may have changed.
func (s *sampler) readTable() error {
	written := lastWritten(s.opts.nf.scope().stateDir)
	if !s.written.IsZero() && written.Equal(s.written) {
		return nil
	}
	d, err := desired(s.ctx, s.cmd.InOrStdin(), &s.opts.src, s.opts.nf.scope(), len(s.opts.src.files) == 0)
	if err != nil {
		return err
	}
	s.written = written
	s.meter.Set(ofNamespace(d.Table, s.opts.namesp))
	return nil
}

// ofNamespace leaves in a table the frontends of one namespace; all if it is empty.
func ofNamespace(t dataplane.Table, namespace string) dataplane.Table {
	if namespace == "" {
		return t
	}
	out := dataplane.Table{Node: t.Node, Sets: t.Sets}
	for _, fe := range t.Frontends {
		if len(fe.Service) > len(namespace) && fe.Service[:len(namespace)+1] == namespace+"/" {
			out.Frontends = append(out.Frontends, fe)
		}
	}
	return out
}

// lastWritten is when any of the live objects that a table is made of was written
// last: they are replaced by renaming, which their directory notes.
func lastWritten(stateDir string) time.Time {
	last := time.Unix(0, 1)
	for _, dir := range []string{"services", "endpointslices", "pods", "nodes", "remote-pods"} {
		info, err := os.Stat(filepath.Join(stateDir, dir))
		if err == nil && info.ModTime().After(last) {
			last = info.ModTime()
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return time.Now() // it cannot be told: read them
		}
	}
	return last
}
