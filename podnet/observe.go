package podnet

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// observeNode reads what the kernel holds for the node.
func (n *Node) observeNode(k *kernel) (f nodeFacts, err error) {
	var errs [6]error
	f.id, errs[0] = NamespaceID()
	f.boot, errs[1] = bootID()
	f.links, errs[2] = k.links()
	f.addrs, errs[3] = k.addrs()
	f.routes, errs[4] = k.routes()
	f.shared, errs[5] = isShared(n.cfg.NetnsDir)
	f.missingDirs = missingDirs(n.cfg.NetnsDir)
	if f.etcReadOnly = isReadOnly(n.cfg.EtcNetnsDir); !f.etcReadOnly {
		f.missingDirs = append(f.missingDirs, missingDirs(n.cfg.EtcNetnsDir)...)
	}
	names, _ := os.ReadDir(n.cfg.NetnsDir)
	f.namespaces = len(names)
	return f, errors.Join(errs[:]...)
}

func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("boot id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// observePod reads what the kernel holds for one named namespace.
func (n *Node) observePod(name string) (f podFacts, err error) {
	path := n.Path(name)
	if f.file, f.size, err = readFile(path); err != nil {
		return f, err
	}
	if f.files, err = n.readEtc(name); err != nil || f.file != namespace {
		return f, err
	}
	err = Do(path, func() error { return f.readInside() })
	return f, wrap(err, "network namespace "+name)
}

// readInside reads the namespace of the calling thread.
func (f *podFacts) readInside() error {
	k, err := openKernel()
	if err != nil {
		return err
	}
	defer k.close()
	links, err := k.links()
	if err != nil {
		return err
	}
	addrs, err := k.addrs()
	if err != nil {
		return err
	}
	f.mark, f.loUp, f.eth = links["lo"].alias, links["lo"].up, links[podLink]
	f.addrs = addrs[f.eth.index]
	f.routes, err = k.routes()
	return err
}

// current returns the record: as it stands in its file, without what an earlier
// boot made; or, when the file is lost, from the marks of what is alive.
func (n *Node) current(f nodeFacts) (record, error) {
	rec, exists, err := n.load()
	if err != nil {
		return rec, err
	}
	if exists && rec.Boot != f.boot {
		rec = record{Last: rec.Last}.clone()
	}
	rec.Boot = f.boot
	if exists {
		return rec, nil
	}
	return rec, n.recover(rec, f)
}

// recover adds the namespaces that carry the mark of this node to the record.
func (n *Node) recover(rec record, f nodeFacts) error {
	entries, err := os.ReadDir(n.cfg.NetnsDir)
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("list of network namespaces: %w", err)
	}
	for _, e := range entries {
		pod, err := n.observePod(e.Name())
		if err != nil || pod.file != namespace || pod.mark != ownMark(f.id) {
			continue // not ours, or not to be told: nothing of it is touched
		}
		net := Network{Name: e.Name(), Addrs: n.inRanges(pod.addrs)}
		for name, l := range f.links {
			if pairOf(l, pod.eth) {
				net.HostLink = name
			}
		}
		rec.Networks[net.Name] = net
	}
	return nil
}

// inRanges returns the single address in each Pod range.
func (n *Node) inRanges(addrs []netip.Prefix) []netip.Addr {
	var out []netip.Addr
	for _, r := range n.cfg.PodRanges {
		i := slices.IndexFunc(addrs, func(p netip.Prefix) bool { return p.IsSingleIP() && r.Contains(p.Addr()) })
		if i >= 0 {
			out = append(out, addrs[i].Addr())
		}
	}
	return out
}

func ownMark(node uint64) string { return fmt.Sprintf("%s%d", nodeMark, node) }

// ours reports whether a namespace was made by us: its mark is this node's, or
// that of a node that has gone while the record stayed.
func (f podFacts) ours(recorded bool, node uint64) bool {
	return f.mark == ownMark(node) || recorded && strings.HasPrefix(f.mark, nodeMark)
}

// Networks returns the recorded networks, by name.
func (n *Node) Networks() ([]Network, error) {
	rec, _, err := n.load()
	if err != nil {
		return nil, err
	}
	out := make([]Network, 0, len(rec.Networks))
	for _, net := range rec.Networks {
		out = append(out, net)
	}
	slices.SortFunc(out, func(a, b Network) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// makeNamespace makes a named namespace that carries our mark from before it can
// be seen. One that is there already and carries it will do.
func makeNamespace(path, mark string) error {
	if kind, _, err := readFile(path); err != nil || kind == namespace {
		return errors.Join(err, checkMark(path, mark))
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("directory of network namespaces: %w", err)
	}
	return onThread(func() error {
		if err := unshareNetns(); err != nil {
			return fmt.Errorf("network namespace %s: %w", path, err)
		}
		k, err := openKernel()
		if err != nil {
			return err
		}
		defer k.close()
		if err := errors.Join(setPodSysctls(), k.addLoopback(mark)); err != nil {
			return fmt.Errorf("network namespace %s: %w", path, err)
		}
		return mountNamespace(path)
	})
}

// checkMark reports a namespace that somebody else made since it was planned.
func checkMark(path, mark string) error {
	return within(path, func(k *kernel) error {
		links, err := k.links()
		if err == nil && links["lo"].alias != mark {
			err = fmt.Errorf("network namespace %s was made by somebody else meanwhile: plan again", path)
		}
		return err
	})
}
