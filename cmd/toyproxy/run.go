package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/cluster/state"
	"github.com/toyproxy/toyproxy/cluster/workload"
	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/pods"
)

// runOptions are what run is asked for.
type runOptions struct {
	src sourceFlags
	nf  nodeFlags
	// config is the file that flags are also read from.
	config        string
	minSync, sync time.Duration
	maxActions    int
	cleanup       bool
	answers       answerFlags
}

func (o *runOptions) register(cmd *cobra.Command) {
	o.src.register(cmd)
	o.nf.register(cmd)
	o.answers.register(cmd)
	fl := cmd.Flags()
	fl.StringVar(&o.config, "config", "", "file that flags are read from too, as YAML whose keys are their names; read again when it changes")
	fl.DurationVar(&o.minSync, "min-sync-period", agent.DefaultMinSyncPeriod, "least time between the end of a pass and the next one: changes meanwhile are one")
	fl.DurationVar(&o.sync, "sync-period", agent.DefaultSyncPeriod, "how often the kernel is compared with what it should hold, and repaired")
	fl.IntVar(&o.maxActions, "max-actions-per-pass", agent.DefaultMaxActions, "how many Pods one pass makes and ends at most (0: as many as there are)")
	fl.BoolVar(&o.cleanup, "cleanup-on-exit", false, "remove everything when it is ended by TERM or INT, as down does (default: rules and Pods stay)")
}

