package podnet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/sysctl"
)

// redirectsKey is set by the kernel itself to the opposite of ip_forward with
// every change of that.
const redirectsKey = "net/ipv4/conf/all/accept_redirects"

// Delete plans the removal of the networks with these names. Names that are not
// recorded are not ours, and passed over. Addresses that come free are given
// again only after all others of their range.
func (n *Node) Delete(_ context.Context, names []string) (*Plan, error) {
	plan := &Plan{node: n, sysctls: dataplane.Plans{}}
	if len(names) == 0 {
		return plan, nil
	}
	f, rec, err := n.observe()
	if err != nil {
		return nil, err
	}
	return plan, n.planDelete(plan, names, rec, f)
}

// Remove plans the removal of everything this package made in the node, so that
// links, addresses, routes, namespaces and sysctls are as before.
func (n *Node) Remove(_ context.Context) (*Plan, error) {
	plan := &Plan{node: n, sysctls: dataplane.Plans{}}
	f, rec, err := n.observe()
	if err != nil {
		return nil, err
	}
	var names []string
	for name := range rec.Networks {
		names = append(names, name)
	}
	slices.Sort(names)
	if err := n.planDelete(plan, names, rec, f); err != nil {
		return nil, err
	}
	for _, name := range leftLinks(f, rec) {
		plan.after = append(plan.after, delLinkStep(name, "", "made by toyproxy"))
	}
	if err := n.planRestore(plan, rec); err != nil {
		return nil, err
	}
	plan.after = append(plan.after, n.dirSteps(rec, f)...)
	if files, _ := filepath.Glob(filepath.Join(n.cfg.EtcNetnsDir, "*", "hosts")); f.etcReadOnly && len(names) > 0 && len(files) > 0 {
		plan.Notes = append(plan.Notes, fmt.Sprintf("%s is on a read-only file system: what was written there for Pods stays", n.cfg.EtcNetnsDir))
	}
	_, exists, err := n.load()
	if !exists && len(plan.steps()) > 0 {
		plan.Notes = append(plan.Notes, n.lost()+"; a kernel parameter that an earlier sync changed stays as it is (net.ipv4.ip_forward, say)")
	}
	// Even where the record was lost: there may be a lock, and Apply makes one.
	_, noLock := os.Stat(n.statePath(lockFile))
	plan.erase = exists || noLock == nil || len(plan.steps()) > 0
	return plan, err
}

func (n *Node) observe() (nodeFacts, record, error) {
	k, err := openKernel()
	if err != nil {
		return nodeFacts{}, record{}, err
	}
	defer k.close()
	f, err := n.observeNode(k)
	if err != nil {
		return f, record{}, err
	}
	rec, err := n.current(f)
	return f, rec, err
}

// lost says that the record is, on a node that has something of ours.
func (n *Node) lost() string {
	return fmt.Sprintf("the record %s is lost or damaged: what is alive was recognised by its marks", n.statePath(recordFile))
}

// planDelete adds the removal of networks.
func (n *Node) planDelete(plan *Plan, names []string, rec record, f nodeFacts) error {
	for _, name := range names {
		net, recorded := rec.Networks[name]
		if !recorded {
			continue
		}
		pod, err := n.observePod(name)
		if err != nil {
			return err
		}
		plan.groups = append(plan.groups, group{name, n.deleteSteps(net, pod, f)})
	}
	plan.edit = func([]Network, *record) error { return nil }
	plan.forget = func(rec *record, failed map[string]bool) {
		for _, g := range plan.groups {
			if !failed[g.name] {
				delete(rec.Networks, g.name)
			}
		}
	}
	return nil
}

