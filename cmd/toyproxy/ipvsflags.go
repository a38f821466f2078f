package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/toyproxy/toyproxy/dataplane/ipvs"
)

// ipvsFlags are those that only backend ipvs reads. But for the limit of
// draining, which kube-proxy has not, their names are kube-proxy's.
type ipvsFlags struct {
	scheduler        checkedString
	strictARP        bool
	tcp, tcpFin, udp timeoutFlag
	drain            timeoutFlag
}

// defaultDrain is that of package ipvs.
const defaultDrain = 15 * time.Minute

func (f *ipvsFlags) register(cmd *cobra.Command) {
	f.scheduler = checkedString{value: "rr", check: checkScheduler}
	f.drain = timeoutFlag(defaultDrain)
	fl := cmd.Flags()
	fl.Var(&f.scheduler, "ipvs-scheduler", "scheduler of IPVS virtual servers whose Service does not wish for another")
	fl.BoolVar(&f.strictARP, "ipvs-strict-arp", false, "tell neighbours of no address but those of the link that they ask on")
	fl.Var(&f.tcp, "ipvs-tcp-timeout", "how long IPVS keeps a silent TCP connection, such as 15m (0: as the kernel has it)")
	fl.Var(&f.tcpFin, "ipvs-tcpfin-timeout", "how long one that has seen a FIN (0: as the kernel has it)")
	fl.Var(&f.udp, "ipvs-udp-timeout", "how long what it takes for a connection in UDP (0: as the kernel has it)")
	fl.Var(&f.drain, "ipvs-drain-limit", "how long a TCP endpoint that left its Service keeps its connections, and another backend lets IPVS carry what it carries (0: not at all)")
}

// ipvsFlagNames are the flags that other commands need to mean the same.
func ipvsFlagNames() []string {
	return []string{"ipvs-scheduler", "ipvs-strict-arp", "ipvs-tcp-timeout", "ipvs-tcpfin-timeout", "ipvs-udp-timeout", "ipvs-drain-limit"}
}

// newIPVS builds backend ipvs.
func (f *nodeFlags) newIPVS(sc scope) *ipvs.Backend {
	v := &f.virtual
	drain := time.Duration(v.drain)
	if drain == 0 {
		drain = -1 // zero stands for the default there
	}
	return ipvs.New(ipvs.Config{
		Scheduler: v.scheduler.value, StateDir: sc.rulesDir(), Engine: f.engine.engine, StrictARP: v.strictARP, DrainLimit: drain,
		Timeouts: ipvs.Timeouts{TCP: time.Duration(v.tcp), TCPFin: time.Duration(v.tcpFin), UDP: time.Duration(v.udp)},
		Guarded:  nftablesStand,
	})
}

// timeoutFlag is a flag that holds how long something may take.
type timeoutFlag time.Duration

// longestTimeout is what all kernels take.
const longestTimeout = 24 * 24 * time.Hour

// Set implements pflag.Value.
func (f *timeoutFlag) Set(v string) error {
	d, err := time.ParseDuration(v)
	switch {
	case err != nil:
		return errors.New("must be a time such as 90s, 15m or 1h30m")
	case d < 0 || d > longestTimeout:
		return errors.New("must be from 0 to 576h, which is 24 days: kernels count no further")
	}
	*f = timeoutFlag(d)
	return nil
}

// String implements pflag.Value.
func (f *timeoutFlag) String() string { return time.Duration(*f).String() }

// Type implements pflag.Value.
func (f *timeoutFlag) Type() string { return "duration" }
