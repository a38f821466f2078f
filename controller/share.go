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
	// last is when the owner's newest Pod was made.
	last time.Time
}

// queue begins the work of one owner. Its Pods tell how long it has waited.
func (p *pass) queue(owner cluster.Ref) *queue {
	q := &queue{owner: owner}
	p.queues = append(p.queues, q)
	return q
}

// saw notes the Pods that the owner has, and has lost.
func (q *queue) saw(m members) {
	for _, pods := range [][]*corev1.Pod{m.living, m.leaving, m.lost} {
		for _, pod := range pods {
			if at := born(pod); at.After(q.last) {
				q.last = at
			}
		}
	}
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
		slices.SortStableFunc(p.queues, func(a, b *queue) int { return cmp.Or(a.last.Compare(b.last), a.owner.Compare(b.owner)) })
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

// pending counts the work of all.
func (p *pass) pending() int {
	n := 0
	for _, q := range p.queues {
		n += len(q.work)
	}
	return n
}
