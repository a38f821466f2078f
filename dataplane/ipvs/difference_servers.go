package ipvs

import (
	"fmt"
	"maps"
	"slices"

	"github.com/toyproxy/toyproxy/dataplane"
)

// raiseServers adds and edits virtual servers and their real servers. A real
// server that is not wanted goes here too, after the new ones have come; those
// of a virtual server that goes are not named one by one.
func (s *steps) raiseServers(want target, have observed) {
	for _, v := range want.servers {
		held, exists := have.servers[v.serverID]
		c := dataplane.Change{Op: dataplane.Add, Object: v.object(), For: v.service,
			Reason: "virtual server missing", Lines: []string{"+ " + v.line("A")}}
		if !exists {
			s.add(putServer{v, false}, c)
		} else if d := v.difference(held); d != "" {
			c.Op, c.Reason = dataplane.Update, d
			c.Lines = []string{"- " + held.line("A"), "+ " + v.line("A")}
			s.add(putServer{v, true}, c)
		}
		s.matchReal(v, held)
	}
}

// matchReal brings the real servers of one virtual server in line.
func (s *steps) matchReal(v, held virtualServer) {
	have := make(map[string]realServer, len(held.real))
	for _, r := range held.real {
		have[r.addr.String()] = r
	}
	for _, r := range v.real {
		old, exists := have[r.addr.String()]
		delete(have, r.addr.String())
		c := dataplane.Change{Op: dataplane.Add, Object: r.object(v), For: v.service,
			Reason: fmt.Sprintf("real server %s missing", r.addr), Lines: []string{"+ " + r.line("a", v)}}
		if !exists {
			s.add(putReal{v, r, false}, c)
		} else if d := r.difference(old); d != "" {
			c.Op, c.Reason = dataplane.Update, d
			c.Lines = []string{"- " + old.line("a", v), "+ " + r.line("a", v)}
			s.add(putReal{v, r, true}, c)
		}
	}
	for _, r := range slices.SortedFunc(maps.Values(have), compareReal) {
		s.add(dropReal{v, r}, dataplane.Change{Op: dataplane.Remove, Object: r.object(v), For: v.service,
			Reason: "real server not wanted", Lines: []string{"- " + r.line("a", v)}})
	}
}

// dropServers deletes virtual servers of ours that nobody wants.
func (s *steps) dropServers(want target, have observed) {
	wanted := make(map[serverID]bool, len(want.servers))
	for _, v := range want.servers {
		wanted[v.serverID] = true
	}
	for _, k := range slices.SortedFunc(maps.Keys(have.servers), serverID.compare) {
		v := have.servers[k]
		if wanted[k] || !have.owns(k) {
			continue
		}
		lines := []string{"- " + v.line("A")}
		for _, r := range v.real {
			lines = append(lines, "- "+r.line("a", v))
		}
		s.add(dropServer{v}, dataplane.Change{Op: dataplane.Remove, Object: v.object(), Reason: "virtual server not wanted", Lines: lines})
	}
}
