package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toyproxy/toyproxy/podnet"
)

const defaultStateDir = "/run/toyproxy"

// sourceFlags say where objects come from.
type sourceFlags struct {
	files        []string
	serviceCIDRs prefixList
	clusterCIDRs prefixList
	node         checkedString
	domain       checkedString
	doors        doorFlags
	// addrs replaces what is known of the node's addresses.
	addrs  addrList
	strict bool
}

func (f *sourceFlags) register(cmd *cobra.Command) {
	f.serviceCIDRs.set = mustPrefixes("10.96.0.0/12,fd00:10:96::/112")
	f.clusterCIDRs.set = mustPrefixes("10.244.0.0/16,fd00:10:244::/56")
	fl := cmd.Flags()
	fl.StringArrayVarP(&f.files, "filename", "f", nil,
		"manifest file, directory (recursive) or - for standard input; repeats\n(default ./manifests, else /etc/toyproxy/manifests, else the built-in demo)")
	fl.Var(&f.serviceCIDRs, "service-cidr", "ranges ClusterIPs come from, at most one a family")
	fl.Var(&f.clusterCIDRs, "cluster-cidr", "ranges all Pods' addresses come from, at most one a family")
	f.node.check = checkNodeName
	fl.Var(&f.node, "node", "name of this node (default: the host name, in lower case)")
	f.domain = clusterDomain()
	fl.Var(&f.domain, "cluster-domain", "zone of cluster DNS: what Pods search names in")
	f.doors.register(cmd)
	fl.BoolVar(&f.strict, "strict", false, "do nothing at all when any manifest is wrong")
}

// nodeFlags say which node is programmed, and how.
type nodeFlags struct {
	backend  backendName
	netns    checkedString
	stateDir string
	engine   engineFlag
	virtual  ipvsFlags
}

func (f *nodeFlags) register(cmd *cobra.Command) {
	f.registerScope(cmd)
	f.backend = backendAuto
	fl := cmd.Flags()
	fl.Var(&f.backend, "backend", "auto, iptables, ipvs or nftables")
	fl.Var(&f.engine, "iptables-engine", "auto, nft or legacy: which iptables writes the rules")
	f.virtual.register(cmd)
	_ = cmd.RegisterFlagCompletionFunc("backend", cobra.FixedCompletions([]string{"auto", "iptables", "ipvs", "nftables"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("iptables-engine", cobra.FixedCompletions([]string{"auto", "nft", "legacy"}, cobra.ShellCompDirectiveNoFileComp))
}

// registerScope adds only the flags that say which node is meant.
func (f *nodeFlags) registerScope(cmd *cobra.Command) {
	fl := cmd.Flags()
	f.netns.check = podnet.CheckNamespaceName
	fl.Var(&f.netns, "netns", "network namespace to work in, a name below /run/netns (default: this one)")
	fl.StringVar(&f.stateDir, "state-dir", "", "where live objects are kept (default "+defaultStateDir+", or "+defaultStateDir+"/netns/NAME with --netns)")
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
	if f.node.value != "" {
		return f.node.value, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("host name: %w", err)
	}
	return strings.ToLower(host), nil
}

// netnsStateDir is where the live objects of a node in a namespace are kept.
func netnsStateDir(name string) string { return filepath.Join(defaultStateDir, "netns", name) }

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
	s := scope{stateDir: outer, netns: f.netns.value}
	if s.netns == "" {
		return s
	}
	if isPodNamespace(outer, s.netns) {
		s.pod = true
		return s
	}
	if f.stateDir == "" || slices.Contains(membersOf(outer), s.netns) {
		s.stateDir = memberDir(outer, s.netns)
	}
	return s
}
