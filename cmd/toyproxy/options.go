package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toyproxy/toyproxy/dataplane/xtables"
)

const defaultStateDir = "/run/toyproxy"

// sourceFlags say where objects come from.
type sourceFlags struct {
	files        []string
	serviceCIDRs prefixList
	clusterCIDRs prefixList
	node         string
	strict       bool
}

func (f *sourceFlags) register(cmd *cobra.Command) {
	f.serviceCIDRs.set = mustPrefixes("10.96.0.0/12,fd00:10:96::/112")
	f.clusterCIDRs.set = mustPrefixes("10.244.0.0/16,fd00:10:244::/56")
	fl := cmd.Flags()
	fl.StringArrayVarP(&f.files, "filename", "f", nil,
		"manifest file, directory (recursive) or - for standard input; repeats\n(default ./manifests, else /etc/toyproxy/manifests, else the built-in demo)")
	fl.Var(&f.serviceCIDRs, "service-cidr", "ranges ClusterIPs come from, at most one a family")
	fl.Var(&f.clusterCIDRs, "cluster-cidr", "ranges all Pods' addresses come from, at most one a family")
	fl.StringVar(&f.node, "node", "", "name of this node (default: the host name, in lower case)")
	fl.BoolVar(&f.strict, "strict", false, "do nothing at all when any manifest is wrong")
}

// nodeFlags say which node is programmed, and how.
type nodeFlags struct {
	backend   backendName
	netns     string
	stateDir  string
	engine    engineFlag
	scheduler string
}

func (f *nodeFlags) register(cmd *cobra.Command) {
	f.registerScope(cmd)
	f.backend = backendAuto
	fl := cmd.Flags()
	fl.Var(&f.backend, "backend", "auto, iptables or ipvs")
	fl.Var(&f.engine, "iptables-engine", "auto, nft or legacy: which iptables writes the rules")
	fl.StringVar(&f.scheduler, "ipvs-scheduler", "rr", "scheduler of IPVS virtual servers")
	_ = cmd.RegisterFlagCompletionFunc("backend", cobra.FixedCompletions([]string{"auto", "iptables", "ipvs"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("iptables-engine", cobra.FixedCompletions([]string{"auto", "nft", "legacy"}, cobra.ShellCompDirectiveNoFileComp))
}

// registerScope adds only the flags that say which node is meant.
func (f *nodeFlags) registerScope(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.netns, "netns", "", "network namespace to work in, a name below /run/netns (default: this one)")
	fl.StringVar(&f.stateDir, "state-dir", "", "where live objects are kept (default "+defaultStateDir+", or "+defaultStateDir+"/netns/NAME with --netns)")
}

// backendName is the value of --backend.
type backendName string

const (
	backendAuto     backendName = "auto"
	backendIPTables backendName = "iptables"
	backendIPVS     backendName = "ipvs"
)

// Set implements pflag.Value.
func (b *backendName) Set(v string) error {
	if !slices.Contains([]backendName{backendAuto, backendIPTables, backendIPVS}, backendName(v)) {
		return errors.New("must be auto, iptables or ipvs")
	}
	*b = backendName(v)
	return nil
}

// String implements pflag.Value.
func (b *backendName) String() string { return string(*b) }

// Type implements pflag.Value.
func (b *backendName) Type() string { return "backend" }

// resolve replaces auto by the backend it stands for.
func (b backendName) resolve() backendName {
	if b == backendAuto {
		return backendIPTables
	}
	return b
}

// engineFlag is the value of --iptables-engine.
type engineFlag struct{ engine xtables.Engine }

// Set implements pflag.Value.
func (e *engineFlag) Set(v string) (err error) {
	e.engine, err = xtables.ParseEngine(v)
	return err
}

// String implements pflag.Value.
func (e *engineFlag) String() string { return e.engine.String() }

// Type implements pflag.Value.
func (e *engineFlag) Type() string { return "engine" }

// prefixList is a flag that holds ranges, at most one of each family.
type prefixList struct{ set []netip.Prefix }

// Set implements pflag.Value.
func (p *prefixList) Set(v string) error {
	set, err := parsePrefixes(v)
	if err == nil {
		p.set = set
	}
	return err
}

// String implements pflag.Value.
func (p *prefixList) String() string {
	parts := make([]string, len(p.set))
	for i, r := range p.set {
		parts[i] = r.String()
	}
	return strings.Join(parts, ",")
}

// Type implements pflag.Value.
func (p *prefixList) Type() string { return "cidrs" }

func mustPrefixes(s string) []netip.Prefix {
	set, err := parsePrefixes(s)
	if err != nil {
		panic(err)
	}
	return set
}

func parsePrefixes(s string) ([]netip.Prefix, error) {
	var set []netip.Prefix
	families := map[bool]bool{}
	for part := range strings.SplitSeq(s, ",") {
		r, err := netip.ParsePrefix(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("%q is not a range such as 10.96.0.0/12", part)
		}
		if r != r.Masked() {
			return nil, fmt.Errorf("%s has bits set behind its length: write %s", r, r.Masked())
		}
		if families[r.Addr().Is4()] {
			return nil, fmt.Errorf("two ranges of one family in %q: give at most one IPv4 and one IPv6 range", s)
		}
		families[r.Addr().Is4()] = true
		set = append(set, r)
	}
	return set, nil
}

// needRoot ends a command that must be root and is not.
func needRoot(what string) error {
	if os.Geteuid() == 0 {
		return nil
	}
	return exit(exitNeedsRoot, fmt.Errorf("%s needs root, because it reads and writes kernel state: run it with sudo", what))
}

// nodeName is the value of --node, or the host name in lower case.
func (f *sourceFlags) nodeName() (string, error) {
	if f.node != "" {
		return f.node, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("host name: %w", err)
	}
	return strings.ToLower(host), nil
}

// scope says where a command works once namespaces are sorted out.
type scope struct {
	// stateDir holds the live objects of the node.
	stateDir string
	// netns is the name of the namespace, empty for the current one.
	netns string
	// pod: the namespace is a Pod's own: only rules are made in it.
	pod bool
}

// scope resolves --netns and --state-dir. A namespace that is a Pod of the
// node described by the state directory is a Pod's own.
func (f *nodeFlags) scope() scope {
	outer := f.stateDir
	if outer == "" {
		outer = defaultStateDir
	}
	s := scope{stateDir: outer, netns: f.netns}
	if f.netns == "" {
		return s
	}
	if isPodNamespace(outer, f.netns) {
		s.pod = true
		return s
	}
	if f.stateDir == "" {
		s.stateDir = filepath.Join(defaultStateDir, "netns", f.netns)
	}
	return s
}
