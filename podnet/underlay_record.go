package podnet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// underlayFile is the record of the nodes that stand on one machine.
const underlayFile = "underlay.json"

// underlayMark, followed by the inode of the machine's namespace, is the alias of
// the loopback link of every namespace that the underlay makes; alone it is that
// of its links. It must not begin like the marks of Pods' networks.
const underlayMark = "wire of toyproxy"

// underlayRecord is what we have made or are about to make, written before the
// kernel is touched.
type underlayRecord struct {
	// Boot is the boot the record belongs to.
	Boot string `json:"boot"`
	// Nodes are the namespaces of nodes.
	Nodes []string `json:"nodes"`
	// Dirs and Mounted are as in record.
	Dirs    []string `json:"dirs,omitempty"`
	Mounted bool     `json:"mounted,omitempty"`
}

// UnderlayNodes returns the names of the nodes that an underlay with this state
// directory has made, sorted; none without an underlay.
func UnderlayNodes(stateDir string) ([]string, error) {
	b, err := os.ReadFile(filepath.Join(stateDir, underlayFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("record of the nodes: %w", err)
	}
	var rec underlayRecord
	if err := json.Unmarshal(b, &rec); err != nil {
		return nil, fmt.Errorf("record of the nodes %s is damaged: %w", filepath.Join(stateDir, underlayFile), err)
	}
	return rec.Nodes, nil
}

// load reads the record; a damaged one is none, as the marks remain.
func (u *Underlay) load(boot string) underlayRecord {
	var rec underlayRecord
	b, err := os.ReadFile(u.node.statePath(underlayFile))
	if err == nil {
		err = json.Unmarshal(b, &rec)
	}
	if err != nil || rec.Boot != boot {
		rec = underlayRecord{Nodes: rec.Nodes}
	}
	rec.Boot = boot
	return rec
}

func (u *Underlay) save(rec underlayRecord) error {
	b, err := json.MarshalIndent(rec, "", "  ")
	if err != nil {
		return fmt.Errorf("record of the nodes: %w", err)
	}
	return wrap(replaceFile(u.node.statePath(underlayFile), string(b)+"\n"), "record of the nodes")
}

// erase removes the record.
func (u *Underlay) erase() error {
	return wrap(ignore(os.Remove(u.node.statePath(underlayFile)), fs.ErrNotExist), "record of the nodes")
}

// wireFacts is what the kernel holds of the underlay.
type wireFacts struct {
	nodeFacts
	rec underlayRecord
	// spaces are the namespaces of the members, of the record, of the wire, and
	// whatever else carries our mark, by name.
	spaces map[string]podFacts
	// ports are the links in the namespace of the wire.
	ports map[string]link
}

func (u *Underlay) observe() (f wireFacts, err error) {
	k, err := openKernel()
	if err != nil {
		return f, err
	}
	defer k.close()
	if f.nodeFacts, err = u.node.observeNode(k); err != nil {
		return f, err
	}
	f.rec = u.load(f.boot)
	f.spaces = map[string]podFacts{}
	names := append(slices.Clone(f.rec.Nodes), wireSpace)
	for _, m := range u.cfg.Members {
		names = append(names, m.Name)
	}
	for _, name := range names {
		if f.spaces[name], err = u.node.observePod(name); err != nil {
			return f, err
		}
	}
	u.recognise(f)
	if f.spaces[wireSpace].file == namespace {
		err = within(u.node.Path(wireSpace), func(k *kernel) (err error) {
			f.ports, err = k.links()
			return err
		})
	}
	return f, err
}

// recognise adds the namespaces that carry our mark, whatever the record says.
func (u *Underlay) recognise(f wireFacts) {
	entries, _ := os.ReadDir(u.node.cfg.NetnsDir)
	for _, e := range entries {
		if _, known := f.spaces[e.Name()]; known {
			continue
		}
		s, err := u.node.observePod(e.Name())
		if err == nil && s.file == namespace && s.mark == spaceMark(f.id) {
			f.spaces[e.Name()] = s
		}
	}
}

func spaceMark(machine uint64) string { return fmt.Sprintf("%s %d", underlayMark, machine) }

// owns reports whether a namespace is ours: it carries the mark of this machine,
// or is recorded and was left half made.
func (f wireFacts) owns(name string) bool {
	s := f.spaces[name]
	recorded := name == wireSpace || slices.Contains(f.rec.Nodes, name)
	return s.file == namespace && (s.mark == spaceMark(f.id) || recorded && strings.HasPrefix(s.mark, underlayMark)) ||
		s.file == plain && s.size == 0 && recorded
}
