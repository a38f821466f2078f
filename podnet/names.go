package podnet

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"
)

const (
	// linkNameMax is IFNAMSIZ less the closing zero.
	linkNameMax = 15
	// fileNameMax is NAME_MAX, in bytes.
	fileNameMax = 255
	// hostLinkPrefix begins the node's end of every Pod's veth pair.
	hostLinkPrefix = "toy"
	// bridgeMark is the alias of our bridge; a Pod's host link has it too,
	// followed by the name of the namespace.
	bridgeMark = "toyproxy"
	// nodeMark, followed by the inode of the node's namespace, is the alias of
	// the loopback link of every namespace we make.
	nodeMark = "toyproxy node "
)

// hostLink names the node's end of a Pod's veth pair. The name is cut from a hash
// and not from the Pod's name, in which only the end differs among the Pods of
// one Deployment. A higher salt gives another name, for when that one is taken.
func hostLink(namespace string, salt int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d/%s", salt, namespace))
	hash := strings.ToLower(base32.HexEncoding.EncodeToString(sum[:]))
	return hostLinkPrefix + hash[:linkNameMax-len(hostLinkPrefix)]
}

// bridgeAddress is the hardware address of a bridge. Without one of its own a
// bridge takes the lowest of its ports', and Pods would keep sending to that of a
// Pod that is gone.
func bridgeAddress(bridge string, node uint64) []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d/%s", node, bridge))
	mac := sum[:6]
	mac[0] = mac[0]&^0x01 | 0x02 // unicast, locally administered
	return mac
}

// checkLinkName tells what the kernel would refuse as a link's name, in words.
func checkLinkName(name string) error {
	switch {
	case len(name) > linkNameMax:
		return fmt.Errorf("name %q has %d bytes; a link's name has at most %d", name, len(name), linkNameMax)
	case name == "" || name == "." || name == "..":
		return fmt.Errorf("name %q: not a name for a link", name)
	case strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == '/' || r == ':' || r > '~' }):
		return fmt.Errorf("name %q: a link's name has no blanks, slashes, colons or letters beyond ASCII", name)
	}
	return nil
}

// CheckNamespaceName tells what cannot be a file below the namespaces' directory.
func CheckNamespaceName(name string) error {
	switch {
	case len(name) > fileNameMax:
		return fmt.Errorf("namespace name %q has %d bytes; a file's name has at most %d", name, len(name), fileNameMax)
	case name == "" || name[0] == '.' || name[0] == '-':
		return fmt.Errorf("namespace name %q: must begin with a letter or a digit", name)
	case strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == '/' || r > '~' }):
		return fmt.Errorf("namespace name %q: has a blank, a slash or a letter beyond ASCII", name)
	}
	return nil
}
