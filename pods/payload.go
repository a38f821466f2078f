package pods

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// payload is what a volume that is made from objects holds, by path.
type payload map[string]payloadFile

type payloadFile struct {
	data []byte
	mode fs.FileMode
}

// followEvery is how often the objects behind volumes are looked at.
const followEvery = time.Second

// payloadOf returns the function that makes the files of a volume, nil for a
// volume of another kind.
func (w *world) payloadOf(spec corev1.Volume) func() (payload, error) {
	switch {
	case spec.ConfigMap != nil:
		s := spec.ConfigMap
		return func() (payload, error) {
			return keysOf("ConfigMap", s.Name, s.Items, s.DefaultMode, isTrue(s.Optional), w.objects().configMap)
		}
	case spec.Secret != nil:
		s := spec.Secret
		return func() (payload, error) {
			return keysOf("Secret", s.SecretName, s.Items, s.DefaultMode, isTrue(s.Optional), w.objects().secret)
		}
	case spec.DownwardAPI != nil:
		s := spec.DownwardAPI
		return func() (payload, error) { return downward(w.objects().pod(w.pod), s.Items, s.DefaultMode) }
	case spec.Projected != nil:
		s := spec.Projected
		return func() (payload, error) { return w.projected(s) }
	}
	return nil
}

func isTrue(b *bool) bool { return b != nil && *b }

// fileMode is the mode of a file: its own, else the volume's, else 0644.
func fileMode(own, byDefault *int32) fs.FileMode {
	for _, m := range []*int32{own, byDefault} {
		if m != nil {
			return fs.FileMode(*m) & fs.ModePerm
		}
	}
	return fs.FileMode(corev1.ConfigMapVolumeSourceDefaultMode)
}

// keysOf makes a file of each entry of an object, or of those that items name.
func keysOf(kind, name string, items []corev1.KeyToPath, mode *int32, optional bool, get func(string) (map[string][]byte, bool, error)) (payload, error) {
	data, exists, err := get(name)
	if err != nil {
		return nil, err
	}
	if !exists && !optional {
		return nil, &ConfigError{fmt.Sprintf("%s %q not found: write it into a manifest, or mark the volume optional", kind, name)}
	}
	out := payload{}
	if len(items) == 0 {
		for key, value := range data {
			out[key] = payloadFile{value, fileMode(nil, mode)}
		}
	}
	for _, item := range items {
		value, has := data[item.Key]
		if !has && !optional {
			return nil, &ConfigError{fmt.Sprintf("%s %q has no key %q; it has %q", kind, name, item.Key, slices.Sorted(maps.Keys(data)))}
		}
		if has {
			out[filepath.Clean(item.Path)] = payloadFile{value, fileMode(item.Mode, mode)}
		}
	}
	return out, nil
}

// downward makes files of fields of the Pod and of resources of its containers.
func downward(p *corev1.Pod, items []corev1.DownwardAPIVolumeFile, mode *int32) (payload, error) {
	out := payload{}
	for _, item := range items {
		var value string
		switch {
		case item.FieldRef != nil:
			value = field(p, item.FieldRef.FieldPath)
		case item.ResourceFieldRef != nil:
			var err error
			if value, err = resourceValue(p, nil, item.ResourceFieldRef, nodeCapacity()); err != nil {
				return nil, err
			}
		}
		out[filepath.Clean(item.Path)] = payloadFile{[]byte(value), fileMode(item.Mode, mode)}
	}
	return out, nil
}

// projected joins the files of several sources; of one path the last counts.
func (w *world) projected(spec *corev1.ProjectedVolumeSource) (payload, error) {
	out := payload{}
	for _, s := range spec.Sources {
		var files payload
		var err error
		switch {
		case s.ConfigMap != nil:
			files, err = keysOf("ConfigMap", s.ConfigMap.Name, s.ConfigMap.Items, spec.DefaultMode, isTrue(s.ConfigMap.Optional), w.objects().configMap)
		case s.Secret != nil:
			files, err = keysOf("Secret", s.Secret.Name, s.Secret.Items, spec.DefaultMode, isTrue(s.Secret.Optional), w.objects().secret)
		case s.DownwardAPI != nil:
			files, err = downward(w.objects().pod(w.pod), s.DownwardAPI.Items, spec.DefaultMode)
		default:
			return nil, errors.New("projected: only configMap, secret and downwardAPI are supported: there is no API server to issue tokens")
		}
		if err != nil {
			return nil, err
		}
		maps.Copy(out, files)
	}
	return out, nil
}

