package main

import (
	"fmt"
	"log/slog"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"

	"github.com/toyproxy/toyproxy/agent"
)

// service tells systemd how this process is. It implements agent.Observer. Without
// systemd it does nothing.
type service struct {
	log *slog.Logger
	// every is how often the loop is to show that it makes progress; zero: never.
	every time.Duration
	// ready: the first pass that put everything in force has been told of.
	ready bool
}

func (d *daemon) systemd() *service {
	s := &service{log: d.log}
	if limit, err := sd.SdWatchdogEnabled(false); err == nil && limit > 0 {
		s.every = limit / 3
	}
	return s
}

func (s *service) say(what string) {
	if _, err := sd.SdNotify(false, what); err != nil {
		s.log.Warn("systemd cannot be told", "what", what, "error", err.Error())
	}
}

// Observe tells that the service is ready, once all that is wanted is in force, and
// what it keeps.
func (s *service) Observe(r agent.Report) {
	reloaded := has(r.Causes, agent.Reloaded)
	if !s.ready && !r.Settled || s.ready && !reloaded && len(r.Changes)+len(r.Drift) == 0 && r.Err == nil {
		return
	}
	status := fmt.Sprintf("STATUS=%s, %s, %s on %s", count(r.Services, "Service"), count(r.Frontends, "frontend"), count(r.Pods, "Pod"), r.Backend)
	if r.Err != nil {
		status = "STATUS=a pass failed, it is tried again: " + printable(r.Err.Error())
	}
	if !s.ready || reloaded {
		s.ready = true
		status = sd.SdNotifyReady + "\n" + status
	}
	s.say(status)
}

// alive tells that the loop makes progress.
func (s *service) alive() { s.say(sd.SdNotifyWatchdog) }

// stopping tells that the process is about to end.
func (s *service) stopping() { s.say(sd.SdNotifyStopping) }

// reloading tells that everything is read again; Observe tells when that is done.
func (s *service) reloading() {
	s.say(sd.SdNotifyReloading + "\n" + sd.SdNotifyMonotonicUsec())
}

// readyAgain ends what reloading began.
func (s *service) readyAgain() { s.say(sd.SdNotifyReady) }
