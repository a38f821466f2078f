package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/balance"
	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/cluster/state"
	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/iptables"
	"github.com/toyproxy/toyproxy/dataplane/nftables"
	"github.com/toyproxy/toyproxy/podnet"
	"github.com/toyproxy/toyproxy/pods"
)

// enterNamespace runs this program again inside a network namespace, unless it
// is there already: a process works in one namespace, with all its threads.
func enterNamespace(name string) error {
	if name == "" || inNamespace(name) {
		return nil
	}
	if os.Geteuid() != 0 {
		return needRoot("--netns")
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("path of this program: %w", err)
	}
	argv := append([]string{self}, os.Args[1:]...)
	err = podnet.EnterAndExec(name, argv, os.Environ())
	if kept := netnsStateDir(name); errors.Is(err, fs.ErrNotExist) && exists(kept) {
		err = fmt.Errorf("%w\nIts Pods are still recorded in %s. To remove them: sudo ip netns add %s; sudo toyproxy down --netns %s", err, kept, name, name)
	}
	return err
}

// inNamespace asks the kernel whether this process is in a namespace already.
func inNamespace(name string) bool {
	var st unix.Stat_t
	id, err := podnet.NamespaceID()
	return err == nil && unix.Stat(filepath.Join(podnet.DefaultNetnsDir, name), &st) == nil && st.Ino == id
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// nodePlan is a plan with what is needed to talk about it.
type nodePlan struct {
	*agent.Plan
	source source
	netns  string
	flags  *pflag.FlagSet
	// backend is the one in use; why says what chose it when the user did not.
	backend backendName
	why     string
	// decision is what the controllers want of the node.
	decision agent.Decision
}

// introduce says where the objects come from, and which backend was chosen for
// who left that open.
func (p *nodePlan) introduce(w io.Writer) {
	fmt.Fprintf(w, "manifests  %s\n", printable(p.source.description))
	if p.why != "" {
		fmt.Fprintf(w, "backend    %s (%s)\n", p.backend, printable(p.why))
	}
}

// planNode loads the manifests, builds the agent of the node and plans. Unless it
// is dry, what becomes of workloads is written down.
func planNode(cmd *cobra.Command, src *sourceFlags, nf *nodeFlags, sc scope, dry bool) (*nodePlan, error) {
	kept, err := readState(sc)
	if err != nil {
		if !dry {
			err = errors.Join(err, state.RemoveDamaged(err))
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: %v\n", err)
	}
	last := state.ReadLast(sc.rulesDir())
	why := nf.backend.choose(last.Backend)
	earlier := serviceByName(kept.Services)
	s, err := src.source(cmd.InOrStdin(), earlier)
	if err != nil {
		return nil, err
	}
	in, err := s.loadServed(cmd.Context(), sc.stateDir)
	if err != nil {
		return nil, err
	}
	if !src.strict {
		live := state.OpenLive(sc.stateDir).Made()
		in = agent.KeepLastGood(in, kept, func(p *corev1.Pod) bool {
			return live[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}]
		})
	}
	in = keepFrozen(in, kept)
	keepAges(in.Objects.Services, earlier)
	noteLast(cmd, src, last)
	if err := placeOnMembers(cmd.Context(), &in, src.node.value, sc); err != nil {
		return nil, err
	}
	a, err := buildAgent(src, nf, sc, &in)
	if err != nil {
		return nil, err
	}
	a.Record = recorder{sc, state.Last{Backend: string(nf.backend), Manifests: s.description, Arguments: arguments(cmd.Flags()), ClusterDomain: src.domain.value}}
	if err := refuseNothing(in, s); err != nil {
		printProblems(cmd.ErrOrStderr(), in.Problems)
		return nil, err
	}
	var decided agent.Decision
	if runtime, ok := a.Pods.(*pods.Runtime); ok {
		dry = dry || src.strict && agent.CountErrors(in.Problems) > 0
		if decided, err = control(cmd.Context(), sc, runtime, &in, a.Node, dry); err != nil {
			return nil, err
		}
	}
	p, err := a.Plan(cmd.Context(), in)
	if err != nil {
		return nil, err
	}
	p.Problems = append(p.Problems, located(nf.hinders(cmd.Context(), sc, p.Table, p.Objects.Services), in)...)
	return &nodePlan{Plan: p, source: s, netns: sc.netns, flags: cmd.Flags(), backend: nf.backend, why: why, decision: decided}, nil
}

// hinders tells what of the node itself hinders what a table promises.
func (f *nodeFlags) hinders(ctx context.Context, sc scope, table dataplane.Table, services []*corev1.Service) []cluster.Problem {
	out := f.backend.shutForward(ctx, sc, table)
	if own, err := linkAddresses(); err == nil && !sc.pod {
		out = append(balance.HiddenServers(table, services, own, servers()), out...)
	}
	return out
}

// refuseNothing is the error of manifests that hold only what is wrong.
func refuseNothing(in agent.Input, s source) error {
	if len(in.Objects.Services)+len(in.Objects.Pods)+len(in.Objects.EndpointSlices) > 0 || agent.CountErrors(in.Problems) == 0 {
		return nil
	}
	return exit(exitBadManifest, fmt.Errorf("%s holds nothing that is good, and errors: nothing is done, lest everything be removed by mistake", s.description))
}

// noteLast tells who gives no manifests that the last sync had some.
func noteLast(cmd *cobra.Command, src *sourceFlags, last state.Last) {
	if last.Arguments != "" && strings.Contains(last.Arguments, "-f ") && len(src.files) == 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "note: the last sync of this node was: toyproxy sync %s\n", last.Arguments)
	}
}

