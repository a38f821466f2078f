package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/cluster/apply"
	"github.com/toyproxy/toyproxy/cluster/state"
	"github.com/toyproxy/toyproxy/podnet"
)

// target is a live object that a command acts on.
type target struct {
	cluster.Ref
	// plural and resource are how kubectl names the kind: deployments, deployment.apps.
	plural, resource string
}

// String is what kubectl calls the object: deployment.apps/web.
func (t target) String() string { return t.resource + "/" + t.Name }

// notFound is the error of a target that is not there.
func (t target) notFound() error {
	return fmt.Errorf("%s %q not found in namespace %s", t.plural, t.Name, t.Namespace)
}

// kinds are those that targets may be of.
type kinds []target

func workloadKinds() kinds {
	return kinds{
		{cluster.Ref{Kind: cluster.Deployment}, "deployments", "deployment.apps"},
		{cluster.Ref{Kind: cluster.StatefulSet}, "statefulsets", "statefulset.apps"},
		{cluster.Ref{Kind: cluster.DaemonSet}, "daemonsets", "daemonset.apps"},
	}
}

func scalableKinds() kinds {
	return kinds{workloadKinds()[0], workloadKinds()[1], {cluster.Ref{Kind: cluster.ReplicaSet}, "replicasets", "replicaset.apps"}}
}

func podKind() kinds { return kinds{{cluster.Ref{Kind: cluster.Pod}, "pods", "pod"}} }

// liveKinds are all of which objects are kept.
func liveKinds() kinds {
	return slices.Concat(podKind(), scalableKinds(), workloadKinds()[2:], kinds{
		{cluster.Ref{Kind: cluster.Service}, "services", "service"},
		{cluster.Ref{Kind: cluster.ConfigMap}, "configmaps", "configmap"},
		{cluster.Ref{Kind: cluster.Secret}, "secrets", "secret"},
		{cluster.Ref{Kind: cluster.Ingress}, "ingresses", "ingress.networking.k8s.io"},
		{cluster.Ref{Kind: cluster.GatewayClass}, "gatewayclasses", "gatewayclass.gateway.networking.k8s.io"},
		{cluster.Ref{Kind: cluster.Gateway}, "gateways", "gateway.gateway.networking.k8s.io"},
		{cluster.Ref{Kind: cluster.HTTPRoute}, "httproutes", "httproute.gateway.networking.k8s.io"},
	})
}

// find returns the kind of a name, singular, plural or short.
func (ks kinds) find(name string) (target, error) {
	name, _, _ = strings.Cut(name, ".") // deployment.apps
	if v, ok := viewOf(name); ok {
		for _, k := range ks {
			if k.plural == v.plural {
				return k, nil
			}
		}
	}
	names := make([]string, len(ks))
	for i, k := range ks {
		names[i] = k.plural
	}
	return target{}, fmt.Errorf("%q cannot be meant here: use %s", name, strings.Join(names, ", "))
}

// parse reads "KIND NAME..." and "KIND/NAME..."; of a lone KIND it returns no targets.
func (ks kinds) parse(args []string, namespace string) (kind target, out []target, err error) {
	if !strings.Contains(args[0], "/") {
		if kind, err = ks.find(args[0]); err != nil {
			return kind, nil, err
		}
		for _, name := range args[1:] {
			if strings.Contains(name, "/") {
				return kind, nil, fmt.Errorf("%q: names of %s stand without KIND/ here", name, kind.plural)
			}
			out = append(out, kind.named(namespace, name))
		}
		return kind, out, nil
	}
	for _, a := range args {
		k, name, ok := strings.Cut(a, "/")
		if !ok || name == "" {
			return kind, nil, fmt.Errorf("%q: with KIND/NAME every argument has that form", a)
		}
		if kind, err = ks.find(k); err != nil {
			return kind, nil, err
		}
		out = append(out, kind.named(namespace, name))
	}
	return kind, out, nil
}

func (t target) named(namespace, name string) target {
	if t.Kind == cluster.GatewayClass { // it belongs to the whole cluster
		namespace = ""
	}
	t.NamespacedName = types.NamespacedName{Namespace: namespace, Name: name}
	return t
}

// placeFlags say on which node and in which namespace a command's targets are.
type placeFlags struct {
	nf        nodeFlags
	namespace string
}

func (p *placeFlags) register(cmd *cobra.Command) {
	p.nf.registerScope(cmd)
	cmd.Flags().StringVarP(&p.namespace, "namespace", "n", "default", "namespace of the objects")
}