func runCommand() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Keep Pods and kernel as the manifests want them",
		Long: `The same as sync, as a daemon: it follows every change of manifests and Pods, and
repairs what others change in the kernel. Ended by TERM or INT it leaves rules and
Pods as they are; started again it goes on where it was.

HUP makes it read everything again.`,
		Example: `  sudo toyproxy run -f manifests
  sudo toyproxy run --backend nftables --sync-period 2s
  sudo toyproxy run --config /etc/toyproxy/config.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := needRoot("run"); err != nil {
				return err
			}
			if err := o.complete(cmd.Flags()); err != nil {
				return err
			}
			if err := enterNamespace(o.nf.netns.value); err != nil {
				return err
			}
			return runDaemon(cmd, &o)
		},
	}
	o.register(cmd)
	return cmd
}

// complete adds what the configuration says, and checks.
func (o *runOptions) complete(fl *pflag.FlagSet) error {
	if o.config != "" {
		if err := readConfig(o.config, fl); err != nil {
			return exit(exitUsage, err)
		}
	}
	return o.check()
}

func (o *runOptions) check() error {
	switch {
	case o.sync <= 0 || o.minSync < 0:
		return exit(exitUsage, errors.New("--sync-period must be above 0, --min-sync-period not below"))
	case o.minSync > o.sync:
		return exit(exitUsage, fmt.Errorf("--min-sync-period %s is longer than --sync-period %s", o.minSync, o.sync))
	case o.maxActions < 0:
		return exit(exitUsage, errors.New("--max-actions-per-pass must not be below 0"))
	}
	for _, f := range o.src.files {
		if f == "-" {
			return exit(exitUsage, errors.New("-f -: what is read once cannot be followed: give a file or a directory, or use sync"))
		}
	}
	return nil
}

// thrift is by how many percent memory may grow before it is tidied up: a daemon
// that mostly waits has time for that.
const thrift = 30

// daemon is a run under way.
type daemon struct {
	cmd  *cobra.Command
	opts *runOptions
	sc   scope
	log  *slog.Logger
	// diary writes the log.
	diary *diary
	// vigil tells of Pods whose pause process ends.
	vigil   *pods.Vigil
	service *service
	// always sets what no reload changes.
	always func(*agent.LoopConfig)
	// lost tells whether the lock of the node is gone, and then ends the loop.
	lost func() bool
}

// runDaemon keeps the node until TERM or INT.
func runDaemon(cmd *cobra.Command, o *runOptions) (failed error) {
	sc := o.nf.scope()
	lock, err := lockNode(cmd.Context(), sc)
	if err != nil {
		return err
	}
	gone := false
	defer func() {
		if gone && failed == nil {
			lock.Forget()
		} else {
			lock.Unlock()
		}
	}()
	log := newLogger(cmd.ErrOrStderr())
	d := &daemon{cmd: cmd, opts: o, sc: sc, log: log, diary: newDiary(log, sc)}
	debug.SetGCPercent(thrift)
	d.log.Info("starting", "version", versionString(), "pid", os.Getpid())
	ctx, cancel := context.WithCancelCause(cmd.Context())
	defer cancel(nil)
	d.lost = lossOf(lock, cancel)
	go d.watchLock(ctx)
	err = d.keep(ctx)
	switch {
	case errors.Is(context.Cause(ctx), errLockLost):
		d.log.Warn("starting anew", "because", errLockLost.Error(), "error", fmt.Sprint(err))
		lock.Unlock()
		return startAnew()
	case err != nil:
		return err
	}
	if !o.cleanup {
		d.log.Info("ended; rules and Pods stay as they are")
		return nil
	}
	gone = true
	return d.removeAll()
}

// keep runs the loop with all that wakes it.
func (d *daemon) keep(ctx context.Context) error {
	loop := agent.NewLoop(agent.LoopConfig{})
	var err error
	if d.vigil, err = pods.NewVigil(func() { loop.Wake(agent.PodsChanged) }); err != nil {
		return err
	}
	defer d.vigil.Close()
	cfg, err := d.loopConfig(d.opts, d.cmd.Flags(), nil)
	if err != nil {
		return err
	}
	told := d.startAnswers(ctx)
	defer told.stop()
	sd := d.systemd()
	d.service = sd
	d.always = func(c *agent.LoopConfig) {
		c.Observers = append([]agent.Observer{d.diary, sd, mender{d.log}}, told.observers()...)
		told.health.SetLimit(healthLimit(c.SyncPeriod))
		c.Problems, c.Alive, c.AliveEvery = told.ports.Problems, sd.alive, sd.every
	}
	d.always(&cfg)
	loop.Reload(cfg)
	stop, err := d.startWaking(ctx, loop, cfg.Source.(*followed))
	if err != nil {
		return err
	}
	defer stop()
	defer func() {
		if !errors.Is(context.Cause(ctx), errLockLost) {
			sd.stopping()
		}
	}()
	return loop.Run(ctx)
}

// loopConfig wires the parts of the loop together, for options that were read from
// these flags. Before is the source that was used so far, if there was one.
func (d *daemon) loopConfig(o *runOptions, fl *pflag.FlagSet, before *followed) (agent.LoopConfig, error) {
	why := o.nf.backend.choose(state.ReadLast(d.sc.rulesDir()).Backend)
	if why != "" {
		d.log.Info("backend chosen", "backend", string(o.nf.backend), "because", why)
	}
	src, err := d.newFollowed(o, before)
	if err != nil {
		return agent.LoopConfig{}, err
	}
	d.log.Info("objects", "manifests", src.source.description, "backend", string(o.nf.backend))
	last := state.Last{Backend: string(o.nf.backend), Manifests: src.source.description, Arguments: arguments(fl), ClusterDomain: o.src.domain.value}
	cfg := agent.LoopConfig{
		Source: src, Backend: o.nf.newBackend(o.nf.backend, d.sc), BackendName: string(o.nf.backend), Others: o.nf.leftovers(o.nf.backend, d.sc),
		Flows:     o.nf.newFlows(d.sc),
		Chronicle: newChronicle(d.sc, last), MinSyncPeriod: o.minSync, SyncPeriod: o.sync, MaxActions: o.maxActions, Suffix: suffix,
	}
	cfg.Hinders = func(ctx context.Context, table dataplane.Table, services []*corev1.Service) []cluster.Problem {
		return o.nf.hinders(ctx, d.sc, table, services)
	}
	if !d.sc.pod {
		cfg.Workloads = workload.Open(d.sc.stateDir)
	}
	return cfg, nil
}

// removeAll is down.
func (d *daemon) removeAll() error {
	ctx := context.Background()
	plan, err := planDown(ctx, &d.opts.nf, d.sc)
	if err != nil {
		return err
	}
	changes := len(plan.Changes())
	if err := plan.Apply(ctx); err != nil {
		return err
	}
	d.log.Info("ended; everything is removed", "changes", changes)
	return forgetState(d.sc)
}

// suffixLetters are those of Kubernetes: no vowels, lest words come out.
const suffixLetters = "bcdfghjklmnpqrstvwxz2456789"

// suffix returns the ending of a new Pod's name.
func suffix() string {
	var out strings.Builder
	for _, b := range randomBytes() {
		out.WriteByte(suffixLetters[int(b)%len(suffixLetters)])
	}
	return out.String()
}

func randomBytes() [5]byte {
	var b [5]byte
	_, _ = rand.Read(b[:]) // never fails
	return b
}

// statePath is a path below the state directory, made if need be.
func (sc scope) statePath(name string) (string, error) {
	dir := filepath.Join(sc.stateDir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("state directory: %w", err)
	}
	return dir, nil
}
