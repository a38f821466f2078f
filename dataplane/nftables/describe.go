package nftables

import (
	"strings"

	"github.com/toyproxy/toyproxy/dataplane"
)

// describe says what a rule that took a packet decides, by the chain that it
// stands in and by what it does.
func describe(c chain, r rule) (dataplane.Subject, string) {
	last := r[len(r)-1]
	switch {
	case last == (accept{}):
		return dataplane.AboutEntry, "not a rule of toyproxy's: the rest of the table is not asked"
	case c.isBase():
		return describeHook(r)
	case c.name == servicesChain, c.name == refuseChain:
		return describeServices(c, last)
	case c.name == frontendChain:
		return describeSources(r)
	case strings.HasPrefix(c.name, "from-"):
		return describeClass(last)
	case strings.HasPrefix(c.name, "endpoints"):
		if last == (drop{}) {
			return dataplane.AboutDiscard, "between two changes: the client sends it again"
		}
		return dataplane.AboutClass, "the endpoints of this frontend"
	case strings.HasPrefix(c.name, "sticky-"), strings.HasPrefix(c.name, "to-"):
		return describeSticky(r)
	case last == (drop{}):
		return dataplane.AboutDiscard, "between two changes: the client sends it again"
	}
	return dataplane.AboutChoice, "lots are drawn: a number, which is a row of the map"
}

// describeHook describes the rules of base chains.
func describeHook(r rule) (dataplane.Subject, string) {
	switch r[0].(type) {
	case jump:
		return dataplane.AboutEntry, "every first packet of a flow"
	case translated:
		return dataplane.AboutHairpin, "the endpoint has dialled itself: the source becomes an address of the node"
	}
	return dataplane.AboutMasquerading, "the mark says so: the source becomes an address of the node"
}

// describeServices tells frontends from other addresses.
func describeServices(c chain, last statement) (dataplane.Subject, string) {
	switch {
	case c.name == refuseChain:
		return dataplane.AboutRefusal, "refused at once"
	case last == goTo(frontendChain):
		return dataplane.AboutDispatch, "address, protocol and port are those of a frontend"
	case last == goTo(refuseChain):
		return dataplane.AboutUnserved, "no frontend has this port of the address"
	}
	return dataplane.AboutUnserved, "no frontend has this address of the Service range"
}

// describeSources describes what all packets to frontends meet.
func describeSources(r rule) (dataplane.Subject, string) {
	switch to := r[len(r)-1].(type) {
	case drop:
		return dataplane.AboutSources, "the source is in no range that may use the frontend"
	case goTo:
		if to == refuseChain {
			return dataplane.AboutRefusal, "packets to this frontend are refused, wherever they come from"
		}
		who := map[goTo]string{"from-pod": "from Pods", "from-node": "of the node itself", "from-outside": "from outside"}
		return dataplane.AboutClass, "packets " + who[to]
	}
	return dataplane.AboutClass, "by source"
}

// describeClass describes what is decided for one class of sources.
func describeClass(last statement) (dataplane.Subject, string) {
	switch s := last.(type) {
	case mark:
		return dataplane.AboutMasquerading, "packets from there have their source rewritten: a mark notes it"
	case drop:
		return dataplane.AboutDiscard, "packets from there are dropped"
	case goTo:
		if s == refuseChain {
			return dataplane.AboutRefusal, "packets from there are refused"
		}
	}
	return dataplane.AboutClass, "packets from there go to an endpoint"
}

// describeSticky describes frontends whose clients stay with an endpoint.
func describeSticky(r rule) (dataplane.Subject, string) {
	switch r[len(r)-1].(type) {
	case remember:
		return dataplane.AboutAffinity, "the client is remembered, to come back to this endpoint"
	case goTo:
		return dataplane.AboutAffinity, "the client goes back to the endpoint that served it"
	case deliver:
		return dataplane.AboutChoice, "the endpoint becomes the destination"
	case drop:
		return dataplane.AboutDiscard, "between two changes: the client sends it again"
	}
	return dataplane.AboutChoice, "lots are drawn: a number, which is a row of the map"
}