// deleteSteps removes what there is of a network: the link first, as a process
// that is still inside keeps the namespace, and so would keep the link.
func (n *Node) deleteSteps(net Network, pod podFacts, f nodeFacts) []step {
	b := &podBuilder{node: n, request: Request{For: net.For}}
	l, exists := f.links[net.HostLink]
	if exists && (pairOf(l, pod.eth) || l.alias == hostMark(net.Name)) {
		b.steps = append(b.steps, delLinkStep(net.HostLink, net.For, "the Pod goes"))
	}
	path := n.Path(net.Name)
	mine := pod.file == namespace && pod.ours(true, f.id) || pod.file == plain && pod.size == 0
	if mine {
		b.add(dataplane.Remove, "network namespace "+net.Name, "the Pod goes", []string{"- ip netns del " + net.Name},
			func(*kernel) error { return removeNamespace(path) })
	}
	for _, file := range []string{"hosts", "resolv.conf"} {
		if strings.HasPrefix(pod.files[file], fileMark) && !f.etcReadOnly {
			b.add(dataplane.Remove, "file "+n.etcPath(net.Name, file), "the Pod goes", nil, func(*kernel) error { return n.removeEtc(net.Name, file) })
		}
	}
	return b.steps
}

// leftLinks are our links that no recorded network accounts for, the bridge last.
func leftLinks(f nodeFacts, rec record) []string {
	var out []string
	for name, l := range f.links {
		owner, isHost := strings.CutPrefix(l.alias, bridgeMark+" ")
		if isHost && l.kind == "veth" && rec.Networks[owner].HostLink != name {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	for name, l := range f.links {
		if l.kind == "bridge" && (l.alias == bridgeMark || name == rec.Bridge) {
			out = append(out, name)
		}
	}
	return out
}

func delLinkStep(name, owner, reason string) step {
	return step{
		dataplane.Change{Op: dataplane.Remove, Object: "link " + name, For: owner, Reason: reason, Lines: []string{"- ip link del " + name}},
		func(k *kernel) error { return k.delLink(name) },
	}
}

// planRestore puts back the sysctls, last of all that concerns traffic.
func (n *Node) planRestore(plan *Plan, rec record) error {
	restore, err := sysctl.Restore(n.statePath(journalFile))
	if err != nil {
		return err
	}
	plan.Notes = append(plan.Notes, dataplane.Remarks(restore)...)
	for i, c := range restore.Changes() {
		last := i == len(restore.Changes())-1
		plan.after = append(plan.after, step{c, func(*kernel) error {
			if !last {
				return nil
			}
			// One plan, applied as a whole with its last change.
			err := restore.Apply(context.Background())
			if rec.Redirects == "" || rec.Redirects == readSysctl(redirectsKey) {
				return err
			}
			return errors.Join(err, writeSysctl(redirectsKey, rec.Redirects))
		}})
	}
	return nil
}

// dirSteps removes the mount and the directories that are ours, unless somebody
// else has put something there.
func (n *Node) dirSteps(rec record, f nodeFacts) []step {
	var out []step
	if rec.Mounted && f.shared {
		out = append(out, step{
			dataplane.Change{Op: dataplane.Remove, Object: "mount " + n.cfg.NetnsDir, Reason: "made by toyproxy; it stays while others have namespaces there",
				Lines: []string{"- umount " + n.cfg.NetnsDir}},
			func(*kernel) error { return unshareDir(n.cfg.NetnsDir) },
		})
	}
	for _, d := range slices.Backward(rec.Dirs) {
		if f.etcReadOnly && d == n.cfg.EtcNetnsDir {
			continue
		}
		if _, err := os.Stat(d); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		out = append(out, step{
			dataplane.Change{Op: dataplane.Remove, Object: "directory " + d, Reason: "made by toyproxy; it stays while others use it", Lines: []string{"- rmdir " + d}},
			func(*kernel) error { return removeEmpty(d) },
		})
	}
	return out
}

// eraseRecord removes the record and the lock.
func (n *Node) eraseRecord() error {
	for _, name := range []string{recordFile, lockFile} {
		if err := os.RemoveAll(n.statePath(name)); err != nil {
			return fmt.Errorf("record of Pod networks: %w", err)
		}
	}
	return nil
}
