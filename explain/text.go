package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/toyproxy/toyproxy/dataplane"
)

// Text writes an explanation for people: the answer, why, the way, the shares.
// rules says whose rules they are, as "iptables, as rendered". It may hold text
// of manifests.
func (e Explanation) Text(rules string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", e.Answer())
	for _, c := range e.Because {
		fmt.Fprintf(&b, "  because %s\n", c)
	}
	if e.From.Chosen && e.Verdict != None {
		fmt.Fprintf(&b, "  from %s, since nobody was named: --from POD, an address or node\n", e.From)
	}
	for _, d := range e.Differences {
		fmt.Fprintf(&b, "  drift: %s\n", d)
	}
	if e.Compared && len(e.Differences) == 0 {
		b.WriteString("  no drift: these are the rules that the manifests ask for\n")
	}
	if e.Probe != "" {
		fmt.Fprintf(&b, "  probe: %s%s\n", e.Probe, e.probeText())
	}
	if e.Verdict != None {
		fmt.Fprintf(&b, "\nPath (%s; %d rules at most)\n", rules, e.Rules)
		e.writeSteps(&b)
	}
	e.writeEndpoints(&b)
	for i, n := range e.Notes {
		if i == 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	return b.String()
}

// Agrees reports whether a probe ended as the path says.
func (e Explanation) Agrees() bool {
	return e.Probe == e.Verdict || e.Verdict == Mixed || e.Verdict == Untouched
}

// probeText compares a probe with the path, and says what may be between them.
func (e Explanation) probeText() string {
	switch {
	case e.Verdict == Untouched:
		return ": no rule of toyproxy's has a say in it"
	case e.Agrees():
		return ", as the path says"
	case e.Verdict == OK && e.Probe == Refused:
		return ": no rule of toyproxy's refuses it; perhaps nothing listens at the endpoint"
	case e.Verdict == OK && e.Probe == Timeout && e.Target.Key.Protocol == dataplane.UDP:
		return ": no answer; it may be that the endpoint has none to such a datagram"
	case e.Verdict == OK && e.Probe == Timeout:
		return ": no answer; rules of others, or the way to the endpoint, are in between"
	}
	return ": not what the path says; rules of others, or a flow that is tracked already, are in between"
}

// Answer is the first line: what becomes of the packet.
func (e Explanation) Answer() string {
	to := e.Target.String()
	way := fmt.Sprintf("%s to %s", e.From, to)
	if e.Frontend.Service != "" {
		way += ", " + e.Frontend.Kind.String() + " of Service " + e.Frontend.Service + ","
	}
	switch e.Verdict {
	case OK:
		what := "1 endpoint"
		if n := len(e.Endpoints); n != 1 {
			what = fmt.Sprintf("%d endpoints", n)
		}
		if e.Affinity && len(e.Endpoints) > 1 {
			what = "one of " + what + ", and comes back to it"
		}
		return fmt.Sprintf("OK: %s reaches %s; %s", way, what, e.rewritten())
	case Refused:
		return fmt.Sprintf("REFUSED: %s is refused at once", way)
	case Timeout:
		return fmt.Sprintf("TIMEOUT: %s is dropped, and nobody is told", way)
	case Untouched:
		return fmt.Sprintf("UNTOUCHED: %s is no business of toyproxy's rules: the routes of the node decide", way)
	case Mixed:
		return fmt.Sprintf("MIXED: %s is served or not by lot", way)
	}
	return fmt.Sprintf("NONE: %s has no frontend, there is no path to walk", to)
}

// most is how many steps of a choice are shown before the others are counted.
const most = 3

// writeSteps writes the way hook by hook. Of many rules that draw lots only the
// first are shown.
func (e Explanation) writeSteps(b *strings.Builder) {
	hook := ""
	for i := 0; i < len(e.Steps); i++ {
		s := e.Steps[i]
		if s.Hook != hook {
			hook = s.Hook
			fmt.Fprintf(b, "  %s\n", hook)
		}
		s.write(b, e.Because)
		run := 1
		for i+run < len(e.Steps) && alike(e.Steps[i+run], s) {
			run++
		}
		if run > most+1 {
			for _, s := range e.Steps[i+1 : i+most] {
				s.write(b, e.Because)
			}
			fmt.Fprintf(b, "    … and %d more like it\n", run-most)
			i += run - 1
		}
	}
	if len(e.Steps) == 0 {
		b.WriteString("  no rule of toyproxy's takes the packet\n")
	}
}

// alike reports whether two steps are lots of one kind.
func alike(a, b Step) bool {
	lots := a.Subject == dataplane.AboutChoice || a.Subject == dataplane.AboutAffinity
	return lots && a.Hook == b.Hook && (b.Subject == dataplane.AboutChoice || b.Subject == dataplane.AboutAffinity)
}

// write writes a step; what has been told as a reason is not told again.
func (s Step) write(b *strings.Builder, told []Cause) {
	why := s.Why
	if s.Share < 1-1e-9 {
		why += ", " + percent(s.Share)
	}
	if in := s.Chain; !strings.HasPrefix(s.Rule, "-A "+in+" ") {
		fmt.Fprintf(b, "    %s: %s\n", in, s.Rule)
	} else {
		fmt.Fprintf(b, "    %s\n", s.Rule)
	}
	fmt.Fprintf(b, "      %s\n", why)
	for _, c := range s.Causes {
		if !slices.ContainsFunc(told, func(o Cause) bool { return o.String() == c.String() }) {
			fmt.Fprintf(b, "      ← %s\n", c)
		}
	}
}

// writeEndpoints writes the shares, and what of the Service is not used.
func (e Explanation) writeEndpoints(b *strings.Builder) {
	if len(e.Endpoints)+len(e.Unused) == 0 {
		return
	}
	rows := [][]string{{"ENDPOINT", "SHARE", "POD", "NODE", "SOURCE"}}
	for _, ep := range e.Endpoints {
		source := "kept"
		if ep.Masquerade {
			source = "rewritten"
		}
		rows = append(rows, []string{ep.Addr.String(), percent(ep.Share), cmp.Or(ep.Pod, "-"), cmp.Or(ep.Node, "-"), source})
	}
	for _, u := range e.Unused {
		rows = append(rows, []string{u.Addr.String(), "-", cmp.Or(u.Pod, "-"), "-", "not used: " + u.Reason})
	}
	b.WriteByte('\n')
	writeTable(b, rows)
}

// writeTable writes rows in columns three blanks apart.
func writeTable(b *strings.Builder, rows [][]string) {
	width := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, cell := range r {
			width[i] = max(width[i], len(cell))
		}
	}
	for _, r := range rows {
		for i, cell := range r[:len(r)-1] {
			fmt.Fprintf(b, "%-*s", width[i]+3, cell)
		}
		b.WriteString(r[len(r)-1] + "\n")
	}
}

