// Command testsum shows and sums up test runs for scripts/test.
//
// It has two forms. As a filter behind `go test -json` it prints one line a
// package, the whole output of what failed, and the skips; and it saves the
// results:
//
//	go test -json ./... | testsum -stage native -kernel 6.1.0 -save FILE
//
// Afterwards it adds up the saved files of all stages and prints the closing
// lines, the last of them "N passed, N failed, N skipped":
//
//	testsum -total [-allow-skip-ipvs] FILE...
//
// A skip counts only for a test that passed in no stage: a test of IPVS that
// the machine's kernel cannot run and the guest's kernel did run is not
// skipped. A test may skip for want of a kernel feature alone, and says so by
// the words SKIP(kernel); any other skip fails the run. So does a run in which
// IPVS was not exercised, unless -allow-skip-ipvs is given.
//
// A stage may run again what failed, alone:
//
//	testsum -again FILE
//
// prints a package and a pattern for go test -run for each failed test, or
// nothing if more than a few failed, or one outside its tests. The events of that
// second run then amend the saved results:
//
//	go test -json -run PATTERN PACKAGE | testsum -amend FILE
//
// What passes now counts as passed, and as flaky: the closing lines tell of it, with
// what it said when it failed.
//
// It is not a test runner: it starts nothing.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

// errFailed is the error of a run whose faults have been printed already.
var errFailed = errors.New("tests failed")

type options struct {
	total         bool
	allowSkipIPVS bool
	// again and amend are saved results of a stage; empty: not asked for.
	again, amend string
	stage        Stage
	save         string
	files        []string
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("testsum", flag.ContinueOnError)
	flags.BoolVar(&o.total, "total", false, "add up the saved files given as arguments")
	flags.BoolVar(&o.allowSkipIPVS, "allow-skip-ipvs", false, "let a run pass that did not exercise IPVS")
	flags.StringVar(&o.again, "again", "", "print what of these saved results is to be run again")
	flags.StringVar(&o.amend, "amend", "", "saved results that a second run of what failed amends")
	flags.StringVar(&o.stage.Name, "stage", "native", "name of this stage")
	flags.StringVar(&o.stage.Kernel, "kernel", "", "the kernel it runs in")
	flags.StringVar(&o.save, "save", "", "file for the results")
	err := flags.Parse(args)
	o.files = flags.Args()
	return o, err
}

func run(o options, in io.Reader, out io.Writer) error {
	switch {
	case o.total:
		return total(o.files, o.allowSkipIPVS, out)
	case o.again != "":
		return listAgain(o.again, out)
	case o.amend != "":
		return followAgain(o.amend, in, out)
	}
	return follow(o.stage, in, out, o.save)
}

func main() {
	o, err := parse(os.Args[1:])
	if err != nil {
		os.Exit(2)
	}
	err = run(o, os.Stdin, os.Stdout)
	if err != nil && !errors.Is(err, errFailed) {
		fmt.Fprintln(os.Stderr, "testsum:", err)
	}
	if err != nil {
		os.Exit(1)
	}
}
