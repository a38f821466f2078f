package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/toyproxy/toyproxy/cluster/state"
)

// getFlags are kubectl's, as far as they make sense here.
type getFlags struct {
	namespace     string
	all           bool
	selector      string
	noHeaders     bool
	watch         bool
	showLabels    bool
	ignoreMissing bool
	out           outputFlag
}

func getCommand() *cobra.Command {
	var src sourceFlags
	var nf nodeFlags
	var g getFlags
	cmd := &cobra.Command{
		Use:   "get KIND [NAME...]",
		Short: "Show objects: services, pods, deployments, events, problems and more",
		Long: `Shows the objects that live on this node, as they are now; with -f those of the
manifests instead. KIND is one of
  services (svc), endpoints (ep), endpointslices,
  ingresses (ing), ingressclasses, gatewayclasses (gc), gateways (gtw),
  httproutes, referencegrants (refgrant),
  pods (po), deployments (deploy), replicasets (rs), statefulsets (sts),
  daemonsets (ds), configmaps (cm), secrets, controllerrevisions,
  nodes (no), namespaces (ns),
  events (ev), problems: what is wrong with the manifests now,
  frontends (fe): the table that the backends program,
  all: pods, services and what makes pods.
Several kinds are joined by commas, and KIND/NAME works too.`,
		Example: `  toyproxy get pods -o wide
  toyproxy get deploy,rs,po -l app=web
  toyproxy get pods -w
  toyproxy get svc,endpoints -A
  toyproxy get frontends -f examples/guestbook.yaml`,
		Args: cobra.MinimumNArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return kindNames(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return runGet(cmd, &src, &nf, &g, args)
		},
	}
	src.register(cmd)
	nf.registerScope(cmd)
	g.registerChoice(cmd)
	fl := cmd.Flags()
	fl.BoolVar(&g.noHeaders, "no-headers", false, "leave out the header line")
	fl.BoolVar(&g.showLabels, "show-labels", false, "show labels in the last column")
	fl.BoolVarP(&g.watch, "watch", "w", false, "go on and print objects that change")
	g.out.register(cmd, "wide", "json", "yaml", "name")
	return cmd
}

// registerChoice adds the flags that say which objects are meant.
func (g *getFlags) registerChoice(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVarP(&g.namespace, "namespace", "n", "default", "namespace of the objects")
	fl.BoolVarP(&g.all, "all-namespaces", "A", false, "objects of all namespaces")
	fl.StringVarP(&g.selector, "selector", "l", "", "label selector, such as app=web,tier!=db")
	fl.BoolVar(&g.ignoreMissing, "ignore-not-found", false, "succeed when a named object does not exist")
}

// request is what one get asks for: kinds, names, and which objects of them.
type request struct {
	views    []view
	names    []string
	selector labels.Selector
}

func runGet(cmd *cobra.Command, src *sourceFlags, nf *nodeFlags, g *getFlags, args []string) error {
	req, err := g.request(args)
	if err != nil {
		return exit(exitUsage, err)
	}
	if err := req.readable(src, nf); err != nil {
		return err
	}
	read := func() (look, error) { return readLook(cmd, src, nf) }
	d, err := read()
	if err != nil {
		return err
	}
	if !req.has("problems") {
		printProblems(cmd.ErrOrStderr(), d.Problems)
	}
	if g.watch {
		w := watcher{g: g, req: req, out: cmd.OutOrStdout(), shown: map[string]row{}}
		return eachChange(cmd.Context(), nf.scope().stateDir, src.files, func() (bool, error) { return false, w.see(read) })
	}
	if err := g.print(cmd, req, d); err != nil {
		return err
	}
	if errs := d.Errors(); len(errs) > 0 && !req.has("problems") {
		return exit(exitBadManifest, nil)
	}
	return nil
}

// has tells whether a kind is asked for.
func (r request) has(plural string) bool {
	return slices.ContainsFunc(r.views, func(v view) bool { return v.plural == plural })
}

// readable refuses to show no Secrets to who may only not see them.
func (r request) readable(src *sourceFlags, nf *nodeFlags) error {
	if !r.has("secrets") || len(src.files) > 0 {
		return nil
	}
	_, err := state.OpenWorkloads(nf.scope().stateDir).Secrets.List()
	if errors.Is(err, fs.ErrPermission) {
		return mayNotRead("reading Secrets", err)
	}
	return nil
}

