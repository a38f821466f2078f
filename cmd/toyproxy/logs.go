package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/toyproxy/toyproxy/pods"
)

const logsLong = `Print what the containers of a Pod have printed.

The logs lie below the state directory, and hold the output and nothing else: the
last 10 MiB or more of this run, and of the one before. They go with the Pod.`

// logsFlags are the flags of logs, with kubectl's names.
type logsFlags struct {
	place     placeFlags
	container string
	selector  string
	sinceTime string
	since     time.Duration
	all       bool
	prefix    bool
	options   pods.LogOptions
}

func logsCommand() *cobra.Command {
	var f logsFlags
	cmd := &cobra.Command{
		Use: "logs (POD | KIND/NAME)", Short: "Print what a container has printed", Long: logsLong,
		Example: "  toyproxy logs web-1 --tail 20 -f\n  toyproxy logs web-1 -c sidecar --previous\n  toyproxy logs -l app=web --all-containers --prefix",
		RunE:    func(cmd *cobra.Command, args []string) error { return runLogs(cmd, &f, args) },
	}
	f.place.register(cmd)
	fl := cmd.Flags()
	fl.StringVarP(&f.container, "container", "c", "", "the container (default: annotation kubectl.kubernetes.io/default-container, else the first)")
	fl.BoolVarP(&f.options.Follow, "follow", "f", false, "go on until the container ends")
	fl.BoolVarP(&f.options.Previous, "previous", "p", false, "of the container's run before this one")
	fl.IntVar(&f.options.Tail, "tail", -1, "the last lines, at most this many; -1: all (with -l: 10)")
	fl.DurationVar(&f.since, "since", 0, "only what is younger: 5s, 2m, 3h")
	fl.StringVar(&f.sinceTime, "since-time", "", "only what is younger than this time (RFC 3339)")
	fl.BoolVar(&f.options.Timestamps, "timestamps", false, "put the time before each line")
	fl.BoolVar(&f.all, "all-containers", false, "of all containers of the Pod")
	fl.BoolVar(&f.prefix, "prefix", false, "put Pod and container before each line")
	fl.StringVarP(&f.selector, "selector", "l", "", "of all Pods with these labels")
	return cmd
}

func runLogs(cmd *cobra.Command, f *logsFlags, args []string) error {
	if err := f.check(cmd, args); err != nil {
		return exit(exitUsage, err)
	}
	found, err := f.pods(cmd, args)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "No resources found in %s namespace.\n", f.place.namespace)
	}
	var streams []logStream
	for _, p := range found {
		s, err := f.containers(cmd, p)
		if err != nil {
			return err
		}
		streams = append(streams, s...)
	}
	return f.print(cmd, streams)
}

// check reads the flags that are not what they stand for yet.
func (f *logsFlags) check(cmd *cobra.Command, args []string) error {
	if f.selector == "" && len(args) != 1 {
		return fmt.Errorf("expected 'logs POD', 'logs KIND/NAME' or 'logs -l SELECTOR'\nSee '%s --help'", cmd.CommandPath())
	}
	for _, clash := range []struct {
		is   bool
		text string
	}{
		{f.selector != "" && len(args) > 0, "only a selector (-l) or a Pod name is allowed"},
		{f.since != 0 && f.sinceTime != "", "at most one of --since and --since-time may be used"},
		{f.since < 0, "--since must be greater than 0"},
		{f.options.Tail < -1, "--tail must be greater than or equal to -1"},
		{f.all && f.container != "", "--all-containers should not be used with a container name"},
		{f.options.Follow && f.options.Previous, "--follow waits for what comes, and --previous has ended: use one of them"},
	} {
		if clash.is {
			return errors.New(clash.text)
		}
	}
	if f.selector != "" && !cmd.Flags().Changed("tail") {
		f.options.Tail = 10
	}
	return f.setSince()
}

// setSince reads --since and --since-time.
func (f *logsFlags) setSince() (err error) {
	if f.since > 0 {
		f.options.Since = time.Now().Add(-f.since)
	}
	if f.sinceTime == "" {
		return nil
	}
	f.options.Since, err = time.Parse(time.RFC3339, f.sinceTime)
	if err != nil {
		return fmt.Errorf("--since-time: %q is not a time such as 2024-05-01T10:00:00Z", f.sinceTime)
	}
	return nil
}

