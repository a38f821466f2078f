package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/cluster/state"
	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/explain"
	"github.com/toyproxy/toyproxy/podnet"
	"github.com/toyproxy/toyproxy/pods"
)

const explainLong = `Tells what becomes of the first packet of a connection, and why: the answer, the
rules that take the packet hook by hook with the field of the object behind each,
and the endpoints it may reach with their shares.

TARGET is an address and port, 10.96.0.10:80 or 10.96.0.10:53/udp, or a Service,
svc/web or svc/web:http, or a URL, http://api.example.com/v1: then the rule of an
Ingress or HTTPRoute that has the request is told first, with its backends and their
endpoints, and the packet is the one to the ingress. --from is who sends: a Pod (POD or NAMESPACE/POD), an
address, or node; without it some Pod of this node.

What is walked are the rules that the manifests ask for, as 'render' prints them:
no root is needed and the kernel is not asked. With --live they are the rules that
the kernel holds, and how these differ is told; with --probe the sender dials the
target once besides. Without -f the objects are those that the last sync left, or
what the next one would make.`

func explainCommand() *cobra.Command {
	var q question
	cmd := &cobra.Command{
		Use:   "explain TARGET",
		Short: "Why a packet goes where it goes",
		Long:  explainLong,
		Example: `  toyproxy explain svc/web
  toyproxy explain 10.96.0.10:53/udp --from node
  toyproxy explain svc/frontend:http -n shop --from shop/client -f examples/guestbook.yaml
  toyproxy explain http://api.example.com/v1 -H 'X-Canary: always'
  sudo toyproxy explain svc/web --live
  sudo toyproxy explain svc/web --from pod-a --probe`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, args []string) error { return q.answer(cmd, args[0]) },
	}
	q.src.register(cmd)
	q.src.registerAddrs(cmd)
	q.nf.register(cmd)
	q.out.register(cmd, "json")
	q.http.register(cmd)
	fl := cmd.Flags()
	fl.StringVar(&q.from, "from", "", "who sends: POD, NAMESPACE/POD, an address or node (default: some Pod)")
	fl.BoolVar(&q.live, "live", false, "walk the rules that the kernel holds")
	fl.BoolVar(&q.dial, "probe", false, "as --live, and dial the target once from where the packet comes")
	fl.StringVarP(&q.namespace, "namespace", "n", "default", "namespace of the Service and the Pod")
	return cmd
}

// question is what one explain asks.
type question struct {
	src       sourceFlags
	nf        nodeFlags
	out       outputFlag
	from      string
	namespace string
	live      bool
	http      httpQuestion
	// dial: the target is dialled once, too.
	dial bool
	// asLeft: the objects are those that the last sync left.
	asLeft bool
}

// answer explains a target and prints it.
func (q *question) answer(cmd *cobra.Command, target string) error {
	if isURL(target) {
		return q.answerURL(cmd, target)
	}
	if q.live = q.live || q.dial; q.live {
		if err := needRoot("explain --live"); err != nil {
			return err
		}
	}
	d, err := q.begin(cmd)
	if err != nil {
		return err
	}
	e, err := q.explain(cmd.Context(), d, target)
	switch {
	case errors.Is(err, explain.ErrSyntax):
		return exit(exitUsage, err)
	case err != nil:
		return err
	}
	if err := q.print(cmd.OutOrStdout(), e); err != nil {
		return err
	}
	if len(d.Errors()) > 0 {
		return exit(exitBadManifest, nil)
	}
	return nil
}

// begin enters the node's namespace, where that is allowed, resolves the objects, and
// tells what is wrong with them.
func (q *question) begin(cmd *cobra.Command) (agent.Desired, error) {
	if os.Geteuid() == 0 {
		if err := enterNamespace(q.nf.netns.value); err != nil {
			return agent.Desired{}, err
		}
	}
	d, err := q.read(cmd.Context(), cmd.InOrStdin())
	if err == nil {
		printProblems(cmd.ErrOrStderr(), d.Problems)
	}
	return d, err
}

