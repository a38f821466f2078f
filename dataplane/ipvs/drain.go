package ipvs

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/toyproxy/toyproxy/dataplane"
)

// A TCP real server that nobody wants any more but that has connections drains:
// weight 0 keeps new ones away, and it goes when the last has ended or the limit
// is over. The kernel alone remembers that and since when, so a new process goes
// on where the old one ended. What is on its way out is no drift: a plan has
// nothing to do about it until it is time.
//
// UDP and SCTP do not drain: a client of a lost endpoint would never learn to
// turn to another one.

// drainLimit is how long a real server may drain unless Config says otherwise. As
// long as the kernel's timeout for a silent TCP connection.
const drainLimit = 15 * time.Minute

// fate is what becomes of a real server that nobody wants.
type fate uint8

const (
	// remove it, now.
	remove fate = iota
	// drain: begin to.
	drain
	// wait for the end of its connections.
	wait
)

// drains reports whether real servers of a virtual server may take their time.
// Scheduler dh would go on to choose one, and refuse the client. Once another
// backend is in use nobody is scheduled any more.
func (t target) drains(v virtualServer) bool {
	return t.drainLimit > 0 && (t.leaving || v.flows == dataplane.TCP && v.scheduler != "dh")
}

// fate decides about a real server that is held and not wanted. The reason is for
// people, behind "real server not wanted".
func (t target) fate(v virtualServer, r realServer, now time.Time) (f fate, reason string) {
	began := time.Unix(int64(r.began), 0)
	switch {
	case !t.drains(v) || r.foreign != masquerading:
		return remove, ""
	case r.open == 0 && r.began == 0:
		return remove, ""
	case r.open == 0:
		return remove, ", and all its connections have ended"
	case r.weight != 0 || r.began == 0:
		return drain, fmt.Sprintf(": time for %s to end, %s at most", connections(r.open), t.drainLimit)
	case began.After(now):
		return drain, ": the time at which it began to drain is yet to come, so the clock was put back"
	case now.Sub(began) >= t.drainLimit:
		return remove, fmt.Sprintf(": time is up for %s, after %s", connections(r.open), t.drainLimit)
	}
	return wait, ""
}

func connections(n uint32) string {
	if n == 1 {
		return "1 connection"
	}
	return fmt.Sprintf("%d connections", n)
}

// retire takes a real server that is not wanted out of use, as its fate is.
func (s *steps) retire(t target, v virtualServer, r realServer, now time.Time) {
	f, reason := t.fate(v, r, now)
	reason = "real server not wanted" + reason
	switch f {
	case remove:
		s.add(dropReal{v, r}, r.change(v, dataplane.Remove, reason, "- "+r.line("a", v)))
	case drain:
		out := r
		out.weight, out.began = 0, uint32(now.Unix())
		s.add(putReal{&v, out, true}, r.change(v, dataplane.Update, reason, "- "+r.line("a", v), "+ "+out.line("a", v)))
	}
}

// retireServer takes a virtual server that is not wanted out of use. If clients
// can still dial its frontend, which has no endpoint left, it stays until its
// connections have ended: nobody new comes in, for it is not in set services.
// If the frontend is gone, so is whoever was served.
func (s *steps) retireServer(t target, v virtualServer, now time.Time) {
	if t.lingers(v, now) {
		for _, r := range v.real {
			s.retire(t, v, r, now)
		}
		return
	}
	s.addLazy(dropServer{v}, func() dataplane.Change {
		lines := []string{"- " + v.line("A")}
		for _, r := range v.real {
			lines = append(lines, "- "+r.line("a", v))
		}
		return v.change(dataplane.Remove, "virtual server not wanted", lines...)
	})
}

// lingers reports whether a virtual server that is held and not wanted stays for
// its connections.
func (t target) lingers(v virtualServer, now time.Time) bool {
	return t.dialled(v) && slices.ContainsFunc(v.real, func(r realServer) bool {
		f, _ := t.fate(v, r, now)
		return f != remove
	})
}

// dialled reports whether the table has a frontend of a virtual server. Of one
// for a mark nobody knows any more once it drains, when no packet gets the mark.
// Of one whose backend is left the new one has it, or drops what comes.
func (t target) dialled(v virtualServer) bool {
	if t.leaving {
		return true
	}
	if v.mark == 0 {
		return t.known[v.serverID]
	}
	return t.known[serverID{Key: v.dialled}] || slices.ContainsFunc(v.real, realServer.draining)
}

// draining reports whether it has begun to drain.
func (r realServer) draining() bool { return r.weight == 0 && r.began != 0 }

// keepMarks returns the target with the marks of virtual servers that linger: by
// them they are known as ours.
func (t target) keepMarks(have observed) target {
	wanted := make(map[uint32]bool, len(t.sets[marks]))
	for _, v := range t.servers {
		wanted[v.mark] = true
	}
	keep := members{}
	maps.Copy(keep, t.sets[marks])
	for id, v := range have.servers {
		if id.mark != 0 && !wanted[id.mark] && have.owns(id) && t.lingers(*v, have.now) {
			keep[v.owner()] = v.service
		}
	}
	t.sets[marks] = keep
	return t
}

// placeMark fills in what a virtual server for a mark serves, from the marks that
// frontends give. Where none gives it any more only TCP can be left.
func (v *virtualServer) placeMark(marked map[uint32]dataplane.Key) {
	if v.mark == 0 {
		return
	}
	v.dialled = marked[v.mark]
	v.flows = v.dialled.Protocol
	if v.flows == 0 && slices.ContainsFunc(v.real, realServer.draining) {
		v.flows = dataplane.TCP
	}
}

// unwanted calls each with every real server that is held and not wanted, of
// virtual servers that are ours and that clients can still dial.
func unwanted(want target, have observed, each func(v virtualServer, r realServer)) {
	servers := want.index()
	for _, id := range slices.SortedFunc(maps.Keys(have.servers), serverID.compare) {
		v, wanted := servers[id]
		held := *have.servers[id]
		switch {
		case !wanted && !(want.dialled(held) && have.owns(id)):
			continue
		case !wanted:
			v = &virtualServer{}
		case v == have.servers[id]:
			continue
		}
		if wanted {
			held.flows, held.scheduler = v.flows, v.scheduler
		}
		for _, r := range held.real {
			if !slices.ContainsFunc(v.real, func(w realServer) bool { return w.addr == r.addr }) {
				each(held, r)
			}
		}
	}
}

// toldDrains is how many real servers that drain are told of one by one.
const toldDrains = 8

// draining tells of the real servers that drain and need nothing now.
func draining(want target, have observed) []string {
	var out []string
	more := 0
	unwanted(want, have, func(v virtualServer, r realServer) {
		f, _ := want.fate(v, r, have.now)
		if f != wait {
			return
		}
		if len(out) == toldDrains {
			more++
			return
		}
		left := time.Unix(int64(r.began), 0).Add(want.drainLimit).Sub(have.now).Round(time.Second)
		out = append(out, fmt.Sprintf("%s drains: %s, for %s at most", r.object(v), connections(r.open), left))
	})
	if more > 0 {
		out = append(out, fmt.Sprintf("and %d more real servers drain", more))
	}
	return out
}
