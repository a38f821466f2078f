package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/iptables"
	"github.com/toyproxy/toyproxy/dataplane/ipvs"
	"github.com/toyproxy/toyproxy/dataplane/nftables"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
	"github.com/toyproxy/toyproxy/test/lab"
)

// backend is one column of the matrix.
type backend struct {
	name  string
	needs []lab.Feature
	make  func(t testing.TB) dataplane.Backend
	// turns: endpoints take turns, so that shares are exact; else lots are drawn.
	turns bool
	// persists: sessions are the kernel's own. It keeps one up to a minute
	// beyond its timeout while it still tracks a closed connection of it, so the
	// timeout is read and not waited for (fault 71).
	persists bool
	// clients is how many clients of two endpoints affinity has to hold.
	clients int
	// loopback: node ports may answer on 127.0.0.1. IPVS sends nothing on that comes
	// from there.
	loopback bool
}

// backends are the columns of the matrix. IPVS brings a few rules of iptables
// along, in the engine that it finds.
func backends() []backend {
	return []backend{
		{"iptables-nft", []lab.Feature{lab.IptablesNFT}, withIptables(xtables.NFT), false, false, 600, true},
		{"iptables-legacy", []lab.Feature{lab.IptablesLegacy}, withIptables(xtables.Legacy), false, false, 600, true},
		{"nftables", []lab.Feature{lab.Nftables}, withNftables, false, false, 600, true},
		{"ipvs", []lab.Feature{lab.IPVS, lab.IPSet}, withIPVS, true, true, 240, false},
	}
}

// here reports whether this kernel is the one to try the backend in. A guest was
// started for IPVS; the machine's own kernel has the others.
func (b backend) here() bool {
	return os.Getenv(lab.GuestVariable) == "" || slices.Contains(b.needs, lab.IPVS)
}

// missing returns what of the kernel's features the backend lacks here.
func (b backend) missing() error {
	for _, f := range b.needs {
		if err := f.Missing(); err != nil {
			return err
		}
	}
	return nil
}

func withIptables(e xtables.Engine) func(testing.TB) dataplane.Backend {
	return func(testing.TB) dataplane.Backend { return iptables.New(iptables.Config{Engine: e}) }
}

func withNftables(testing.TB) dataplane.Backend { return nftables.New(nftables.Config{}) }

func withIPVS(t testing.TB) dataplane.Backend {
	return ipvs.New(ipvs.Config{StateDir: t.TempDir()})
}

// program makes the kernel of the host match the table.
func program(h *lab.Host, b dataplane.Backend, table dataplane.Table) error {
	return execute(h, func(ctx context.Context) (dataplane.Plan, error) { return b.Plan(ctx, table) })
}

// clear removes everything of ours from the kernel of the host.
func clear(h *lab.Host, b dataplane.Backend) error { return execute(h, b.Remove) }

// execute makes a plan in the host's namespace and applies it.
func execute(h *lab.Host, plan func(context.Context) (dataplane.Plan, error)) (err error) {
	h.Do(func() {
		var p dataplane.Plan
		if p, err = plan(context.Background()); err != nil {
			err = fmt.Errorf("plan: %w", err)
			return
		}
		if err = p.Apply(context.Background()); err != nil {
			err = fmt.Errorf("apply: %w", err)
		}
	})
	return err
}

// settled returns what a plan would still change, as an error.
func settled(h *lab.Host, plan func(context.Context) (dataplane.Plan, error)) (err error) {
	h.Do(func() {
		p, failed := plan(context.Background())
		if failed != nil {
			err = fmt.Errorf("second plan: %w", failed)
			return
		}
		for _, c := range p.Changes() {
			if drained(c) {
				continue
			}
			err = errors.Join(err, fmt.Errorf("second plan is not empty: %s %q", c, c.Lines))
		}
	})
	return err
}

// drained reports whether a change takes away what IPVS has kept for connections
// that ended: that may be at any time.
func drained(c dataplane.Change) bool {
	ofMark := strings.HasPrefix(c.Object, "virtual server IPv4 mark ") || strings.HasPrefix(c.Object, "virtual server IPv6 mark ") ||
		strings.HasPrefix(c.Object, "ipset TOY-MARK-")
	return c.Op == dataplane.Remove && (ofMark || strings.HasSuffix(c.Reason, "all its connections have ended"))
}
