// Package arch holds the rules of the house as tests: which package may import
// what, which do no I/O and in which files the others do it, how long functions
// and files may be, and that pages which name a test for each claim name tests
// that there are. They read the source in process; nothing is built or run. The
// table of rules is rules_test.go: a new package needs a row there, and a new
// arrow between packages is a change of the architecture, to be made there with
// thought.
package arch
