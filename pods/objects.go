package pods

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster/state"
)

// objects are the ConfigMaps and Secrets that a Pod may use: those of its
// namespace, as they are kept in the state directory now.
type objects struct {
	stateDir, namespace string
	// domain is the zone of cluster DNS; empty when it is not known.
	domain string
}

func (w *world) objects() objects { return objects{w.stateDir, w.pod.Namespace, w.node.Domain} }

// configMap returns the entries of a ConfigMap; false when there is none.
func (o objects) configMap(name string) (map[string][]byte, bool, error) {
	dir := state.Open(o.stateDir, "configmaps", func() *corev1.ConfigMap { return &corev1.ConfigMap{} })
	cm, err := dir.Load(types.NamespacedName{Namespace: o.namespace, Name: name})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("ConfigMap %s/%s: %w", o.namespace, name, err)
	}
	data := maps.Clone(cm.BinaryData)
	if data == nil {
		data = map[string][]byte{}
	}
	for key, value := range cm.Data {
		data[key] = []byte(value)
	}
	return data, true, nil
}

// secret returns the entries of a Secret; false when there is none.
func (o objects) secret(name string) (map[string][]byte, bool, error) {
	dir := state.Open(o.stateDir, "secrets", func() *corev1.Secret { return &corev1.Secret{} })
	s, err := dir.Load(types.NamespacedName{Namespace: o.namespace, Name: name})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("Secret %s/%s: %w", o.namespace, name, err)
	}
	data := maps.Clone(s.Data)
	if data == nil {
		data = map[string][]byte{}
	}
	for key, value := range s.StringData {
		data[key] = []byte(value)
	}
	return data, true, nil
}

// pod returns the Pod's object as it is kept now, for labels and annotations that
// have changed since it was started.
func (o objects) pod(started *corev1.Pod) *corev1.Pod {
	now, err := state.OpenPods(o.stateDir).Load(types.NamespacedName{Namespace: started.Namespace, Name: started.Name})
	if err != nil {
		return started
	}
	p := started.DeepCopy()
	p.Labels, p.Annotations = now.Labels, now.Annotations
	return p
}

// stamp changes whenever a file does that objects of these volumes lie in.
func stamp(stateDir string, volumes []corev1.Volume) string {
	dirs := []string{"configmaps", "secrets"}
	if slices.ContainsFunc(volumes, func(v corev1.Volume) bool { return v.DownwardAPI != nil || v.Projected != nil }) {
		dirs = append(dirs, "pods") // which change more often
	}
	var out string
	for _, dir := range dirs {
		st, err := os.Stat(filepath.Join(stateDir, dir))
		if err == nil {
			out += fmt.Sprint(st.ModTime().UnixNano(), " ")
		}
	}
	return out
}

// ConfigError tells that a container names a ConfigMap, a Secret or an entry that is
// not there: it may be there later. Its reason is Kubernetes' word for it.
type ConfigError struct {
	// Message names the object.
	Message string
}

// Error is the message.
func (e *ConfigError) Error() string { return e.Message }

// reasonConfig is the reason of a container that waits for what it names.
const reasonConfig = "CreateContainerConfigError"

// startReason is the reason of a container that has no process for an error.
func startReason(err error) string {
	var missing *ConfigError
	if errors.As(err, &missing) {
		return reasonConfig
	}
	return reasonStartError
}

// entry returns one entry of an object; false when it is optional and not there.
func entry(kind, name, key string, optional bool, get func(string) (map[string][]byte, bool, error)) ([]byte, bool, error) {
	data, exists, err := get(name)
	if err != nil {
		return nil, false, err
	}
	value, has := data[key]
	switch {
	case has:
		return value, true, nil
	case optional:
		return nil, false, nil
	case !exists:
		return nil, false, &ConfigError{fmt.Sprintf("%s %q not found: write it into a manifest, or mark the reference optional", kind, name)}
	}
	return nil, false, &ConfigError{fmt.Sprintf("%s %q has no key %q; it has %q", kind, name, key, slices.Sorted(maps.Keys(data)))}
}