// few is how many rules of a kind are named as different: what follows from the
// first is different as well.
const few = 4

// Compare adds to the explanation of what the kernel holds how it differs from
// that of what was rendered. The numbers of rows, and the order of endpoints, say
// nothing.
func (e *Explanation) Compare(rendered Explanation) {
	e.Compared = true
	if e.Verdict != rendered.Verdict {
		e.Differences = append(e.Differences, fmt.Sprintf("the manifests say %s, the kernel does %s", rendered.Verdict, e.Verdict))
	}
	for _, s := range first(lacking(rendered.Steps, e.Steps), few) {
		e.Differences = append(e.Differences, fmt.Sprintf("the kernel's path lacks, in %s: %s", s.Hook, s.Rule))
	}
	for _, s := range first(lacking(e.Steps, rendered.Steps), few) {
		e.Differences = append(e.Differences, fmt.Sprintf("the kernel's path has besides, in %s: %s", s.Hook, s.Rule))
	}
	for _, ep := range rendered.Endpoints {
		if share := shareOf(e.Endpoints, ep); share < ep.Share-0.001 || share > ep.Share+0.001 {
			e.Differences = append(e.Differences, fmt.Sprintf("endpoint %s gets %s, not %s", ep.Addr, percent(share), percent(ep.Share)))
		}
	}
	for _, ep := range e.Endpoints {
		if shareOf(rendered.Endpoints, ep) == 0 {
			e.Differences = append(e.Differences, fmt.Sprintf("endpoint %s gets %s, and is not wanted", ep.Addr, percent(ep.Share)))
		}
	}
}

// lacking returns the steps that another way does not have, but for lots.
func lacking(steps, other []Step) []Step {
	return slices.DeleteFunc(slices.Clone(steps), func(s Step) bool {
		return s.Subject == dataplane.AboutChoice || slices.ContainsFunc(other, func(o Step) bool {
			return o.Hook == s.Hook && o.Chain == s.Chain && o.Rule == s.Rule
		})
	})
}

// shareOf is the share of an endpoint with the same treatment of the source.
func shareOf(list []Endpoint, ep Endpoint) float64 {
	for _, o := range list {
		if o.Addr == ep.Addr && o.Masquerade == ep.Masquerade {
			return o.Share
		}
	}
	return 0
}
