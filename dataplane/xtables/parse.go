package xtables

import (
	"bytes"
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
	p := newParser()
	_, _ = p.Write(save)
	return p.result()
}

// parser is Parse for text that comes piece by piece: all of it at once would be as
// large as the state that it tells of.
type parser struct {
	state State
	table *TableState
	// chain is the chain of ours whose rules are coming in, room those that came.
	chain string
	room  Lines
	// rest is a line whose end is yet to come, lines how many came.
	rest  []byte
	lines int
	err   error
}

func newParser() *parser { return &parser{state: State{Tables: map[Table]*TableState{}}} }

// Write takes more of the text. What is wrong with it is told by result.
func (p *parser) Write(text []byte) (int, error) {
	n := len(text)
	for p.err == nil {
		line, after, whole := bytes.Cut(text, []byte{'\n'})
		if !whole {
			break
		}
		if len(p.rest) > 0 {
			p.rest = append(p.rest, line...)
			line = p.rest
		}
		p.line(line)
		p.rest, text = p.rest[:0], after
	}
	p.rest = append(p.rest, text...)
	return n, nil
}

// result returns the state when all of the text has come.
func (p *parser) result() (State, error) {
	if p.err == nil && len(p.rest) > 0 {
		p.line(p.rest)
	}
	if p.err != nil {
		return State{}, p.err
	}
	p.keep()
	return p.state, nil
}

// keep puts the rules that came for a chain of ours into its table.
func (p *parser) keep() {
	if p.chain == "" {
		return
	}
	rules := p.room.rules()
	if had := p.table.Chains[p.chain]; len(had) > 0 {
		rules = append(had, rules...)
	}
	p.table.Chains[p.chain], p.chain = rules, ""
	p.room.empty()
}

// line takes a line, which is only lent to it.
func (p *parser) line(line []byte) {
	p.lines++
	switch {
	case len(line) == 0 || string(line) == "COMMIT":
	case line[0] == '#':
		p.err = complaint(string(line))
	case line[0] == '*':
		p.keep()
		p.table = &TableState{Chains: map[string][]string{}, Bases: map[string]*BaseState{}, Referenced: map[string]string{}}
		p.state.Tables[Table(line[1:])] = p.table
	case p.table == nil:
		p.err = fmt.Errorf("line %d of iptables-save: %q stands in no table", p.lines, line)
	default:
		if err := p.read(line); err != nil {
			p.err = fmt.Errorf("line %d of iptables-save: %w", p.lines, err)
		}
	}
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
func (p *parser) read(line []byte) error {
	if line[0] == '[' { // counters, from iptables-save -c
		_, line, _ = bytes.Cut(line, []byte("] "))
	}
	if declared, ok := bytes.CutPrefix(line, []byte(":")); ok {
		name, rest, _ := strings.Cut(string(declared), " ")
		policy, _, _ := strings.Cut(rest, " ")
		p.table.declare(name, policy)
		return nil
	}
	rest, ok := bytes.CutPrefix(line, []byte("-A "))
	if !ok {
		return fmt.Errorf("%q is neither a chain nor a rule", line)
	}
	chain, rule, _ := bytes.Cut(rest, []byte{' '})
	if string(chain) != p.chain {
		p.keep()
		if _, ours := p.table.Chains[string(chain)]; !ours && !Owned(string(chain)) {
			p.table.foreign(string(chain), string(rule))
			return nil
		}
		p.chain = string(chain)
	}
	p.room.Text = append(p.room.Text, rule...)
	p.room.End()
	return nil
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

// foreign takes a rule of a chain that is not ours.
func (ts *TableState) foreign(chain, rule string) {
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
