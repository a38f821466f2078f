// Command toyproxy gives any Linux box Kubernetes Services: it reads manifests,
// matches Pods against Services and programs their addresses into the kernel.
//
// This package is the command tree and the wiring of the other packages, and
// nothing else: each command reads its flags, builds the parts, calls the agent
// and prints what came back.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/pods"
)

// Exit codes, as `toyproxy help exit-codes` lists them.
const (
	exitFailed      = 1
	exitChanges     = 2
	exitFindings    = 3
	exitUsage       = 64
	exitBadManifest = 65
	exitUnsupported = 69
	exitNeedsRoot   = 77
)

// exitError carries the exit code of an error; a nil err prints nothing.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// exit returns an error that ends the program with the code, silently if err is nil.
func exit(code int, err error) error { return &exitError{code, err} }

func main() {
	args := os.Args[1:]
	if os.Args[0] == pods.StandInName {
		args = append([]string{pods.StandInName}, args...)
	}
	if os.Getenv(pods.StateDirVariable) != "" && len(args) > 0 {
		// In a Pod it was started through a link of another name. Whoever ends toyproxy
		// by name is not to meet it.
		_ = os.WriteFile("/proc/self/comm", []byte(pods.ProgramName+"-"+args[0]), 0)
	}
	os.Exit(run(args))
}

// run executes one command line and returns the exit code.
func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := newRoot()
	stderr := messages{os.Stderr}
	root.SetErr(stderr)
	root.SetArgs(args)
	out := &watchedWriter{w: os.Stdout}
	root.SetOut(out)
	err := root.ExecuteContext(ctx)
	if err == nil && out.err != nil {
		err = fmt.Errorf("standard output: %w", out.err)
	}
	if err == nil {
		return 0
	}
	var coded *exitError
	silent := errors.As(err, &coded) && coded.err == nil
	if !silent {
		if ctx.Err() != nil {
			fmt.Fprintln(stderr, "Interrupted: what was begun stays as it is; the same command again finishes it.")
		}
		fmt.Fprintf(stderr, "Error: %v\n", err)
	}
	return exitCode(err)
}

// watchedWriter remembers that something could not be written: a report on a full
// disk is no success.
type watchedWriter struct {
	w   io.Writer
	err error
}

// Write implements io.Writer.
func (w *watchedWriter) Write(b []byte) (int, error) {
	n, err := w.w.Write(b)
	if err != nil && w.err == nil {
		w.err = err
	}
	return n, err
}

func exitCode(err error) int {
	var coded *exitError
	switch {
	case errors.As(err, &coded):
		return coded.code
	case errors.Is(err, dataplane.ErrUnsupported):
		return exitUnsupported
	}
	return exitFailed
}
