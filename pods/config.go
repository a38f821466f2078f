package pods

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/toyproxy/toyproxy/cluster/state"
	"github.com/toyproxy/toyproxy/podnet"
)

// DefaultStartTimeout bounds how long Apply waits for new Pods to be ready. A container
// that has started settles sooner, ready or not: the rest is for slow machines.
const DefaultStartTimeout = time.Minute

// Config says where and how Pods are made.
type Config struct {
	// Net makes the Pods' networks.
	Net *podnet.Node
	// StateDir holds pods/, pause/ and logs/. It is made absolute.
	StateDir string
	// Program is the toyproxy that runs as pause process and as stand-in, by the
	// commands "pause" and "stand-in". Empty: the running one.
	Program string
	// HostAddrs are the node's addresses, for status.hostIPs. May be empty.
	HostAddrs []netip.Addr
	// DNSServers are the addresses of the cluster's DNS; without any, Pods get no
	// resolv.conf of their own.
	DNSServers []netip.Addr
	// ClusterDomain is the zone of cluster DNS. Empty: "cluster.local".
	ClusterDomain string
	// StartTimeout bounds the wait for new Pods. 0: DefaultStartTimeout.
	StartTimeout time.Duration
	// Backoff says how long containers that keep ending wait. Zero: as long as in
	// Kubernetes.
	Backoff Backoff
	// Progress is told, perhaps by another goroutine, what Apply has been waiting
	// for when that takes long. Nil: nobody is.
	Progress func(string)
	// Now is the clock. Nil: time.Now.
	Now func() time.Time
}

// Runtime makes, lists and removes the Pods of one node. It works in the network
// namespace of the calling thread, and keeps nothing in memory.
type Runtime struct {
	cfg   Config
	state state.Dir[*corev1.Pod]
}

// New checks a configuration, fills in defaults and returns the runtime.
func New(cfg Config) (*Runtime, error) {
	if cfg.Net == nil || cfg.StateDir == "" {
		return nil, errors.New("pods need a network and a state directory")
	}
	dir, err := filepath.Abs(cfg.StateDir)
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	cfg.StateDir = dir
	cfg.Program = cmp.Or(cfg.Program, "/proc/self/exe")
	cfg.ClusterDomain = cmp.Or(cfg.ClusterDomain, "cluster.local")
	cfg.StartTimeout = cmp.Or(cfg.StartTimeout, DefaultStartTimeout)
	if cfg.Progress == nil {
		cfg.Progress = func(string) {}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Runtime{cfg: cfg, state: state.OpenPods(dir)}, nil
}

// NetworkName is the name of a Pod's network namespace: the Pod's own in
// namespace default, NAMESPACE_POD otherwise. Names that are too long for a file
// end in a hash.
func NetworkName(namespace, name string) string {
	if namespace != metav1.NamespaceDefault {
		name = namespace + "_" + name
	}
	return fileName(name)
}

// LogPath is the file that a container's output goes to.
func LogPath(stateDir, namespace, name, container string) string {
	return filepath.Join(logDir(stateDir, namespace, name), container+".log")
}

func logDir(stateDir, namespace, name string) string {
	return filepath.Join(stateDir, "logs", fileName(namespace+"_"+name))
}

// reportPath is where a pause process reports.
func reportPath(stateDir, namespace, name string) string {
	return filepath.Join(stateDir, "pause", fileName(namespace+"_"+name)+".json")
}

// fileName shortens what is too long for a file's name with an ending.
func fileName(s string) string {
	const longest = 240
	if len(s) <= longest {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return s[:longest-17] + "-" + hex.EncodeToString(sum[:8])
}

// key is how people name a Pod: NAMESPACE/NAME.
func key(p *corev1.Pod) string { return p.Namespace + "/" + p.Name }

// List returns the Pods that live on this node, with the status they have now,
// by namespace and name. Damaged state files are named in the error; the Pods are
// good all the same.
func (r *Runtime) List(context.Context) ([]*corev1.Pod, error) {
	obs, err := r.observe()
	var out []*corev1.Pod
	for _, name := range obs.sorted() {
		if l := obs.pods[name]; l.pod != nil {
			out = append(out, l.current())
		}
	}
	return out, err
}
