// Package tables has what the tests of all backends have in common: tables of
// fixed and of any shape, what has to become of a packet by a table alone, and
// checks with real packets of a node that some backend has programmed.
//
// It knows no backend: a test hands in a Program. Networks come from package
// lab, and scenarios of Kubernetes objects are those of package conformance.
package tables
