package dataplane

import "context"

// Fingerprinter is a Backend that can tell for little whether the kernel may have
// changed since it was last compared with a table: for a whole comparison it has
// to read every rule.
type Fingerprinter interface {
	Backend
	// Fingerprint returns a value that is another one as soon as anything that
	// Plan reads may have changed: an object of ours that somebody changed or
	// deleted, one that somebody put in between, a change that we made ourselves. It
	// may also be another one for no reason that matters, such as the rules of
	// another program. Counters of packets, connections that come and go and clients
	// that are remembered do not change it, nor does a plan without changes.
	//
	// It is worth something only within one process, and only compared with one
	// that was taken before a Plan that found nothing to change:
	//
	//	mark := fingerprint()            // before, so that nothing slips in between
	//	if plan(table) is empty {
	//		known = mark                 // the kernel matches the table as long as
	//	}                                // fingerprint() is known
	//
	// What it costs does not go with what the rules cost to compare; see
	// docs/performance.md.
	Fingerprint(context.Context) (string, error)
}

// Fingerprint returns the fingerprint of what a backend reads of the kernel, see
// Fingerprinter. It is empty if the backend has none: then only a Plan can tell.
func Fingerprint(ctx context.Context, b Backend) (string, error) {
	if f, ok := b.(Fingerprinter); ok {
		return f.Fingerprint(ctx)
	}
	return "", nil
}
