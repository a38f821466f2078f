package xtables

import (
	"fmt"
	"strings"
)

// State is what one engine holds for one family, as far as it concerns us. The
// zero State is an empty kernel.
type State struct {
	Tables map[Table]*TableState
}

// TableState is the state of one table that exists in the kernel.
type TableState struct {
	// Chains holds our chains, with their rules as Chain.Rules has them.
	Chains map[string][]string
	// Bases holds the built-in chains by name.
	Bases map[string]*BaseState
	// ForeignChains counts the chains of others, ForeignRules the rules in them
	// and in the built-in chains.
	ForeignChains, ForeignRules int
	// Referenced names those of our chains that a chain of somebody else leads
	// to, with that chain's name: the kernel will not delete them.
	Referenced map[string]string
}

// BaseState is the state of one built-in chain.
type BaseState struct {
	// Policy is ACCEPT or DROP.
	Policy string
	// Jumps are our rules, which lead to chains of ours, in order.
	Jumps []string
	// Guests are the rules of others that lead to chains of ours.
	Guests []string
	// Foreign counts the rules of others, those too.
	Foreign int
}

// Foreign counts rules and chains of others in all tables: which engine the
// rest of the machine uses.
func (s State) Foreign() int {
	n := 0
	for _, t := range s.Tables {
		n += t.ForeignRules + t.ForeignChains
	}
	return n
}

// Ours reports whether anything in the state is ours.
func (s State) Ours() bool {
	for _, t := range s.Tables {
		if len(t.Chains) > 0 {
			return true
		}
		for _, b := range t.Bases {
			if len(b.Jumps) > 0 {
				return true
			}
		}
	}
	return false
}

// chain returns our chain of that name, and whether it exists.
func (s State) chain(t Table, name string) ([]string, bool) {
	ts := s.Tables[t]
	if ts == nil {
		return nil, false
	}
	rules, ok := ts.Chains[name]
	return rules, ok
}

// jumps returns the jumps in a built-in chain.
func (s State) jumps(t Table, base string) []string {
	ts := s.Tables[t]
	if ts == nil || ts.Bases[base] == nil {
		return nil
	}
	return ts.Bases[base].Jumps
}

// Parse reads the output of iptables-save of any version and either engine,
// with or without counters. It is an error when a table says that this tool
// cannot read it, because what cannot be read cannot be compared.
func Parse(save []byte) (State, error) {
	st := State{Tables: map[Table]*TableState{}}
	var cur *TableState
	n := -1
	for line := range strings.Lines(string(save)) {
		line, n = strings.TrimSuffix(line, "\n"), n+1
		switch {
		case line == "" || line == "COMMIT":
		case line[0] == '#':
			if err := complaint(line); err != nil {
				return State{}, err
			}
		case line[0] == '*':
			cur = &TableState{Chains: map[string][]string{}, Bases: map[string]*BaseState{}, Referenced: map[string]string{}}
			st.Tables[Table(line[1:])] = cur
		case cur == nil:
			return State{}, fmt.Errorf("line %d of iptables-save: %q stands in no table", n+1, line)
		default:
			if err := cur.read(line); err != nil {
				return State{}, fmt.Errorf("line %d of iptables-save: %w", n+1, err)
			}
		}
	}
	return st, nil
}

// complaint recognises "# Table `nat' is incompatible, use 'nft' tool.", which
// iptables-nft-save prints instead of a table that holds native nft rules.
func complaint(line string) error {
	rest, ok := strings.CutPrefix(line, "# Table `")
	if !ok || !strings.Contains(rest, "incompatible") {
		return nil
	}
	name, _, _ := strings.Cut(rest, "'")
	switch Table(name) {
	case NAT, Filter, Mangle:
		return fmt.Errorf("table %s holds rules of the nft tool that iptables cannot read; move them to a table of another name (nft list ruleset shows them), or use --iptables-engine legacy", name)
	}
	return nil
}

// read takes a chain declaration or a rule.
func (ts *TableState) read(line string) error {
	if line[0] == '[' { // counters, from iptables-save -c
		_, rest, _ := strings.Cut(line, "] ")
		line = rest
	}
	switch {
	case strings.HasPrefix(line, ":"):
		name, rest, _ := strings.Cut(line[1:], " ")
		policy, _, _ := strings.Cut(rest, " ")
		ts.declare(name, policy)
		return nil
	case strings.HasPrefix(line, "-A "):
		chain, rule, _ := strings.Cut(line[len("-A "):], " ")
		ts.rule(chain, rule)
		return nil
	}
	return fmt.Errorf("%q is neither a chain nor a rule", line)
}

func (ts *TableState) declare(name, policy string) {
	switch {
	case Owned(name):
		ts.Chains[name] = nil
	case policy != "-":
		ts.Bases[name] = &BaseState{Policy: policy}
	default:
		ts.ForeignChains++
	}
}

func (ts *TableState) rule(chain, rule string) {
	if rules, ours := ts.Chains[chain]; ours || Owned(chain) {
		ts.Chains[chain] = append(rules, rule)
		return
	}
	target := targetOf(rule)
	base := ts.Bases[chain]
	switch {
	case base == nil:
		ts.ForeignRules++
		if Owned(target) {
			ts.Referenced[target] = chain
		}
	case ownJump(rule):
		base.Jumps = append(base.Jumps, rule)
	default:
		base.Foreign++
		ts.ForeignRules++
		if Owned(target) {
			base.Guests = append(base.Guests, rule)
		}
	}
}

// targetOf returns the target of a rule as iptables-save prints it: the word
// after -j or -g. A comment may contain anything, so quoted text is skipped.
func targetOf(rule string) string {
	for rule != "" {
		var word string
		if rule[0] == '"' {
			rule = afterQuoted(rule)
			continue
		}
		word, rule, _ = strings.Cut(rule, " ")
		if word == "-j" || word == "-g" {
			target, _, _ := strings.Cut(rule, " ")
			return target
		}
	}
	return ""
}

// afterQuoted returns what follows the quoted word that s begins with.
func afterQuoted(s string) string {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return strings.TrimPrefix(s[i+1:], " ")
		}
	}
	return ""
}
