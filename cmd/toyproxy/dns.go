package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/cluster/follow"
	"github.com/toyproxy/toyproxy/dns"
	"github.com/toyproxy/toyproxy/dns/forward"
	"github.com/toyproxy/toyproxy/dns/server"
	"github.com/toyproxy/toyproxy/pods"
)

const dnsLong = `Serves cluster DNS: the names of Services, their endpoints and Pods, from the live
objects of this node (or, with -f, from manifests), and other names by asking the
node's resolvers. An object that changes changes the very next answer.

It runs as a Pod behind Service kube-system/kube-dns (examples/dns.yaml), or by
itself. It goes on answering while toyproxy run restarts. Only Pods and nodes are
served, and whom --allow names.

Ended by TERM or INT it answers for a moment (--lameduck) before it goes.`

// stateDirInPod is the node's state directory where this is a server in one of its
// Pods, else empty. There its process has a name of its own: who ends toyproxy by name
// means none that a Pod lives by.
func stateDirInPod(server string) string {
	dir := os.Getenv(pods.StateDirVariable)
	if dir != "" {
		_ = os.WriteFile("/proc/self/comm", []byte("toyproxy-"+server), 0) // a name for people
	}
	return dir
}

// dnsOptions are what dns is asked for.
type dnsOptions struct {
	src     sourceFlags
	nf      nodeFlags
	listen  string
	ttl     uint32
	forward forwardFlags
	allow   allowFlag
	log     logLevelFlag
	// udpBytes and cache bound answers by UDP, and how many of others are kept.
	udpBytes uint16
	cache    int
	lameduck time.Duration
	// metrics, health and ready are where HTTP is served.
	metrics, health, ready string
}