// pods returns the Pods that are meant.
func (f *logsFlags) pods(cmd *cobra.Command, args []string) ([]*corev1.Pod, error) {
	if f.selector == "" {
		p, err := f.place.onePod(cmd, args[0])
		if err != nil {
			return nil, err
		}
		return []*corev1.Pod{p}, nil
	}
	want, err := labels.Parse(f.selector)
	if err != nil {
		return nil, exit(exitUsage, fmt.Errorf("selector %q: %w", f.selector, err))
	}
	return f.place.selectPods(want)
}

// logStream is the log of one container.
type logStream struct {
	pod       *corev1.Pod
	container string
}

// containers returns the containers of a Pod that are meant.
func (f *logsFlags) containers(cmd *cobra.Command, p *corev1.Pod) ([]logStream, error) {
	if f.all {
		var out []logStream
		for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
			for _, c := range list {
				out = append(out, logStream{p, c.Name})
			}
		}
		return out, nil
	}
	c, err := chooseContainer(cmd, p, f.container)
	if err != nil {
		return nil, err
	}
	return []logStream{{p, c.Name}}, nil
}

// chooseContainer returns a container by its name, and tells when it was chosen
// among several.
func chooseContainer(cmd *cobra.Command, p *corev1.Pod, name string) (*corev1.Container, error) {
	c, defaulted, err := pods.ContainerSpec(p, name)
	if err != nil {
		return nil, err
	}
	if defaulted {
		var names []string
		for _, c := range p.Spec.Containers {
			names = append(names, c.Name)
		}
		for _, c := range p.Spec.InitContainers {
			names = append(names, c.Name+" (init)")
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "Defaulted container %q out of: %s\n", c.Name, strings.Join(names, ", "))
	}
	return c, nil
}

// print prints the logs: one after the other, or, of those that are followed, as
// the lines come.
func (f *logsFlags) print(cmd *cobra.Command, streams []logStream) error {
	out := &lineWriter{w: cmd.OutOrStdout()}
	if !f.options.Follow || len(streams) == 1 {
		for _, s := range streams {
			if err := f.printOne(cmd.Context(), out, s); err != nil {
				return err
			}
		}
		return nil
	}
	errs := make([]error, len(streams))
	var wg sync.WaitGroup
	for i, s := range streams {
		wg.Go(func() { errs[i] = f.printOne(cmd.Context(), out, s) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (f *logsFlags) printOne(ctx context.Context, out *lineWriter, s logStream) error {
	prefix := ""
	if f.prefix {
		prefix = fmt.Sprintf("[pod/%s/%s] ", s.pod.Name, s.container)
	}
	err := pods.ReadLog(ctx, &prefixed{out: out, prefix: prefix, fresh: true}, f.place.stateDir(), s.pod, s.container, f.options)
	if !errors.Is(err, pods.ErrNoLog) {
		return err
	}
	if f.options.Previous {
		return fmt.Errorf("previous terminated container %q in pod %q not found", s.container, s.pod.Name)
	}
	if f.all {
		return nil // an init container that is still to come
	}
	return fmt.Errorf("container %q in pod %q is waiting to start: `toyproxy describe pod %s -n %s` tells what for", s.container, s.pod.Name, s.pod.Name, s.pod.Namespace)
}

// lineWriter lets several write, each in turn.
type lineWriter struct {
	mu sync.Mutex
	w  io.Writer
}

// Write implements io.Writer.
func (l *lineWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// prefixed puts a text before each line. A line may come in several pieces.
type prefixed struct {
	out    io.Writer
	prefix string
	fresh  bool
}

// Write implements io.Writer.
func (p *prefixed) Write(b []byte) (int, error) {
	text := string(b)
	if p.fresh {
		text = p.prefix + text
	}
	p.fresh = strings.HasSuffix(text, "\n")
	if _, err := io.WriteString(p.out, text); err != nil {
		return 0, err
	}
	return len(b), nil
}
