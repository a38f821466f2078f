// Package walk walks at random from any state of a small world of objects to any
// other (Services through all their doors, Pods, EndpointSlices given by hand,
// Nodes, facts about the node), and after every step compares the kernel with
// what the objects say.
//
// A step goes the way of the daemon: events of the store, agent.Tracker, the
// backend's Follower, the kernel. Three things have to hold after it:
//
//   - The table is that of a single pass over the same objects, and another
//     backend that has never seen this kernel finds nothing to change in it.
//   - A kernel that has only ever seen this table holds the same, by the dumps of
//     the kernel's own tools. This is looked at every few steps.
//   - Real packets of a few flows end as the table says. What it says is read by
//     code of this package, which shares nothing with any backend.
//
// A second walk is made with writes that fail: before the first change, in the
// midst of them, or with all of them done. It must arrive at the same.
//
// The walk is a function of its seed, which is printed; a failure names seed and
// step. TOYPROXY_WALK_STEPS and TOYPROXY_WALK_SEED make it longer and another.
package walk
