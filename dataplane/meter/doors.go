package meter

import (
	"net/netip"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/conntrack"
)

// doors know which Service port a flow dialled.
type doors struct {
	accounts map[accountKey]*account
	byKey    map[dataplane.Key]*account
	// node are the addresses that a frontend without one of its own stands for.
	node map[netip.Addr]bool
}

func newDoors() doors {
	return doors{accounts: map[accountKey]*account{}, byKey: map[dataplane.Key]*account{}}
}

func addresses(list []netip.Addr) map[netip.Addr]bool {
	out := make(map[netip.Addr]bool, len(list))
	for _, a := range list {
		out[a] = true
	}
	return out
}

// of returns the account that a flow belongs to; nil when it is nobody's.
func (d doors) of(f conntrack.Flow) *account {
	to := f.Original.Destination
	key := dataplane.Key{Addr: to.Addr(), Protocol: f.Protocol, Port: to.Port()}
	if a := d.byKey[key]; a != nil || !d.node[key.Addr] {
		return a
	}
	key.Addr = netip.IPv4Unspecified()
	if to.Addr().Is6() {
		key.Addr = netip.IPv6Unspecified()
	}
	return d.byKey[key]
}

// all lists the frontends there are, as far as replace needs them.
func (d doors) all() []dataplane.Frontend {
	out := make([]dataplane.Frontend, 0, len(d.byKey))
	for k := range d.byKey {
		out = append(out, dataplane.Frontend{Key: k})
	}
	return out
}

// replace takes frontends out and puts others in, whose endpoints are those of the
// sets. Accounts that have frontends before and after go on.
func (d doors) replace(before, after []dataplane.Frontend, sets []dataplane.EndpointSet) {
	var left []*account
	for _, fe := range before {
		if a := d.byKey[fe.Key]; a != nil {
			a.doors--
			left = append(left, a)
			delete(d.byKey, fe.Key)
		}
	}
	for _, a := range left {
		a.names = nil
	}
	for _, fe := range after {
		a := d.account(accountKey{fe.Service, fe.Protocol})
		if old := d.byKey[fe.Key]; old != nil {
			old.doors--
		}
		a.doors++
		d.byKey[fe.Key] = a
	}
	for _, s := range sets {
		if a := d.accounts[accountKey{s.Service, s.Protocol}]; a != nil {
			a.name(s.Endpoints)
		}
	}
	for _, a := range left {
		if a.doors <= 0 && d.accounts[a.key] == a {
			delete(d.accounts, a.key)
		}
	}
}

func (d doors) account(k accountKey) *account {
	a := d.accounts[k]
	if a == nil {
		a = &account{key: k, parts: map[netip.AddrPort]*part{}}
		d.accounts[k] = a
	}
	return a
}

// name notes endpoints of the Service port.
func (a *account) name(list []dataplane.Endpoint) {
	if a.names == nil {
		a.names = make(map[netip.AddrPort]string, len(list))
	}
	for _, e := range list {
		a.names[e.Addr] = e.Name
	}
}