// scopeFlags say which node is meant; sourceAndNodeFlags also what it is to hold.
var (
	scopeFlags         = []string{"netns", "state-dir"}
	sourceAndNodeFlags = slices.Concat([]string{"filename", "backend", "node", "service-cidr", "cluster-cidr", "cluster-domain", "iptables-engine"},
		doorFlagNames(), ipvsFlagNames(), scopeFlags)
)

// arguments are the flags that another command needs to mean the same.
func arguments(fl *pflag.FlagSet) string { return chosen(fl, sourceAndNodeFlags) }

// chosen spells those flags of a list that were given, for a shell.
func chosen(fl *pflag.FlagSet, names []string) string {
	var out []string
	for _, name := range names {
		f := fl.Lookup(name)
		if f == nil || !f.Changed {
			continue
		}
		if files, ok := f.Value.(pflag.SliceValue); ok {
			for _, v := range files.GetSlice() {
				out = append(out, "-f "+quoteForShell(v))
			}
			continue
		}
		if f.Value.Type() == "bool" {
			out = append(out, "--"+name+"="+f.Value.String())
			continue
		}
		out = append(out, "--"+name+" "+quoteForShell(f.Value.String()))
	}
	return strings.Join(out, " ")
}

// quoteForShell puts quotes around what a shell would take apart.
func quoteForShell(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("./_-:,=@+", r)
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// again is the command line of another command that means the same node and
// manifests.
func (p *nodePlan) again(command string) string {
	return strings.TrimSpace("sudo toyproxy " + command + " " + arguments(p.flags))
}

// undo is the command line that removes what this one made.
func (p *nodePlan) undo() string {
	return strings.TrimSpace("sudo toyproxy down " + chosen(p.flags, scopeFlags))
}

// strict refuses to go on when a manifest is wrong and --strict was given.
func (p *nodePlan) strict(strict bool) error {
	if errs := p.Errors(); strict && len(errs) > 0 {
		return exit(exitBadManifest, fmt.Errorf("%s in the manifests; with --strict nothing is done", count(len(errs), "error")))
	}
	return nil
}

// badManifest is the error of a pass that left out something that was wrong.
func (p *nodePlan) badManifest() error {
	if errs := p.Errors(); len(errs) > 0 {
		return exit(exitBadManifest, fmt.Errorf("%s in the manifests; what is good is in force", count(len(errs), "error")))
	}
	return nil
}

// newBackend builds one backend.
func (f *nodeFlags) newBackend(name backendName, sc scope) dataplane.Backend {
	switch name {
	case backendIPVS:
		return f.newIPVS(sc)
	case backendNftables:
		return nftables.New(nftables.Config{})
	}
	return iptables.New(iptables.Config{Engine: f.engine.engine})
}

// rulesDir is where backends note what they changed: that of the node, or one
// of the Pod's own.
func (sc scope) rulesDir() string {
	if sc.pod {
		return filepath.Join(sc.stateDir, "pod-rules", sc.netns)
	}
	return sc.stateDir
}

// flowsJournal is the file that remembers frontends for the removal of flows.
func (sc scope) flowsJournal() string { return filepath.Join(sc.rulesDir(), "frontends.json") }

// lockWait is how long a command waits for another one to finish.
const lockWait = 30 * time.Second

// lockNotice is how long it waits before it says so.
const lockNotice = 2 * time.Second

// lockNode makes this process the only writer of the network namespace it works
// in. The lock does not lie in the state directory, which is the user's choice:
// two directories must not keep one node.
func lockNode(ctx context.Context, sc scope) (*state.Node, error) {
	id, err := podnet.NamespaceID()
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(sc.rulesDir())
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	for _, d := range []string{defaultStateDir, dir} {
		if err := checkOwner(d); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	holder := fmt.Sprintf("%s, pid %d", strings.Join(os.Args, " "), os.Getpid())
	path := fmt.Sprintf("%s/nodes/net-%d", defaultStateDir, id)
	soon, cancelSoon := context.WithTimeout(ctx, lockNotice)
	defer cancelSoon()
	node, err := state.Lock(soon, path, dir, holder)
	var held *state.HeldError
	if !errors.As(err, &held) || ctx.Err() != nil {
		return node, err
	}
	if keeps(held.Holder) && !keeps(holder) {
		return nil, &keptError{held.Holder}
	}
	progress(fmt.Sprintf("%v (waiting for at most %s)", held, lockWait))
	return state.Lock(ctx, path, dir, holder)
}

// checkOwner refuses a state directory that others may write to: they could
// make root write elsewhere, or run what they like as a Pod.
func checkOwner(dir string) error {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return nil // it is made by whoever writes first
	}
	if int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return fmt.Errorf("state directory %s belongs to uid %d with mode %o: others could change what this program trusts; use one that only you may write to", dir, st.Uid, st.Mode&0o777)
	}
	return nil
}

