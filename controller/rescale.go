package controller

import (
	"cmp"
	"math"
	"slices"
	"strconv"
)

// scaled tells whether the Deployment has been scaled since its sets got their
// sizes. Then this comes first, and the rollout goes on after.
func (r *rollout) scaled() bool {
	return slices.ContainsFunc(active(r.sets), func(s *set) bool {
		was, err := strconv.Atoi(s.Annotations[desiredKey])
		return err == nil && int32(was) != r.want
	})
}

// rescale fits the sets to the scale: the only one that has Pods, or all of them in
// proportion in the midst of a rollout. It starts no rollout.
func (r *rollout) rescale() {
	r.recordRevision()
	running := active(r.sets)
	switch {
	case len(running) == 0 && r.latest() == nil:
	case len(running) == 0:
		r.resize(r.latest(), r.want, r.toScale())
	case len(running) == 1:
		r.resize(running[0], r.want, r.toScale())
	case r.saturated():
		for _, s := range active(r.old()) {
			r.resize(s, 0, r.toward())
		}
	case r.rolling():
		r.share(running)
	}
	for _, s := range running {
		if s.Annotations[desiredKey] != strconv.Itoa(int(r.want)) {
			r.recordScale(s) // its size fits: the change of the scale is dealt with
		}
	}
}

func (r *rollout) toScale() string { return "scaled to " + strconv.Itoa(int(r.want)) }

// rolling: the strategy lets sets of several revisions stand side by side.
func (r *rollout) rolling() bool { return r.surge+r.down > 0 || r.want == 0 }

// latest is the set that grows when none has Pods.
func (r *rollout) latest() *set {
	switch {
	case r.current != nil:
		return r.current
	case len(r.sets) > 0:
		return r.sets[len(r.sets)-1]
	}
	return nil
}

// saturated: the current set has all that is wanted, available.
func (r *rollout) saturated() bool {
	s := r.current
	return s != nil && s.Annotations[desiredKey] == strconv.Itoa(int(r.want)) && s.size() == r.want && s.available == r.want
}

// share spreads the difference of scales over sets that have Pods, each by its size.
// The largest takes what rounding leaves.
func (r *rollout) share(running []*set) {
	most := r.want + r.surge
	if r.want == 0 {
		most = 0
	}
	diff := most
	for _, s := range running {
		diff -= s.size()
	}
	// The largest first; of equal ones the newer grows, and the older shrinks.
	slices.SortStableFunc(running, func(a, b *set) int {
		age := compareSets(b, a)
		if diff < 0 {
			age = -age
		}
		return cmp.Or(cmp.Compare(b.size(), a.size()), age)
	})
	sizes := make([]int32, len(running))
	left := diff
	for i, s := range running {
		part := r.portion(s)
		if diff > 0 {
			part = min(part, left)
		} else {
			part = max(part, left)
		}
		if diff == 0 {
			part = 0
		}
		sizes[i] = s.size() + part
		left -= part
	}
	sizes[0] = max(0, sizes[0]+left)
	for i, s := range running {
		r.resize(s, sizes[i], r.toScale())
		r.recordScale(s)
	}
}

// portion is by how much a set is to change when all keep their shares.
func (r *rollout) portion(s *set) int32 {
	if r.want == 0 {
		return -s.size()
	}
	before, err := strconv.ParseFloat(s.Annotations[maxKey], 64)
	if err != nil || before <= 0 {
		before = max(1, float64(r.d.Status.Replicas))
	}
	return int32(math.Round(float64(s.size())*float64(r.want+r.surge)/before)) - s.size()
}