// The names that a volume made from objects holds beside its files, as the kubelet
// lays them out: readers see all files change at one moment, when dataLink does.
const (
	dataLink = "..data"
	dataNext = "..data_tmp"
)

// write makes a volume's directory hold exactly these files. Whoever has a file
// open keeps what it read; whoever opens one sees all the old or all the new.
func (p payload) write(dir string, group int) error {
	old, err := os.Readlink(filepath.Join(dir, dataLink))
	if err == nil && p.same(filepath.Join(dir, old)) {
		return nil
	}
	next, err := os.MkdirTemp(dir, ".."+time.Now().UTC().Format("2006_01_02_15_04_05."))
	if err != nil {
		return err
	}
	if err := errors.Join(os.Chmod(next, 0o755), p.fill(next, group)); err != nil {
		return errors.Join(err, os.RemoveAll(next))
	}
	_ = os.Remove(filepath.Join(dir, dataNext))
	if err := os.Symlink(filepath.Base(next), filepath.Join(dir, dataNext)); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(dir, dataNext), filepath.Join(dir, dataLink)); err != nil {
		return err
	}
	if err := p.link(dir); err != nil {
		return err
	}
	if old != "" {
		return os.RemoveAll(filepath.Join(dir, old))
	}
	return nil
}

// fill writes the files.
func (p payload) fill(dir string, group int) error {
	for path, f := range p {
		at := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		mode := f.mode
		if group >= 0 {
			mode |= 0o040 // what fsGroup is for
		}
		if err := errors.Join(os.WriteFile(at, f.data, 0o600), os.Chown(at, -1, group), os.Chmod(at, mode)); err != nil {
			return err
		}
	}
	return nil
}

// link makes the names that readers use, and removes those of files that went.
func (p payload) link(dir string) error {
	want := map[string]bool{}
	for path := range p {
		top, _, _ := strings.Cut(path, "/")
		want[top] = true
	}
	names, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		if !strings.HasPrefix(n.Name(), "..") && !want[n.Name()] {
			if err := os.Remove(filepath.Join(dir, n.Name())); err != nil {
				return err
			}
		}
	}
	for name := range want {
		err := os.Symlink(filepath.Join(dataLink, name), filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// same tells whether a directory holds these files already.
func (p payload) same(dir string) bool {
	found := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		have, err := os.ReadFile(path)
		if f, ok := p[name]; err != nil || !ok || !bytes.Equal(have, f.data) {
			return errors.Join(err, fs.ErrInvalid)
		}
		found++
		return nil
	})
	return err == nil && found == len(p)
}

// followObjects starts, once, a goroutine that keeps volumes as their objects are.
// It ends with the pause process. Called with mu held.
func (w *world) followObjects() {
	if w.following {
		return
	}
	w.following = true
	last := stamp(w.stateDir, w.pod.Spec.Volumes)
	go func() {
		for range time.Tick(followEvery) {
			if now := stamp(w.stateDir, w.pod.Spec.Volumes); now != last {
				last = now
				w.refresh()
			}
		}
	}()
}

// refresh writes the files of volumes whose objects have changed. One whose object
// is gone keeps its last files, as in Kubernetes.
func (w *world) refresh() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, v := range w.volumes {
		if !v.api {
			continue
		}
		files, err := v.payload()
		if err == nil {
			err = files.write(v.path, w.fsGroup())
		}
		var missing *ConfigError
		if err != nil && !errors.As(err, &missing) {
			w.remark("volume %s is not refreshed: %v", name, err)
		}
	}
}
