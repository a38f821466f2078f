package main

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/balance"
)

// doorFlags say where a node serves what comes from outside, and how it tells
// its own Pods. Their names are kube-proxy's.
type doorFlags struct {
	nodePorts     wordList
	mode          detectMode
	bridge        checkedString
	prefix        checkedString
	masqueradeAll bool
	bit           markBit
}

func (f *doorFlags) register(cmd *cobra.Command) {
	f.nodePorts.check = checkNodePortWords
	f.mode = detectMode(balance.ClusterCIDR)
	f.bridge.check, f.prefix.check = checkLinkName, checkLinkName
	f.bit = defaultBit
	fl := cmd.Flags()
	fl.Var(&f.nodePorts, "nodeport-addresses", "addresses on which NodePorts answer: ranges, or all (but loopback), primary, localhost (default all)")
	fl.Var(&f.mode, "detect-local-mode", "what makes a source a Pod of this node: "+strings.Join(detectModes(), ", "))
	fl.Var(&f.bridge, "pod-bridge-interface", "bridge that Pods' packets come through, for BridgeInterface")
	fl.Var(&f.prefix, "pod-interface-name-prefix", "beginning of the names of Pods' links, for InterfaceNamePrefix")
	fl.BoolVar(&f.masqueradeAll, "masquerade-all", false, "rewrite the source of everything that goes to a ClusterIP")
	fl.Var(&f.bit, "masquerade-bit", "bit of the packet mark that says: rewrite the source")
	_ = cmd.RegisterFlagCompletionFunc("detect-local-mode", cobra.FixedCompletions(detectModes(), cobra.ShellCompDirectiveNoFileComp))
}

// doorFlagNames are the flags that other commands need to mean the same.
func doorFlagNames() []string {
	return []string{"nodeport-addresses", "detect-local-mode", "pod-bridge-interface", "pod-interface-name-prefix", "masquerade-all", "masquerade-bit"}
}

// check refuses flags that contradict each other.
func (f *doorFlags) check() error {
	for _, c := range []struct {
		flag, value string
		mode        balance.Mode
	}{
		{"--pod-bridge-interface", f.bridge.value, balance.BridgeInterface},
		{"--pod-interface-name-prefix", f.prefix.value, balance.InterfaceNamePrefix},
	} {
		switch fits := f.mode.mode() == c.mode; {
		case fits && c.value == "":
			return fmt.Errorf("--detect-local-mode %s needs to know the links: add %s", c.mode, c.flag)
		case !fits && c.value != "":
			return fmt.Errorf("%s is read only with --detect-local-mode %s: add that, or leave it out", c.flag, c.mode)
		}
	}
	return nil
}

// openDoors sets what the flags say of a node that has these addresses and
// ranges of Pods of its own.
func (f *sourceFlags) openDoors(n *agent.Node, services []*corev1.Service, own []netip.Addr, pods []netip.Prefix) error {
	d := &f.doors
	if err := d.check(); err != nil {
		return exit(exitUsage, err)
	}
	detection := balance.Detection{Mode: d.mode.mode(), ClusterRanges: f.clusterCIDRs.set, NodeRanges: pods, Interface: d.bridge.value + d.prefix.value}
	if err := detection.Apply(n); err != nil {
		return exit(exitUsage, err)
	}
	n.MasqueradeAll, n.MasqueradeMark = d.masqueradeAll, 1<<d.bit
	own = balance.WithoutBalancers(own, n.Primary, services)
	addrs, err := balance.NodePortAddrs(d.nodePorts.words, own, n.Primary)
	if err != nil {
		return exit(exitUsage, err)
	}
	n.Addrs = addrs
	return nil
}

// wordList is a flag of words that are separated by commas.
type wordList struct {
	words []string
	check func([]string) error
}

// Set implements pflag.Value.
func (l *wordList) Set(v string) error {
	var words []string
	for w := range strings.SplitSeq(v, ",") {
		words = append(words, strings.TrimSpace(w))
	}
	if err := l.check(words); err != nil {
		return err
	}
	l.words = words
	return nil
}

// String implements pflag.Value.
func (l *wordList) String() string { return strings.Join(l.words, ",") }

// Type implements pflag.Value.
func (l *wordList) Type() string { return "list" }

// checkNodePortWords asks balance, with no addresses to choose from.
func checkNodePortWords(words []string) error {
	_, err := balance.NodePortAddrs(words, nil, nil)
	return err
}

// checkLinkName asks balance, as if for the name of a bridge.
func checkLinkName(name string) error {
	if (balance.Detection{Mode: balance.BridgeInterface, Interface: name}).Apply(&agent.Node{}) != nil {
		return errors.New("must be the name of a network link, or its beginning: up to 15 letters, digits, dots, dashes or underscores")
	}
	return nil
}

// detectMode is the value of --detect-local-mode.
type detectMode balance.Mode

func detectModes() []string {
	return []string{string(balance.ClusterCIDR), string(balance.NodeCIDR), string(balance.BridgeInterface), string(balance.InterfaceNamePrefix)}
}

func (m detectMode) mode() balance.Mode { return balance.Mode(m) }

// Set implements pflag.Value.
func (m *detectMode) Set(v string) error {
	if !slices.Contains(detectModes(), v) {
		return errors.New("must be one of " + strings.Join(detectModes(), ", "))
	}
	*m = detectMode(v)
	return nil
}

// String implements pflag.Value.
func (m *detectMode) String() string { return string(*m) }

// Type implements pflag.Value.
func (m *detectMode) Type() string { return "mode" }

// markBit is the value of --masquerade-bit.
type markBit uint8

// defaultBit is kube-proxy's, and dataplane.DefaultMasqueradeMark.
const defaultBit markBit = 14

// Set implements pflag.Value.
func (b *markBit) Set(v string) error {
	n, err := strconv.ParseUint(v, 10, 8)
	if err != nil || n > 31 {
		return errors.New("must be a number from 0 to 31: a packet mark has 32 bits")
	}
	*b = markBit(n)
	return nil
}

// String implements pflag.Value.
func (b *markBit) String() string { return strconv.Itoa(int(*b)) }

// Type implements pflag.Value.
func (b *markBit) Type() string { return "bit" }