// buildAgent wires the parts of one node together.
func buildAgent(src *sourceFlags, nf *nodeFlags, sc scope, in *agent.Input) (*agent.Agent, error) {
	node, err := src.agentNode(in, sc.sight(fromKernel))
	if err != nil {
		return nil, err
	}
	in.Problems = append(in.Problems, src.doorProblems(node, in.Objects.Services)...)
	backend := nf.backend
	a := &agent.Agent{Node: node, Backend: nf.newBackend(backend, sc),
		Flows: nf.newFlows(sc)}
	a.Others = nf.leftovers(backend, sc)
	if sc.pod {
		in.Objects.Pods, err = livePods(sc, in.Objects.Pods)
		return a, err
	}
	a.Pods, err = newPods(src, sc, in.Objects, node)
	return a, err
}

// buildAgentForDown wires what is needed to remove everything.
func buildAgentForDown(nf *nodeFlags, sc scope) (*agent.Agent, error) {
	a := &agent.Agent{Backend: nf.newBackend(backendIPTables, sc), Others: nf.everything(sc)}
	if sc.pod {
		return a, nil
	}
	var err error
	a.Pods, err = newPods(nil, sc, cluster.Objects{}, agent.Node{})
	return a, err
}

// agentNode says which node the objects are programmed for, and gives Pods
// that no scheduler has placed to it.
func (f *sourceFlags) agentNode(in *agent.Input, from sight) (agent.Node, error) {
	name, err := f.nodeName()
	if err != nil {
		return agent.Node{}, err
	}
	if nodes := in.Objects.Nodes; f.node.value == "" && len(nodes) == 1 {
		name = nodes[0].Name
	}
	in.Objects.Pods, in.Problems = agent.Place(in.Objects.Pods, name, in.Problems)
	node := agent.Node{Name: name, ServiceRanges: f.serviceCIDRs.set}
	return node, f.furnishNode(&node, in.Objects, from)
}

// forgetState removes the live objects of a node that is no more.
func forgetState(sc scope) error {
	var errs []error
	if sc.pod {
		return os.RemoveAll(sc.rulesDir())
	}
	errs = append(errs, state.ForgetLast(sc.stateDir), state.ForgetProblems(sc.stateDir), os.RemoveAll(sc.flowsJournal()))
	kept := slices.Concat(state.WorkloadDirs(), state.DoorDirs(), []string{"pod-rules", "dns", "services", "endpointslices", "nodes", "namespaces", state.RemotePods})
	for _, dir := range kept {
		errs = append(errs, os.RemoveAll(filepath.Join(sc.stateDir, dir)))
	}
	if sc.netns != "" {
		_ = os.Remove(sc.stateDir) // only when nothing is left in it
	}
	return errors.Join(errs...)
}
