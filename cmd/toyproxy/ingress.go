package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/ingress"
	"github.com/toyproxy/toyproxy/ingress/gateway"
	"github.com/toyproxy/toyproxy/ingress/proxy"
	"github.com/toyproxy/toyproxy/pods"
	"github.com/toyproxy/toyproxy/serve"
)

const ingressLong = `Serves Ingresses and the Gateway API: takes HTTP and HTTPS requests, and passes each
on to an endpoint of the Service that the objects name for its host and path.

The objects are those of the state directory of a node, which 'toyproxy run' or
'toyproxy sync' keeps there, or of manifests (-f). A change is in force at once, and
cuts no connection. In a cluster it runs as a Pod: see examples/ingress.yaml.`

// ingressFlags are those of the ingress command.
type ingressFlags struct {
	src       sourceFlags
	nf        nodeFlags
	address   string
	http      uint16
	https     uint16
	answers   string
	access    string
	trusted   []string
	publish   string
	classes   controllers
	grace     time.Duration
	maxHeader byteSize
	maxBody   byteSize
	opts      proxy.Options
}

func ingressCommand() *cobra.Command {
	var f ingressFlags
	cmd := &cobra.Command{
		Use:   "ingress",
		Short: "Serve Ingresses and Gateways: HTTP by host and path",
		Long:  ingressLong,
		Example: `  toyproxy ingress --http-port 8080 --https-port 8443
  toyproxy ingress -f ./manifests --http-port 8080 --https-port 8443 --access-log common`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.register(cmd)
	return cmd
}

func (f *ingressFlags) register(cmd *cobra.Command) {
	fl := registerServed(cmd, &f.src, &f.nf)
	fl.StringVar(&f.address, "address", "", "address to listen on (default: all)")
	fl.Uint16Var(&f.http, "http-port", 80, "port that stands for port 80 of the objects")
	fl.Uint16Var(&f.https, "https-port", 443, "port that stands for port 443 of the objects")
	fl.StringVar(&f.answers, "healthz-bind-address", ":10254", "ADDRESS:PORT of /healthz and /metrics (empty: none)")
	fl.StringVar(&f.access, "access-log", "json", "format of the lines on standard output: json, common or off")
	fl.StringSliceVar(&f.trusted, "trusted-proxy", nil, "ranges of proxies whose X-Forwarded-*, X-Real-IP and Forwarded are believed")
	fl.StringVar(&f.publish, "publish-service", "kube-system/toyproxy-ingress", "Service whose addresses are written into the status of the objects (empty: none are)")
	fl.StringVar(&f.classes.ingress, "ingress-controller", ingress.ControllerName, "spec.controller of the IngressClasses to serve")
	fl.StringVar(&f.classes.gateway, "gateway-controller", string(gateway.ControllerName), "spec.controllerName of the GatewayClasses to serve")
	fl.DurationVar(&f.grace, "shutdown-grace-period", 0, "how long to go on accepting after SIGTERM, while /healthz says 503")
	f.registerLimits(cmd)
	_ = cmd.RegisterFlagCompletionFunc("access-log", cobra.FixedCompletions([]string{"json", "common", "off"}, cobra.ShellCompDirectiveNoFileComp))
}

func (f *ingressFlags) registerLimits(cmd *cobra.Command) {
	fl := cmd.Flags()
	f.maxHeader = 64 << 10
	fl.DurationVar(&f.opts.DrainTimeout, "drain-timeout", 30*time.Second, "how long requests in flight and upgraded connections may go on after SIGTERM")
	fl.DurationVar(&f.opts.HeaderTimeout, "header-timeout", 10*time.Second, "how long a client may take for a TLS handshake, and for the head of a request")
	fl.DurationVar(&f.opts.IdleTimeout, "idle-timeout", 75*time.Second, "how long a client may be silent between requests")
	fl.DurationVar(&f.opts.BodyTimeout, "body-timeout", time.Minute, "how long a client may be silent within a body, or take nothing of an answer")
	fl.DurationVar(&f.opts.ConnectTimeout, "connect-timeout", 5*time.Second, "how long a connection to an endpoint may take")
	fl.DurationVar(&f.opts.ReadTimeout, "read-timeout", time.Minute, "how long an endpoint may be silent (not HTTP/2 and upgraded connections)")
	fl.DurationVar(&f.opts.RequestTimeout, "request-timeout", 0, "how long a request may take in all (0: no bound)")
	fl.Var(&f.maxHeader, "max-header", "size of the head of a request, such as 64Ki")
	fl.Var(&f.maxBody, "max-body", "size of the body of a request, such as 8Mi (0: no bound)")
	fl.IntVar(&f.opts.MaxConnections, "max-connections", 0, "open connections of clients (0: no bound)")
}

// byteSize is a flag that holds a number of bytes, as Kubernetes writes it.
type byteSize int64

// Set implements pflag.Value.
func (b *byteSize) Set(text string) error {
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Value() < 0 {
		return errors.New("must be a number of bytes, such as 65536, 64Ki or 8Mi")
	}
	*b = byteSize(q.Value())
	return nil
}

// String implements pflag.Value.
func (b *byteSize) String() string {
	return resource.NewQuantity(int64(*b), resource.BinarySI).String()
}

// Type implements pflag.Value.
func (b *byteSize) Type() string { return "bytes" }

// complete checks the flags and makes options of them.
func (f *ingressFlags) complete(log *slog.Logger, stdout io.Writer) error {
	for _, text := range f.trusted {
		r, err := parseRange(text)
		if err != nil {
			return exit(exitUsage, fmt.Errorf("--trusted-proxy %q: write a range such as 10.0.0.0/8, or an address", text))
		}
		f.opts.Trusted = append(f.opts.Trusted, r)
	}
	switch f.access {
	case "json", "common":
		f.opts.AccessLog = stdout
		if f.access == "common" {
			f.opts.AccessFormat = proxy.AccessCommon
		}
	case "off":
	default:
		return exit(exitUsage, fmt.Errorf("--access-log %q: must be json, common or off", f.access))
	}
	if f.publish != "" && strings.Count(f.publish, "/") != 1 {
		return exit(exitUsage, fmt.Errorf("--publish-service %q: write NAMESPACE/NAME", f.publish))
	}
	if err := f.classes.check(); err != nil {
		return err
	}
	if f.address != "" {
		if _, err := netip.ParseAddr(f.address); err != nil {
			return exit(exitUsage, fmt.Errorf("--address %q: must be an IP address", f.address))
		}
	}
	if slices.Contains(f.src.files, "-") {
		return exit(exitUsage, errors.New("-f -: what is read once cannot be followed: give a file or a directory"))
	}
	if f.nf.stateDir == "" {
		f.nf.stateDir = os.Getenv(pods.StateDirVariable)
	}
	f.opts.MaxHeaderBytes, f.opts.MaxBody = int(f.maxHeader), int64(f.maxBody)
	f.opts.Log, f.opts.Listen = log, f.listen
	return nil
}

func parseRange(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	r, err := netip.ParsePrefix(text)
	return r.Masked(), err
}

// listen opens the port that stands for one of the objects.
func (f *ingressFlags) listen(ctx context.Context, port uint16) (net.Listener, error) {
	switch port {
	case 80:
		port = f.http
	case 443:
		port = f.https
	}
	return serve.Listen(ctx, net.JoinHostPort(f.address, strconv.Itoa(int(port))))
}

// published is the Service whose addresses are those of the proxy.
func (f *ingressFlags) published() types.NamespacedName {
	namespace, name, _ := strings.Cut(f.publish, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}

func (f *ingressFlags) run(cmd *cobra.Command) error {
	log := newLogger(cmd.ErrOrStderr())
	if err := f.complete(log, cmd.OutOrStdout()); err != nil {
		return err
	}
	if err := enterNamespace(f.nf.netns.value); err != nil {
		return err
	}
	p, err := proxy.New(f.opts)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(cmd.Context())
	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer cancel()
	d, err := f.newFrontDoor(ctx, cmd, p, log, &helpers)
	if err != nil {
		return err
	}
	defer d.close()
	// Who asks is answered also while requests end.
	answering, quiet := context.WithCancel(context.WithoutCancel(ctx))
	defer quiet()
	if err := f.answer(answering, p, &helpers); err != nil {
		return err
	}
	if err := d.begin(); err != nil {
		return err
	}
	log.Info("serving", "http", f.http, "https", f.https, "version", versionString())
	helpers.Go(func() { d.follow(ctx) })
	p.Run(ctx, f.grace)
	log.Info("drained")
	return nil
}

// answer serves /healthz and /metrics until the context ends.
func (f *ingressFlags) answer(ctx context.Context, p *proxy.Proxy, helpers *sync.WaitGroup) error {
	if f.answers == "" {
		return nil
	}
	ln, err := serve.Listen(ctx, f.answers)
	if err != nil {
		return fmt.Errorf("/healthz and /metrics (--healthz-bind-address): %w", err)
	}
	helpers.Go(func() { _ = serve.Serve(ctx, ln, p.Handler()) })
	return nil
}