// read resolves the objects: those of the manifests with -f, else what the last
// sync left, else what the next one would make.
func (q *question) read(ctx context.Context, stdin io.Reader) (agent.Desired, error) {
	sc := q.nf.scope()
	last := state.ReadLast(sc.rulesDir())
	q.nf.backend.choose(last.Backend)
	q.asLeft = len(q.src.files) == 0 && last.Manifests != ""
	d, err := desired(ctx, stdin, &q.src, sc, q.asLeft)
	if err != nil || !q.asLeft {
		return d, err
	}
	// The objects that are kept do not know where they were written.
	if s, err := q.src.source(stdin, nil); err == nil && s.description == last.Manifests {
		if in, err := s.load(ctx); err == nil {
			d.Locate = in.Locate
		}
	}
	return d, nil
}

// explain walks the packet and joins the way with the objects.
func (q *question) explain(ctx context.Context, d agent.Desired, text string) (explain.Explanation, error) {
	st, err := q.state(d)
	if err != nil {
		return explain.Explanation{}, err
	}
	family := dataplane.Family(0)
	if a, err := netip.ParseAddr(q.from); err == nil {
		family = dataplane.FamilyOf(a)
	}
	to, err := st.Target(text, q.namespace, family)
	if err != nil {
		return explain.Explanation{}, err
	}
	from, err := st.From(q.from, q.namespace, to)
	switch {
	case err != nil:
		return explain.Explanation{}, err
	case !to.Key.Addr.IsValid():
		return st.Nothing(to, from), nil
	}
	backend, ok := q.nf.newBackend(q.nf.backend, q.nf.scope()).(dataplane.Explainer)
	if !ok {
		return explain.Explanation{}, fmt.Errorf("backend %s cannot be explained yet: choose another with --backend", q.nf.backend)
	}
	tr, err := backend.Walk(d.Table, st.Packet(to, from))
	if err != nil {
		return explain.Explanation{}, fmt.Errorf("path of a packet to %s: %w", to, err)
	}
	rendered := st.Explain(to, from, tr)
	if !q.live {
		return rendered, nil
	}
	if tr, err = backend.WalkLive(ctx, st.Packet(to, from)); err != nil {
		return explain.Explanation{}, fmt.Errorf("path of a packet to %s in the kernel: %w", to, err)
	}
	held := st.Explain(to, from, tr)
	held.Compare(rendered)
	if q.dial {
		if held.Probe, err = q.probe(ctx, d, to.Key, from); err != nil {
			return explain.Explanation{}, err
		}
	}
	return held, nil
}

// state is what package explain has to know of a node.
func (q *question) state(d agent.Desired) (explain.State, error) {
	st := explain.State{Objects: d.Objects, Slices: d.Slices, Table: d.Table, Node: d.Node.Name, PodLink: podnet.DefaultBridge, Locate: d.Locate}
	st.Objects.Pods = d.Pods
	sight := fromObjects
	if q.live {
		sight = fromKernel
	}
	if sc := q.nf.scope(); sc.pod {
		return q.inPod(st, sc)
	}
	node := d.Node
	own, err := q.src.ownAddresses(&node, d.Objects.Nodes, sight)
	if err != nil {
		return st, err
	}
	st.Own = append(slices.Clone(d.Table.Node.Addrs), own...)
	return st, nil
}

// inPod is the state of a Pod's own namespace, in which only the Pod sends.
func (q *question) inPod(st explain.State, sc scope) (explain.State, error) {
	st.PodLink = ""
	for _, p := range st.Objects.Pods {
		if pods.NetworkName(p.Namespace, p.Name) == sc.netns && q.from == "" {
			q.from = p.Namespace + "/" + p.Name
		}
	}
	return st, nil
}

// print writes the explanation to standard output.
func (q *question) print(w io.Writer, e explain.Explanation) error {
	if q.out.isJSON() {
		return printJSON(w, e.Document(string(q.nf.backend), q.live))
	}
	rules := fmt.Sprintf("%s, as rendered", q.nf.backend)
	if q.live {
		rules = fmt.Sprintf("%s, as the kernel holds it", q.nf.backend)
	}
	_, err := io.WriteString(messages{w}, e.Text(rules))
	return err
}
