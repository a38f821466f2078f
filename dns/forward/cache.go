package forward

import (
	"container/list"
	"sync"
	"time"

	mdns "github.com/miekg/dns"
)

const (
	// longest and longestNegative bound how long answers are kept, whatever they say
	// of themselves: a learner who mends a resolver should not wait for a day.
	longest         = time.Hour
	longestNegative = 5 * time.Minute
	// cacheBytes bounds the answers kept, by their length as packets.
	cacheBytes = 16 << 20
)

// key is what an answer answers; the name is in lower case.
type key struct {
	name        string
	kind, class uint16
	dnssec      bool
}

// kept is an answer in the cache.
type kept struct {
	key         key
	reply       Reply
	bytes       int
	stored, end time.Time
}

// cache keeps answers for as long as they say, those that were asked for last.
type cache struct {
	mu    sync.Mutex
	most  int
	bytes int
	byKey map[key]*list.Element
	// used has the one used last in front.
	used *list.List
}

func newCache(most int) *cache {
	return &cache{most: most, byKey: map[key]*list.Element{}, used: list.New()}
}

// get returns an answer whose time is not over, with what is left of it as TTLs.
func (c *cache) get(k key, now time.Time) (Reply, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byKey[k]
	if e == nil {
		return Reply{}, false
	}
	entry := e.Value.(*kept)
	if !now.Before(entry.end) {
		c.drop(e)
		return Reply{}, false
	}
	c.used.MoveToFront(e)
	reply := entry.reply.copied()
	reply.Cached = true
	age := uint32(now.Sub(entry.stored) / time.Second)
	left := uint32((entry.end.Sub(now) + time.Second - 1) / time.Second)
	for _, section := range [][]mdns.RR{reply.Answer, reply.Authority, reply.Extra} {
		for _, rr := range section {
			h := rr.Header()
			h.Ttl = min(h.Ttl-min(age, h.Ttl), left)
		}
	}
	return reply, true
}

// put keeps an answer, if it may be kept.
func (c *cache) put(k key, reply Reply, now time.Time) {
	life := lifetime(reply)
	if c.most == 0 || life <= 0 {
		return
	}
	entry := &kept{key: k, reply: reply.copied(), stored: now, end: now.Add(life)}
	m := mdns.Msg{Question: []mdns.Question{{Name: k.name}}, Answer: reply.Answer, Ns: reply.Authority, Extra: reply.Extra}
	entry.bytes = m.Len()
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.byKey[k]; old != nil {
		c.drop(old)
	}
	c.byKey[k] = c.used.PushFront(entry)
	c.bytes += entry.bytes
	for c.used.Len() > c.most || c.bytes > cacheBytes {
		c.drop(c.used.Back())
	}
}

func (c *cache) drop(e *list.Element) {
	entry := c.used.Remove(e).(*kept)
	delete(c.byKey, entry.key)
	c.bytes -= entry.bytes
}

func (c *cache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.byKey)
	c.used.Init()
	c.bytes = 0
}

// count is how many answers are kept.
func (c *cache) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used.Len()
}

// lifetime is how long an answer may be kept: the least TTL of its answer section; for
// one that denies, what its SOA says (RFC 2308), and without one nothing.
func lifetime(r Reply) time.Duration {
	if r.Rcode == mdns.RcodeSuccess && len(r.Answer) > 0 && !onlyAliases(r.Answer, r.Authority) {
		least := r.Answer[0].Header().Ttl
		for _, rr := range r.Answer {
			least = min(least, rr.Header().Ttl)
		}
		return min(time.Duration(least)*time.Second, longest)
	}
	for _, rr := range r.Authority {
		soa, ok := rr.(*mdns.SOA)
		if !ok {
			continue
		}
		least := min(soa.Hdr.Ttl, soa.Minttl)
		for _, alias := range r.Answer {
			least = min(least, alias.Header().Ttl)
		}
		return min(time.Duration(least)*time.Second, longestNegative)
	}
	return 0
}

// onlyAliases tells whether an answer leads to a name that has no such records, which
// an SOA says.
func onlyAliases(answer, authority []mdns.RR) bool {
	for _, rr := range answer {
		if rr.Header().Rrtype != mdns.TypeCNAME {
			return false
		}
	}
	for _, rr := range authority {
		if rr.Header().Rrtype == mdns.TypeSOA {
			return true
		}
	}
	return false
}
