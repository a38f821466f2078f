package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"reflect"
	"strings"
	"time"

	mdns "github.com/miekg/dns"

	"github.com/toyproxy/toyproxy/dns/forward"
)

// resolversEvery is how often files of resolvers are looked at.
const resolversEvery = 5 * time.Second

// forwardFlags are the values of --forward.
type forwardFlags struct {
	texts []string
	off   bool
	// zones are the routes of single zones; upstreams and files are for all others.
	zones     []forward.Route
	upstreams []netip.AddrPort
	files     []string
}

// Set implements pflag.Value.
func (f *forwardFlags) Set(v string) error {
	if f.off || v == "none" && len(f.texts) > 0 {
		return errors.New("none goes with nothing else")
	}
	f.texts = append(f.texts, v)
	zone, servers, conditional := strings.Cut(v, "=")
	switch {
	case v == "none":
		f.off = true
	case strings.HasPrefix(v, "/"):
		f.files = append(f.files, v)
	case conditional:
		return f.setZone(zone, servers)
	default:
		at, err := forward.ParseUpstream(v)
		f.upstreams = append(f.upstreams, at)
		return err
	}
	return nil
}

// setZone adds the route of one zone.
func (f *forwardFlags) setZone(zone, servers string) error {
	if _, ok := mdns.IsDomainName(zone); !ok || zone == "" {
		return fmt.Errorf("%q is no zone", zone)
	}
	route := forward.Route{Zone: zone}
	for text := range strings.SplitSeq(servers, ",") {
		if text == "none" {
			continue // its names are refused
		}
		at, err := forward.ParseUpstream(text)
		if err != nil {
			return err
		}
		route.Upstreams = append(route.Upstreams, at)
	}
	f.zones = append(f.zones, route)
	return nil
}

// String implements pflag.Value.
func (f *forwardFlags) String() string { return strings.Join(f.texts, " ") }

// Type implements pflag.Value.
func (f *forwardFlags) Type() string { return "resolver" }

// none tells whether other names are refused.
func (f *forwardFlags) none() bool { return f.off }

// sources are the files that resolvers are read from.
func (f *forwardFlags) sources() []string {
	if len(f.files)+len(f.upstreams) == 0 {
		return []string{forward.NodeFile}
	}
	return f.files
}

// routes says whom to ask now. Besides an error the routes are good as far as they go.
func (f *forwardFlags) routes() ([]forward.Route, error) {
	all := forward.Route{Zone: ".", Upstreams: f.upstreams}
	var errs []error
	for _, path := range f.sources() {
		upstreams, err := forward.ReadResolvConf(path)
		all.Upstreams = append(all.Upstreams[:len(all.Upstreams):len(all.Upstreams)], upstreams...)
		errs = append(errs, err)
	}
	routes := f.zones[:len(f.zones):len(f.zones)]
	if len(all.Upstreams) > 0 {
		routes = append(routes, all)
	}
	return routes, errors.Join(errs...)
}

// watch makes a forwarder follow its files until the context ends.
func (f *forwardFlags) watch(ctx context.Context, forwarder *forward.Forwarder, log *slog.Logger) {
	files := append(f.sources(), forward.ResolvedFile)
	before, _ := f.routes()
	seen := appearances(files)
	for sleep(ctx, resolversEvery) {
		now := appearances(files)
		if now == seen {
			continue
		}
		seen = now
		routes, err := f.routes()
		if err != nil {
			log.Warn("resolvers", "error", err.Error())
		}
		if len(routes) > 0 && !reflect.DeepEqual(routes, before) {
			before = routes
			log.Info("resolvers changed", "routes", fmt.Sprint(routes))
			forwarder.SetRoutes(routes)
		}
	}
}

// appearances tell files apart from what they were.
func appearances(files []string) string {
	var out strings.Builder
	for _, path := range files {
		if info, err := os.Stat(path); err == nil {
			fmt.Fprintf(&out, "%d %d\n", info.Size(), info.ModTime().UnixNano())
		} else {
			out.WriteString("none\n")
		}
	}
	return out.String()
}