// request parses "svc,pods NAME" and "svc/web" forms.
func (g *getFlags) request(args []string) (request, error) {
	req := request{names: args[1:]}
	kinds := args[0]
	if kind, name, ok := strings.Cut(args[0], "/"); ok {
		kinds, req.names = kind, []string{name}
		for _, a := range args[1:] {
			k, n, ok := strings.Cut(a, "/")
			if !ok || k != kind {
				return req, fmt.Errorf("%q: with KIND/NAME every argument has that form, of one kind", a)
			}
			req.names = append(req.names, n)
		}
	}
	for kind := range strings.SplitSeq(withAll(kinds), ",") {
		v, ok := viewOf(kind)
		if !ok {
			return req, fmt.Errorf("there is no kind %q: use %s", kind, strings.Join(kindNames(), ", "))
		}
		req.views = append(req.views, v)
	}
	var err error
	req.selector, err = labels.Parse(g.selector)
	if err != nil {
		return req, fmt.Errorf("selector %q: %w", g.selector, err)
	}
	return req, nil
}

// withAll puts what "all" means in its place.
func withAll(kinds string) string {
	list := strings.Split(kinds, ",")
	for i, kind := range list {
		if kind == "all" {
			list[i] = strings.Join(allKinds[:], ",")
		}
	}
	return strings.Join(list, ",")
}

// pick returns the rows of a view that the request asks for, and an error for
// each name that does not exist.
func (g *getFlags) pick(req request, v view, d look) ([]row, error) {
	var rows []row
	found := map[string]bool{}
	for _, r := range v.rows(d) {
		inScope := g.all || r.namespace == g.namespace || r.namespace == ""
		named := len(req.names) == 0 || slices.Contains(req.names, r.name)
		if !inScope || !named || !req.selector.Matches(labels.Set(r.labels)) {
			continue
		}
		found[r.name] = true
		rows = append(rows, r)
	}
	var missing []error
	for _, n := range req.names {
		if !found[n] && !g.ignoreMissing {
			missing = append(missing, fmt.Errorf("%s %q not found in namespace %s", v.plural, n, g.namespace))
		}
	}
	return rows, errors.Join(missing...)
}

func (g *getFlags) print(cmd *cobra.Command, req request, d look) error {
	var errs []error
	var all []row
	printed := 0
	w := cmd.OutOrStdout()
	for _, v := range req.views {
		rows, err := g.pick(req, v, d)
		errs = append(errs, err)
		all = append(all, rows...)
		if g.out.value != "" && g.out.value != "wide" {
			continue
		}
		if len(rows) > 0 && printed > 0 {
			fmt.Fprintln(w)
		}
		if len(rows) > 0 {
			printed++
			errs = append(errs, g.table(w, v, rows, len(req.views) > 1))
		}
	}
	switch g.out.value {
	case "json", "yaml":
		errs = append(errs, g.encode(w, req, all))
	case "name":
		for _, r := range all {
			fmt.Fprintf(w, "%s/%s\n", r.resource, r.name)
		}
	}
	if len(all) == 0 && len(req.names) == 0 {
		g.sayNone(cmd)
	}
	return errors.Join(errs...)
}

// sayNone tells people that there is nothing to show; programs see an empty List.
func (g *getFlags) sayNone(cmd *cobra.Command) {
	where := "in " + g.namespace + " namespace"
	switch {
	case g.out.value == "json" || g.out.value == "yaml":
		return
	case g.all:
		where = "in any namespace"
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "No resources found %s.\n", where)
}

// cells are the columns that were asked for.
func (g *getFlags) cells(namespace string, cells, wide []string, labels string) []string {
	if g.out.value == "wide" {
		cells = append(slices.Clone(cells), wide...)
	}
	if g.showLabels {
		cells = append(slices.Clone(cells), labels)
	}
	if g.all {
		cells = append([]string{namespace}, cells...)
	}
	return cells
}

func (g *getFlags) table(w io.Writer, v view, rows []row, prefix bool) error {
	c := newColumns(w)
	if !g.noHeaders {
		c.row(g.cells("NAMESPACE", v.header, v.wide, "LABELS")...)
	}
	for _, r := range rows {
		out := slices.Clone(r.cells)
		if prefix {
			v.addKind(out, r)
		}
		c.row(g.cells(r.namespace, out, r.wide, orNone(joinLabels(r.labels)))...)
	}
	return c.flush()
}

// addKind puts the kind before the name of an object, where that comes first: an
// event begins with a time.
func (v view) addKind(cells []string, r row) {
	if v.header[0] == "NAME" {
		cells[0] = r.resource + "/" + cells[0]
	}
}

// encode prints one object, or a List as kubectl does.
func (g *getFlags) encode(w io.Writer, req request, rows []row) error {
	var value any
	if len(req.names) == 1 && len(rows) == 1 {
		value = rows[0].object
	} else {
		items := make([]any, len(rows))
		for i, r := range rows {
			items[i] = r.object
		}
		value = list{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "List"}, Items: items}
	}
	if g.out.isJSON() {
		return printJSON(w, value)
	}
	text, err := yaml.Marshal(value)
	if err != nil {
		return fmt.Errorf("YAML of the objects: %w", err)
	}
	_, err = w.Write(text)
	return err
}

type list struct {
	metav1.TypeMeta `json:",inline"`
	Items           []any `json:"items"`
}
