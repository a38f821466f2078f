package ipvs

import (
	"strings"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
)

// told is what is said of a rule.
type told struct {
	subject dataplane.Subject
	why     string
}

// describe says what a rule that was taken decides: by the set that it looks
// into, else by its chain and what it does.
func describe(r xtables.Taken) (dataplane.Subject, string) {
	if r.Chain == r.Base {
		return dataplane.AboutEntry, describeJump(r.Target)
	}
	t, ok := describeSet(r)
	if !ok {
		t = describeRule(r)
	}
	return t.subject, t.why
}

// describeJump says which packets come to a chain of ours.
func describeJump(chain string) string {
	switch chain {
	case chainServices, chainLocal:
		return "every first packet of a flow"
	case chainMarkIn, chainMarkOut:
		return "packets before they are routed: some sources go elsewhere"
	case chainArrived:
		return "packets that the node takes in"
	case chainFilter:
		return "first packets that the node takes in or sends on: before IPVS sees them"
	case chainUnused:
		return "first packets that leave: none may go to an address of no Service"
	case chainOut:
		return "marked to be refused"
	case chainForward:
		return "what the node forwards"
	}
	return "on the way out"
}

// describeSet describes a rule by the set that made it match.
func describeSet(r xtables.Taken) (told, bool) {
	var kinds []setKind
	for k := range setKinds {
		for _, f := range []dataplane.Family{dataplane.IPv4, dataplane.IPv6} {
			if strings.Contains(r.Rule, "-set "+setID{k, f}.String()+" ") {
				kinds = append(kinds, k)
			}
		}
	}
	if len(kinds) == 0 {
		return told{}, false
	}
	return describeKinds(r, kinds)
}

// describeKinds describes a rule that looks into sets, the lowest kind first.
func describeKinds(r xtables.Taken, kinds []setKind) (told, bool) {
	refused := r.Target == "REJECT" || r.Chain == chainLocal && kinds[len(kinds)-1] != services
	says := map[setKind]told{
		hairpin:       {dataplane.AboutHairpin, "the endpoint has dialled itself: the source becomes an address of the node"},
		dropped:       {dataplane.AboutDiscard, "packets to this frontend are dropped"},
		dropPod:       {dataplane.AboutDiscard, "packets from Pods to this frontend are dropped"},
		dropNode:      {dataplane.AboutDiscard, "packets of the node to this frontend are dropped"},
		dropOutside:   {dataplane.AboutDiscard, "packets from outside to this frontend are dropped"},
		refusePod:     {dataplane.AboutRefusal, "packets from Pods to this frontend are refused"},
		refuseNode:    {dataplane.AboutRefusal, "packets of the node to this frontend are refused"},
		refuseOutside: {dataplane.AboutRefusal, "packets from outside to this frontend are refused"},
		kept:          {dataplane.AboutClass, "the source is kept: the frontend is in this set"},
		keptNode:      {dataplane.AboutClass, "the source is kept: the frontend is in this set"},
		masqueraded:   {dataplane.AboutMasquerading, "a mark notes that the source is to be rewritten, that of Pods too"},
		restricted:    {dataplane.AboutSources, "the source is in no range that may use the frontend"},
		brought:       {dataplane.AboutDispatch, "a mark by which the packet is brought in: the address need not be the node's"},
		markPod:       {dataplane.AboutClass, "packets from Pods go to other endpoints: a mark chooses them"},
		markNode:      {dataplane.AboutClass, "packets of the node go to other endpoints: a mark chooses them"},
		markOutside:   {dataplane.AboutClass, "packets from outside go to other endpoints: a mark chooses them"},
	}
	for _, k := range kinds {
		if t, ok := says[k]; ok {
			return t, true
		}
	}
	switch {
	case refused:
		return told{dataplane.AboutUnserved, "an address or port of ours that no virtual server serves"}, true
	case r.Target == "RETURN":
		return told{dataplane.AboutDispatch, "no virtual server serves it: nothing to mark"}, true
	case r.Target == "CONNMARK":
		return told{dataplane.AboutPassage, "the connection is marked, so that FORWARD knows it"}, true
	}
	return told{dataplane.AboutMasquerading, "a mark notes that the source is to be rewritten"}, true
}

// describeRule describes the rules that look into no set.
func describeRule(r xtables.Taken) told {
	says := map[[2]string]told{
		{chainFilter, chainSources}:      {dataplane.AboutClass, "what is decided by source"},
		{chainFilter, "REJECT"}:          {dataplane.AboutRefusal, "refused at once"},
		{chainOut, "REJECT"}:             {dataplane.AboutRefusal, "refused at once"},
		{chainUnused, "DROP"}:            {dataplane.AboutUnserved, "no frontend has this address of the Service range: it goes nowhere"},
		{chainForward, "ACCEPT"}:         {dataplane.AboutPassage, "accepted, whatever the host's FORWARD policy is"},
		{chainServices, "MARK"}:          {dataplane.AboutMasquerading, "no Pod sends it: a mark notes that the source is to be rewritten"},
		{chainServices, "RETURN"}:        {dataplane.AboutClass, "a Pod sends it: the source is kept"},
		{chainSources, "RETURN"}:         {dataplane.AboutClass, "nothing more is decided about this source"},
		{chainMarkIn, "RETURN"}:          {dataplane.AboutClass, "nothing more is decided about this source"},
		{chainArrived, "MARK"}:           {dataplane.AboutDispatch, "the mark has brought it in, and is taken off"},
		{chainLocal, "DNAT"}:             {dataplane.AboutRefusal, "turned away from IPVS, to be refused where it leaves"},
		{chainPostrouting, "MARK"}:       {dataplane.AboutMasquerading, "marks of ours are taken off"},
		{chainPostrouting, "MASQUERADE"}: {dataplane.AboutMasquerading, "the source becomes an address of the node"},
		{chainPostrouting, "RETURN"}:     {dataplane.AboutPassage, "not marked: the source is kept"},
	}
	if t, ok := says[[2]string{r.Chain, r.Target}]; ok {
		return t
	}
	return told{dataplane.AboutEntry, "a rule that toyproxy does not write"}
}
