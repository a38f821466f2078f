package podnet

import (
	"net/netip"
	"slices"
)

// link is what we know of one link.
type link struct {
	index, master, peer, mtu int
	// peer is the index of the other end of a veth pair, in its own namespace.
	name, kind, alias string
	up, hairpin       bool
}

// route is a route of the main table; dst has length 0 for a default route.
type route struct {
	dst      netip.Prefix
	gateway  netip.Addr
	link     int
	protocol int
}

// nodeFacts is what the kernel holds for the node.
type nodeFacts struct {
	// id is the inode of the node's namespace, boot the id of this boot.
	id     uint64
	boot   string
	links  map[string]link
	addrs  map[int][]netip.Prefix
	routes []route
	// missingDirs are the directories of the configuration that do not exist.
	missingDirs []string
	// etcReadOnly: no files of Pods can be written below /etc.
	etcReadOnly bool
	// shared: the namespaces' directory is a mount of its own that is shared.
	shared bool
	// namespaces is the number of files in the namespaces' directory.
	namespaces int
}

// fileKind is what stands where a named namespace should.
type fileKind uint8

const (
	absent fileKind = iota
	// plain is a file without a namespace mounted on it: left by a crash between
	// two steps, or by somebody else.
	plain
	// namespace is a network namespace.
	namespace
)

// podFacts is what the kernel holds for one named namespace.
type podFacts struct {
	file fileKind
	// size of a plain file, in bytes. Ours are empty.
	size int64
	// mark is the alias of its loopback link.
	mark   string
	loUp   bool
	eth    link
	addrs  []netip.Prefix
	routes []route
	// files are the contents of its directory below EtcNetnsDir, by name.
	files map[string]string
}

// hasDefault reports a default route by that gateway.
func (f podFacts) hasDefault(gw netip.Addr) bool {
	return slices.ContainsFunc(f.routes, func(r route) bool { return r.dst.Bits() == 0 && r.gateway == gw && r.link == f.eth.index })
}

// pairOf reports whether l is the node's end of the veth pair that has eth as the
// other end.
func pairOf(l, eth link) bool { return eth.index != 0 && l.peer == eth.index && eth.peer == l.index }
