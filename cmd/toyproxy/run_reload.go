package main

import (
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/toyproxy/toyproxy/agent"
)

// lastingFlags are those that a reload does not change: what they say is built in
// from the start.
var lastingFlags = [...]string{"netns", "state-dir", "metrics-bind-address", "healthz-bind-address", "count-traffic", "cleanup-on-exit"}

// reload makes the loop work with what command line and configuration say now. What
// is wrong leaves everything as it is.
func (w *waking) reload(why string) {
	w.log.Info("reloading", "because", why)
	w.service.reloading()
	next, fl, err := parseRun(commandLine(os.Args))
	var cfg agent.LoopConfig
	if err == nil {
		w.noteLasting(fl)
		cfg, err = w.loopConfig(next, fl, w.source)
	}
	if err != nil {
		w.log.Error("reload failed, everything stays as it is", "error", err.Error())
		w.service.readyAgain()
		return
	}
	w.always(&cfg)
	w.source = cfg.Source.(*followed)
	w.watchManifests()
	w.loop.Reload(cfg)
}

// noteLasting tells of flags that are others now, to no effect.
func (w *waking) noteLasting(fl *pflag.FlagSet) {
	for _, name := range lastingFlags {
		now, before := fl.Lookup(name), w.cmd.Flags().Lookup(name)
		if now != nil && before != nil && now.Value.String() != before.Value.String() {
			w.log.Warn("this takes a restart", "flag", "--"+name, "is", before.Value.String(), "wanted", now.Value.String())
		}
	}
}

// commandLine are the words behind "run".
func commandLine(args []string) []string {
	return args[slices.Index(args, "run")+1:]
}

// parseRun reads the options of run from a command line and the configuration that
// it names.
func parseRun(args []string) (*runOptions, *pflag.FlagSet, error) {
	o := &runOptions{}
	cmd := &cobra.Command{Use: "run"}
	o.register(cmd)
	fl := cmd.Flags()
	if err := fl.Parse(args); err != nil {
		return nil, nil, err
	}
	if err := meanMember(cmd); err != nil {
		return nil, nil, err
	}
	return o, fl, o.complete(fl)
}
