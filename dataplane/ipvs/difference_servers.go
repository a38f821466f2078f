package ipvs

import (
	"fmt"
	"maps"
	"slices"

	"github.com/toyproxy/toyproxy/dataplane"
)

// raiseServers adds and edits virtual servers and their real servers. Real servers
// that are not wanted go here too, after all new ones have come; those of a virtual
// server that goes are not named one by one.
func (s *steps) raiseServers(want target, have observed) {
	var late steps
	for i := range want.servers {
		v := &want.servers[i]
		held, exists := have.servers[v.serverID]
		switch {
		case !exists:
			s.addRow(1+len(v.real), v.opening)
			continue
		case held == v:
			continue
		}
		if d := v.difference(*held); d != "" {
			s.add(putServer{v, true}, v.change(dataplane.Update, d, "- "+held.line("A"), "+ "+v.line("A")))
		}
		for _, r := range s.matchReal(v, *held) {
			late.retire(want, *v, r, have.now)
		}
	}
	*s = append(*s, late...)
}

// opening are the steps that add a virtual server that is missing: itself, then its
// real servers.
func (v *virtualServer) opening(i int) step {
	if i == 0 {
		return step{putServer{v, false}, func() dataplane.Change {
			return v.change(dataplane.Add, "virtual server missing", "+ "+v.line("A"))
		}}
	}
	return v.missing(v.real[i-1])
}

// missing is the step that adds a real server that is missing.
func (v *virtualServer) missing(r realServer) step {
	return step{putReal{v, r, false}, func() dataplane.Change {
		return r.change(*v, dataplane.Add, fmt.Sprintf("real server %s missing", r.addr), "+ "+r.line("a", *v))
	}}
}

func (v virtualServer) change(op dataplane.Op, reason string, lines ...string) dataplane.Change {
	return dataplane.Change{Op: op, Object: v.object(), For: v.service, Reason: reason, Lines: lines}
}

func (r realServer) change(v virtualServer, op dataplane.Op, reason string, lines ...string) dataplane.Change {
	return dataplane.Change{Op: op, Object: r.object(v), For: v.service, Reason: reason, Lines: lines}
}

// matchReal adds and edits the real servers of one virtual server, and returns
// those that nobody wants.
func (s *steps) matchReal(v *virtualServer, held virtualServer) []realServer {
	have := make(map[spot]realServer, len(held.real))
	for _, r := range held.real {
		have[r.addr] = r
	}
	for _, r := range v.real {
		old, exists := have[r.addr]
		delete(have, r.addr)
		if !exists {
			s.addRow(1, func(int) step { return v.missing(r) })
		} else if d := r.difference(old); d != "" {
			s.add(putReal{v, r, true}, r.change(*v, dataplane.Update, d, "- "+old.line("a", *v), "+ "+r.line("a", *v)))
		}
	}
	return slices.SortedFunc(maps.Values(have), compareReal)
}

// dropServers takes virtual servers of ours that nobody wants out of use.
func (s *steps) dropServers(want target, have observed) {
	wanted := make(map[serverID]bool, len(want.servers))
	for _, v := range want.servers {
		wanted[v.serverID] = true
	}
	for _, id := range slices.SortedFunc(maps.Keys(have.servers), serverID.compare) {
		if !wanted[id] && have.owns(id) {
			s.retireServer(want, *have.servers[id], have.now)
		}
	}
}