// newDNSCommand is the command dns, which serves, with the commands that look.
func newDNSCommand() *cobra.Command {
	var o dnsOptions
	cmd := &cobra.Command{
		Use:   "dns",
		Short: "Serve cluster DNS, and look at what it says",
		Long:  dnsLong,
		Example: `  toyproxy dns --listen 127.0.0.1:5353 -f examples/guestbook.yaml --forward none
  sudo toyproxy dns --forward 192.0.2.53 --forward corp.example=198.51.100.53`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	o.register(cmd)
	cmd.AddCommand(dnsLookupCommand(), dnsRecordsCommand(), dnsHistoryCommand())
	return cmd
}

// registerServed adds the flags that say which objects a server in a Pod serves.
func registerServed(cmd *cobra.Command, src *sourceFlags, nf *nodeFlags) *pflag.FlagSet {
	src.register(cmd)
	nf.registerScope(cmd)
	fl := cmd.Flags()
	fl.Lookup("filename").Usage = "manifest file or directory (recursive) to serve instead of the live objects; repeats"
	fl.Lookup("state-dir").Usage += ";\nin a Pod that of its node"
	return fl
}

func (o *dnsOptions) register(cmd *cobra.Command) {
	fl := registerServed(cmd, &o.src, &o.nf)
	fl.Var(&o.src.domain, "domain", "another name of --cluster-domain; in a Pod the default is that of its node")
	fl.StringVar(&o.listen, "listen", ":53", "ADDRESS:PORT of DNS, by UDP and TCP (without ADDRESS: all)")
	fl.Uint32Var(&o.ttl, "ttl", 5, "seconds for which others may keep an answer")
	fl.Var(&o.forward, "forward", "who is asked for other names: ADDRESS[:PORT], a file such as /etc/resolv.conf, ZONE=ADDRESS[,ADDRESS]\nfor one zone, or none; repeats (default the node's resolvers)")
	fl.Var(&o.allow, "allow", "range of clients that are served besides Pods and nodes, or all; repeats")
	fl.Var(&o.log, "log", "queries to log: off, errors or all")
	fl.Uint16Var(&o.udpBytes, "udp-size", 1232, "longest answer by UDP, in bytes; longer ones are for TCP")
	fl.IntVar(&o.cache, "cache", 10000, "how many answers of others are kept (0: none)")
	fl.DurationVar(&o.lameduck, "lameduck", time.Second, "how long queries are still answered after TERM")
	fl.StringVar(&o.metrics, "metrics-bind-address", ":9153", "ADDRESS:PORT of /metrics (empty: none)")
	fl.StringVar(&o.health, "health-bind-address", ":8080", "ADDRESS:PORT of /health (empty: none)")
	fl.StringVar(&o.ready, "ready-bind-address", ":8181", "ADDRESS:PORT of /ready (empty: none)")
}

// domainOfPod takes the zone that the Pods of the node search, unless a flag says one.
func (o *dnsOptions) domainOfPod(cmd *cobra.Command) error {
	domain := os.Getenv(pods.DomainVariable)
	if domain == "" || cmd.Flags().Changed("domain") || cmd.Flags().Changed("cluster-domain") {
		return nil
	}
	if err := o.src.domain.Set(domain); err != nil {
		return fmt.Errorf("environment %s=%q: %w", pods.DomainVariable, domain, err)
	}
	return nil
}

func (o *dnsOptions) run(cmd *cobra.Command) error {
	if err := o.check(); err != nil {
		return exit(exitUsage, err)
	}
	if o.nf.stateDir == "" {
		o.nf.stateDir = stateDirInPod("dns")
	}
	if err := o.domainOfPod(cmd); err != nil {
		return exit(exitUsage, err)
	}
	sc := o.nf.scope()
	if err := enterNamespace(o.nf.netns.value); err != nil {
		return err
	}
	log := newLogger(cmd.ErrOrStderr())
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer cancel()
	source, err := o.objects(ctx, cmd, sc, &helpers)
	if err != nil {
		return err
	}
	cfg := o.config(cmd, sc, log)
	cfg.Source = source
	o.startForwarding(ctx, &cfg, log, &helpers)
	s, err := server.Open(ctx, cfg)
	if errors.Is(err, fs.ErrPermission) {
		return exit(exitNeedsRoot, fmt.Errorf("%w: ports below 1024 need root, or a capability; for a trial take another: --listen 127.0.0.1:5353", err))
	}
	if err != nil {
		return err
	}
	for _, addr := range o.webAddresses() {
		helpers.Go(func() { s.ServeWeb(ctx, addr) })
	}
	log.Info("serving", "zone", o.src.domain.value, "address", s.Addr().String(), "objects", o.described(sc), "version", versionString())
	return s.Run(ctx)
}

// check refuses what cannot be meant.
func (o *dnsOptions) check() error {
	switch {
	case o.udpBytes < 512:
		return errors.New("--udp-size must be at least 512: shorter answers no client expects")
	case o.cache < 0 || o.lameduck < 0:
		return errors.New("--cache and --lameduck must not be below 0")
	}
	for _, f := range o.src.files {
		if f == "-" {
			return errors.New("-f -: what is read once cannot be followed: give a file or a directory")
		}
	}
	return nil
}

// config is all of the server's but its source and forwarder.
func (o *dnsOptions) config(cmd *cobra.Command, sc scope, log *slog.Logger) server.Config {
	domain := o.src.domain.value
	cfg := server.Config{
		Listen: o.listen, Domain: domain, Zone: dns.New(dns.Options{Domain: domain, TTL: o.ttl}),
		Allow: append(o.allow.ranges, o.src.clusterCIDRs.set...), AllowAll: o.allow.all, UDPBytes: o.udpBytes,
		Metrics: server.NewMetrics(o.listen, domain), Log: o.log.level, LogTo: cmd.OutOrStdout(), Lameduck: o.lameduck,
		Version: versionString(), Tell: func(message string) { log.Warn("trouble", "what", message) }, Loaded: restAfterLoad,
	}
	if len(o.src.files) == 0 {
		cfg.History = filepath.Join(sc.stateDir, dns.HistoryFile)
	}
	return cfg
}

// restAfterLoad gives back the memory that reading everything took.
func restAfterLoad() {
	debug.SetGCPercent(thrift)
	debug.FreeOSMemory()
}

// objects is the source of the zone.
func (o *dnsOptions) objects(ctx context.Context, cmd *cobra.Command, sc scope, helpers *sync.WaitGroup) (server.Source, error) {
	if len(o.src.files) > 0 {
		return followManifests(ctx, cmd.InOrStdin(), &o.src, helpers)
	}
	return follow.OpenLean(sc.stateDir, cluster.Service, cluster.EndpointSlice, cluster.Pod, cluster.Namespace, cluster.Node)
}

// described says where the objects are from.
func (o *dnsOptions) described(sc scope) string {
	if len(o.src.files) > 0 {
		return fmt.Sprint(o.src.files)
	}
	return sc.stateDir
}

// startForwarding gives the server a forwarder, unless others are to be refused.
func (o *dnsOptions) startForwarding(ctx context.Context, cfg *server.Config, log *slog.Logger, helpers *sync.WaitGroup) {
	if o.forward.none() {
		return
	}
	routes, err := o.forward.routes()
	if err != nil {
		log.Error("other names are not resolved", "error", err.Error(), "help", "name a resolver: --forward ADDRESS, or refuse them: --forward none")
	}
	cfg.Forwarder = forward.New(forward.Config{Routes: routes, Cache: o.cache, Now: time.Now, Observe: cfg.Metrics.Exchanged})
	cfg.Metrics.CountCache(cfg.Forwarder)
	helpers.Go(func() { o.forward.watch(ctx, cfg.Forwarder, log) })
}

// webAddresses are those where HTTP is served, each once.
func (o *dnsOptions) webAddresses() []string {
	var out []string
	seen := map[string]bool{"": true}
	for _, addr := range []string{o.metrics, o.health, o.ready} {
		if !seen[addr] {
			seen[addr] = true
			out = append(out, addr)
		}
	}
	return out
}

// allowFlag is the value of --allow.
type allowFlag struct {
	all    bool
	ranges []netip.Prefix
}

// Set implements pflag.Value.
func (a *allowFlag) Set(v string) error {
	if v == "all" {
		a.all = true
		return nil
	}
	r, err := netip.ParsePrefix(v)
	if addr, errAddr := netip.ParseAddr(v); errAddr == nil {
		r, err = netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	if err != nil {
		return fmt.Errorf("%q is no range such as 192.0.2.0/24, no address, and not all", v)
	}
	a.ranges = append(a.ranges, r.Masked())
	return nil
}

// String implements pflag.Value.
func (a *allowFlag) String() string {
	if a.all {
		return "all"
	}
	return (&prefixList{set: a.ranges}).String()
}

// Type implements pflag.Value.
func (a *allowFlag) Type() string { return "cidr" }

// logLevelFlag is the value of --log.
type logLevelFlag struct{ level server.LogLevel }

// Set implements pflag.Value.
func (l *logLevelFlag) Set(v string) (err error) {
	l.level, err = server.ParseLogLevel(v)
	return err
}

// String implements pflag.Value.
func (l *logLevelFlag) String() string { return cmp.Or(l.level, server.LogOff).String() }

// Type implements pflag.Value.
func (l *logLevelFlag) Type() string { return "level" }