// targets reads the targets of a command, of which there must be one at least.
func (p *placeFlags) targets(ks kinds, args []string) ([]target, error) {
	kind, out, err := ks.parse(args, p.namespace)
	if err == nil && len(out) == 0 {
		err = fmt.Errorf("name one or more %s: %s/NAME", kind.plural, strings.ToLower(string(kind.Kind)))
	}
	if err != nil {
		return nil, exit(exitUsage, err)
	}
	return out, nil
}

// stateDir is where the live objects of that node are.
func (p *placeFlags) stateDir() string { return p.nf.scope().stateDir }

// noteKeeper says when nobody is there to act on what a command has changed.
func (p *placeFlags) noteKeeper(cmd *cobra.Command) {
	if _, held := p.keeper(); !held {
		fmt.Fprintf(cmd.ErrOrStderr(), "note: no 'toyproxy run' keeps this node now: it takes effect with the next %s\n", p.syncLine())
	}
}

// syncLine is the command that puts in force what was changed.
func (p *placeFlags) syncLine() string {
	last := state.ReadLast(p.stateDir())
	return "'" + strings.TrimSpace("sudo toyproxy sync "+last.Arguments) + "'"
}

// keeper names the process that works on the node, if there is one.
func (p *placeFlags) keeper() (string, bool) {
	id, err := podnet.NamespaceID()
	if name := p.nf.netns.value; name != "" {
		var st unix.Stat_t
		err = unix.Stat(filepath.Join(podnet.DefaultNetnsDir, name), &st)
		id = st.Ino
	}
	if err != nil {
		return "", false
	}
	return state.Holder(nodeLock(id))
}

// changeWorkload changes a live workload, between the passes of whoever keeps it.
func changeWorkload(stateDir string, t target, change func(metav1.Object) error) error {
	w := state.OpenWorkloads(stateDir)
	switch t.Kind {
	case cluster.Deployment:
		return changeIn(w.Deployments, t, change)
	case cluster.ReplicaSet:
		return changeIn(w.ReplicaSets, t, change)
	case cluster.StatefulSet:
		return changeIn(w.StatefulSets, t, change)
	}
	return changeIn(w.DaemonSets, t, change)
}

func changeIn[T apply.Workload[T]](dir state.Dir[T], t target, change func(metav1.Object) error) error {
	if _, err := dir.Load(t.NamespacedName); errors.Is(err, fs.ErrNotExist) {
		return t.notFound()
	}
	var failed error
	err := dir.Update(t.NamespacedName, func(old T, exists bool) (T, bool) {
		if !exists {
			failed = t.notFound()
			return old, false
		}
		next := old.DeepCopy()
		if failed = change(next); failed != nil {
			return old, false
		}
		apply.CountGeneration(old, next)
		return next, true
	})
	return cmp.Or(failed, mayNotWrite(err))
}

// mayNotWrite makes an error say who may, when that is what is wrong.
func mayNotWrite(err error) error {
	if errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0 {
		return exit(exitNeedsRoot, fmt.Errorf("this needs root, whose objects they are (%w): run it with sudo", err))
	}
	return err
}

// readLive reads one live object of any kind; fs.ErrNotExist when there is none.
func readLive(stateDir string, t target) (metav1.Object, error) {
	w := state.OpenWorkloads(stateDir)
	switch t.Kind {
	case cluster.Deployment:
		return w.Deployments.Load(t.NamespacedName)
	case cluster.ReplicaSet:
		return w.ReplicaSets.Load(t.NamespacedName)
	case cluster.StatefulSet:
		return w.StatefulSets.Load(t.NamespacedName)
	case cluster.DaemonSet:
		return w.DaemonSets.Load(t.NamespacedName)
	case cluster.Pod:
		if p, err := state.OpenPods(stateDir).Load(t.NamespacedName); err == nil {
			return p, nil
		}
	}
	for _, obj := range readLiveOf(stateDir, t) {
		if obj.GetName() == t.Name && obj.GetNamespace() == t.Namespace {
			return obj, nil
		}
	}
	return nil, fmt.Errorf("%w: %w", t.notFound(), fs.ErrNotExist)
}

// readLiveOf reads all live objects of a target's kind.
func readLiveOf(stateDir string, t target) []metav1.Object {
	objs, _ := state.OpenLive(stateDir).Read() // damaged ones are told by get
	var out []metav1.Object
	for _, e := range cluster.NewStore().Replace(objs) {
		if e.Object.Kind == t.Kind {
			out = append(out, e.New)
		}
	}
	return out
}

// nodeLock is the file that whoever works on a network namespace locks.
func nodeLock(id uint64) string { return fmt.Sprintf("%s/nodes/net-%d", defaultStateDir, id) }
