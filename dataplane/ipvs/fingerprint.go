package ipvs

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"os"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
)

var _ dataplane.Fingerprinter = (*Backend)(nil)

// Fingerprint implements dataplane.Fingerprinter: all virtual and real servers, our
// sets and routes, the parameters of the kernel and all rules. While a real server
// drains no two are the same: the clock tells what is to be done about it.
func (b *Backend) Fingerprint(ctx context.Context) (string, error) {
	rules, err := xtables.Fingerprint()
	if err != nil {
		return "", err
	}
	s := sum{}
	if err := b.addParameters(s); err != nil {
		return "", err
	}
	draining, err := s.addReal("/proc/thread-self/net/ip_vs")
	if err != nil {
		return "", err
	}
	if draining {
		addTo(s, "time", b.config.Clock().UnixNano())
	}
	k, err := openKernel()
	if err != nil {
		return "", err
	}
	defer k.close()
	for _, f := range families() {
		addTo(s, "family", f)
		if err := s.addFamily(ctx, k, f.family); err != nil {
			return "", err
		}
	}
	if err := s.addServers(ctx, k); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s ipvs %x", rules, s), nil
}

// sum is a hash of many things in any order, by kind: dumps of the kernel and maps
// have none.
type sum map[string]uint64

// seed makes sums comparable within this process.
var seed = maphash.MakeSeed()

// addTo adds a thing of a kind.
func addTo[T comparable](s sum, kind string, thing T) { s[kind] += maphash.Comparable(seed, thing) }

// addParameters adds what the parameters of the kernel lack.
func (b *Backend) addParameters(s sum) error {
	version, err := kernelRelease()
	if err != nil {
		return err
	}
	plans, err := b.parameters(settings(version), b.config.StrictARP, b.config.Timeouts)
	if err != nil {
		return err
	}
	for _, c := range plans.Changes() {
		addTo(s, "parameter", c.String())
	}
	return nil
}

// addFamily adds our sets, routes and routing rules of a family.
func (s sum) addFamily(ctx context.Context, k *kernel, f dataplane.Family) error {
	o := observed{family: f}
	if err := k.readOwnership(ctx, &o); err != nil {
		return err
	}
	for kind, set := range o.sets {
		if set == nil {
			continue
		}
		addTo(s, "set", fmt.Sprint(f, kind, set.typeName, set.capacity))
		for e := range set.entries {
			addTo(s, "entry", heldEntry{f, kind, e})
		}
	}
	for _, name := range o.spares {
		addTo(s, "spare", name)
	}
	for a, r := range o.routes {
		addTo(s, "route", placedRoute{a, r})
	}
	for a, r := range o.inbound {
		addTo(s, "inbound", placedRoute{a, r})
	}
	for a := range o.local {
		addTo(s, "local", a)
	}
	for _, p := range o.policies {
		addTo(s, "policy", fmt.Sprint(f, p))
	}
	return nil
}

// heldEntry is an entry of the set of a kind.
type heldEntry struct {
	family dataplane.Family
	kind   int
	entry  entry
}

// addServers adds all virtual servers.
func (s sum) addServers(ctx context.Context, k *kernel) error {
	const kind = "server"
	return k.eachServer(ctx, func() { delete(s, kind) }, func(body []byte) error {
		v, err := decodeServer(body)
		addTo(s, kind, heldServer{v.serverID, v.scheduler, v.flags, v.timeout})
		return err
	})
}

// heldServer is what a plan compares of a virtual server.
type heldServer struct {
	serverID
	scheduler string
	flags     serviceFlags
	timeout   uint32
}

// addReal adds all real servers, which a file of the kernel's lists much cheaper
// than it answers for each virtual server, and reports whether one of them takes no
// new connections. Where the list takes more than a page, and other namespaces have
// virtual servers too, the kernel counts those on its way to the next page in one
// place and not in another, and leaves some of ours out: what becomes of these is seen
// when everything is compared.
func (s sum) addReal(file string) (draining bool, err error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	var h maphash.Hash
	h.SetSeed(seed)
	lines, server := bufio.NewScanner(f), []byte(nil)
	for lines.Scan() {
		line, weight := realLine(lines.Bytes())
		if line == nil {
			server = append(server[:0], lines.Bytes()...)
			continue
		}
		h.Reset()
		_, _ = h.Write(server)
		_, _ = h.Write(line)
		s["real server"] += h.Sum64()
		draining = draining || string(weight) == "0"
	}
	return draining, lines.Err()
}

// realLine returns a line about a real server without its numbers of connections,
// and its weight; nothing of a line about anything else.
func realLine(text []byte) (line, weight []byte) {
	rest, ok := bytes.CutPrefix(text, []byte("  -> "))
	if !ok || bytes.HasPrefix(rest, []byte("RemoteAddress:Port")) {
		return nil, nil
	}
	for range 3 { // address, forwarding method, weight
		rest = bytes.TrimLeft(rest, " ")
		weight, rest, _ = bytes.Cut(rest, []byte{' '})
	}
	return text[:len(text)-len(rest)], weight
}
