package xtables

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/toyproxy/toyproxy/dataplane"
)

// Found says which engine to use and why.
type Found struct {
	Engine Engine
	// Reason is for people.
	Reason string
	// Version is that of the tool: "1.8.9".
	Version string
	// RandomFully says that the tool knows MASQUERADE --random-fully.
	RandomFully bool
	// ForeignOther counts rules and chains of other programs in the engine that
	// was not chosen: they are in force too, and may come first.
	ForeignOther int
}

// facts is what is known about one engine before the choice.
type facts struct {
	usable  error // nil when the kernel really takes rules
	foreign int   // rules, chains and policies of other programs
	ours    bool  // rules or chains of ours are there
}

// Detect chooses the engine for the network namespace of the calling thread by
// really trying, in a namespace made for the trial, whether the kernel takes
// the rules that backends use: there are kernels whose nf_tables can be listed
// but takes nothing. When both are usable the one wins in which our rules stand
// already, else that in which other programs keep theirs, else what plain
// "iptables" is. With an override only that engine is tried. None usable: an error that wraps dataplane.ErrUnsupported.
func Detect(ctx context.Context, override Engine) (Found, error) {
	var known [3]facts
	for _, e := range []Engine{NFT, Legacy} {
		known[e] = examine(ctx, e, override == Auto || override == e)
	}
	engine, reason, err := choose(override, known, plainEngine("iptables"))
	if err != nil {
		return Found{}, err
	}
	version, randomFully, err := Tool{Engine: engine, Family: dataplane.IPv4}.Version()
	if err != nil {
		return Found{}, err
	}
	return Found{Engine: engine, Reason: reason, Version: version, RandomFully: randomFully,
		ForeignOther: known[engine.Other()].foreign}, nil
}

// examine finds the facts about an engine: IPv4 speaks for both families.
func examine(ctx context.Context, e Engine, try bool) facts {
	t := Tool{Engine: e, Family: dataplane.IPv4}
	var f facts
	if st, err := t.Save(ctx); err == nil {
		f.foreign, f.ours = st.Foreign()+st.shut(), st.Ours()
	}
	if try {
		f.usable = t.Probe(ctx)
	}
	return f
}

// choose decides by the facts alone.
func choose(override Engine, known [3]facts, plain Engine) (Engine, string, error) {
	if override != Auto {
		return override, "asked for", known[override].usable
	}
	nft, legacy := known[NFT], known[Legacy]
	switch {
	case nft.usable != nil && legacy.usable != nil:
		return Auto, "", neither(nft.usable, legacy.usable)
	case nft.usable != nil:
		return Legacy, fmt.Sprintf("the kernel takes no rules of engine nft (%v)", nft.usable), nil
	case legacy.usable != nil:
		return NFT, fmt.Sprintf("the kernel takes no rules of engine legacy (%v)", legacy.usable), nil
	case nft.ours != legacy.ours:
		if nft.ours {
			return NFT, "our rules are there already", nil
		}
		return Legacy, "our rules are there already", nil
	case nft.foreign > 0 && legacy.foreign == 0:
		return NFT, "other programs keep their rules there", nil
	case legacy.foreign > 0 && nft.foreign == 0:
		return Legacy, "other programs keep their rules there", nil
	case plain != Auto:
		return plain, "the command iptables is that engine", nil
	}
	return NFT, "both engines work", nil
}

// neither joins the reasons why no engine is usable. When a reason is anything
// but a lacking kernel, it is that which the reader has to mend.
func neither(nft, legacy error) error {
	for _, err := range []error{nft, legacy} {
		if !errors.Is(err, dataplane.ErrUnsupported) {
			return fmt.Errorf("trial of the iptables engines: %w", err)
		}
	}
	return lacking(Auto, dataplane.IPv4, fmt.Sprintf("%v; %v", nft, legacy))
}

// trial is one kernel feature that backends cannot do without.
type trial struct{ feature, rule string }

// trials lists them for a family. The rules stand in chains TOY-PROBE of nat.
func trials(f dataplane.Family) []trial {
	address := "192.0.2.1:80"
	if f == dataplane.IPv6 {
		address = "[2001:db8::1]:80"
	}
	return []trial{
		{"comment match (module xt_comment)", "-A TOY-PROBE -m comment --comment probe"},
		{"MARK target (module xt_mark)", "-A TOY-PROBE -j MARK --set-xmark 0x4000/0xc000"},
		{"statistic match (module xt_statistic)", "-A TOY-PROBE -m statistic --mode random --probability 0.5 -j RETURN"},
		{"addrtype match (module xt_addrtype)", "-A TOY-PROBE -m addrtype --src-type LOCAL -j RETURN"},
		{"conntrack match (module xt_conntrack)", "-A TOY-PROBE -m conntrack --ctstate DNAT -j RETURN"},
		{"DNAT target (module xt_nat)", "-A TOY-PROBE -p tcp -j DNAT --to-destination " + address},
		{"MASQUERADE target (module xt_MASQUERADE)", "-A TOY-PROBE-OUT -j MASQUERADE"},
	}
}

// Probe tries whether the kernel takes the rules that backends use, without any
// effect on this namespace. When it does not, the error wraps
// dataplane.ErrUnsupported and names what is missing.
func (t Tool) Probe(ctx context.Context) error {
	all := trials(t.Family)
	err := t.probe(ctx, trialText(all))
	var refused *RestoreError
	if !errors.As(err, &refused) {
		return err
	}
	var missing []string
	for _, one := range all {
		if t.probe(ctx, trialText([]trial{one})) != nil {
			missing = append(missing, one.feature)
		}
	}
	if len(missing) == 0 {
		return err
	}
	u := lacking(t.Engine, t.Family, refused.Output)
	if len(missing) < len(all) {
		u.Missing = strings.Join(missing, ", ")
	}
	return u
}

// trialText is the input for iptables-restore that tries the features. MASQUERADE
// stands apart, because chains that hold it may be reached from POSTROUTING only.
func trialText(ts []trial) string {
	var b strings.Builder
	b.WriteString("*nat\n:TOY-PROBE - [0:0]\n:TOY-PROBE-OUT - [0:0]\n")
	for _, t := range ts {
		b.WriteString(t.rule + "\n")
	}
	b.WriteString("-I PREROUTING 1 -j TOY-PROBE\n-I POSTROUTING 1 -j TOY-PROBE-OUT\nCOMMIT\n")
	return b.String()
}
