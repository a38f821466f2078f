package proxy

import (
	"net/netip"
	"slices"
	"sync"
	"time"
)

// mostSessions bounds the memory for clients of one Service. Clients beyond it are
// sent by the hash of their address alone, as all are after a restart.
const mostSessions = 1 << 16

// sessions remember which client is at which target (sessionAffinity ClientIP), so
// that clients stay where they are when a target is added. A client that has not
// been here, or not for long, goes where the hash of its address says.
type sessions struct {
	mu sync.Mutex
	of map[netip.Addr]session
	// swept is when old sessions were last thrown away.
	swept time.Time
}

type session struct {
	at   string
	used time.Time
}

func (s *sessions) pick(set *targetSet, w wish, now time.Time) *target {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, known := s.of[w.client]
	if known && now.Sub(old.used) < set.affinity {
		i := slices.IndexFunc(set.targets, func(t *target) bool { return t.at == old.at })
		if i >= 0 && set.targets[i].usable(now) && !slices.Contains(w.tried, set.targets[i]) {
			s.of[w.client] = session{old.at, now}
			return set.targets[i]
		}
	}
	t := set.hashed(w, now)
	if t != nil {
		s.note(w.client, session{t.at, now}, set.affinity)
	}
	return t
}

// note remembers a session, and makes room from time to time.
func (s *sessions) note(client netip.Addr, now session, timeout time.Duration) {
	if s.of == nil {
		s.of = map[netip.Addr]session{}
	}
	if len(s.of) >= mostSessions/2 && now.used.Sub(s.swept) > time.Second {
		s.swept = now.used
		for client, old := range s.of {
			if now.used.Sub(old.used) >= timeout {
				delete(s.of, client)
			}
		}
	}
	if _, known := s.of[client]; known || len(s.of) < mostSessions {
		s.of[client] = now
	}
}
