package controller

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/toyproxy/toyproxy/cluster"
)

// work is one Pod to make or to end, and what people are told when it is done.
type work struct {
	action Action
	event  Event
}

// queue is the work of one owner, in its order.
type queue struct {
	owner cluster.Ref
	work  []work
	// has are the Pods that the owner has, and has lost.
	has members
}

// queue begins the work of one owner.
func (p *pass) queue(owner cluster.Ref) *queue {
	q := &queue{owner: owner}
	p.queues = append(p.queues, q)
	return q
}

// saw notes Pods of the owner: they tell how long it has waited.
func (q *queue) saw(m members) {
	q.has.living = append(q.has.living, m.living...)
	q.has.leaving = append(q.has.leaving, m.leaving...)
	q.has.lost = append(q.has.lost, m.lost...)
}

// last is when the owner's newest Pod was made.
func (q *queue) last() time.Time {
	var last time.Time
	for _, pod := range slices.Concat(q.has.living, q.has.leaving, q.has.lost) {
		if at := born(pod); at.After(last) {
			last = at
		}
	}
	return last
}

// do appends a piece of work. The event is about obj.
func (q *queue) do(op Op, pod *corev1.Pod, reason string, event Event) {
	q.work = append(q.work, work{Action{Op: op, Object: pod, Owner: q.owner, Reason: reason}, event})
}

// share hands out MaxActions: a bound for all, one action at a time to each owner
// in turn, those first that have waited longest, so that an owner whose Pods die as
// fast as they are made does not starve the others.
func (p *pass) share() {
	left := p.in.MaxActions
	if total := p.pending(); left <= 0 || total <= left {
		left = total
	} else {
		p.res.Bounded = true
		p.longestWaitFirst()
	}
	granted := make([]int, len(p.queues))
	for left > 0 {
		for i, q := range p.queues {
			if left > 0 && granted[i] < len(q.work) {
				granted[i]++
				left--
			}
		}
	}
	for i, q := range p.queues {
		for _, w := range q.work[:granted[i]] {
			p.res.Actions = append(p.res.Actions, w.action)
			p.res.Events = append(p.res.Events, w.event)
		}
	}
}

func (p *pass) longestWaitFirst() {
	last := map[*queue]time.Time{}
	for _, q := range p.queues {
		last[q] = q.last()
	}
	slices.SortStableFunc(p.queues, func(a, b *queue) int { return cmp.Or(last[a].Compare(last[b]), a.owner.Compare(b.owner)) })
}

// pending counts the work of all.
func (p *pass) pending() int {
	n := 0
	for _, q := range p.queues {
		n += len(q.work)
	}
	return n
}
