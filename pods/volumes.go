package pods

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// volume is a volume of the Pod that is there.
type volume struct {
	path string
	// host: it is the node's, not the Pod's.
	host bool
	// api: its files are made from objects, by payload, and follow them.
	api      bool
	payload  func() (payload, error)
	readOnly bool
}

// volume returns a volume of the Pod, and makes it when it is asked for first. One
// that could not be made is tried again the next time.
func (w *world) volume(name string) (*volume, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if v := w.volumes[name]; v != nil {
		return v, nil
	}
	for _, spec := range w.pod.Spec.Volumes {
		if spec.Name != name {
			continue
		}
		v, err := w.makeVolume(spec)
		if err == nil {
			w.volumes[name] = v
		}
		return v, err
	}
	return nil, errors.New("spec.volumes has none of this name")
}

func (w *world) makeVolume(spec corev1.Volume) (*volume, error) {
	dir := filepath.Join(w.dir, "volumes", spec.Name)
	switch {
	case spec.EmptyDir != nil:
		return &volume{path: dir}, w.makeEmptyDir(dir, spec.EmptyDir)
	case spec.HostPath != nil:
		return &volume{path: spec.HostPath.Path, host: true}, checkHostPath(spec.HostPath)
	}
	files := w.payloadOf(spec)
	if files == nil {
		return nil, errors.New("volumes of this kind are not supported: use emptyDir, hostPath, configMap, secret, downwardAPI or projected")
	}
	v := &volume{path: dir, api: true, payload: files, readOnly: true}
	content, err := files()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if err := content.write(dir, w.fsGroup()); err != nil {
		return nil, err
	}
	w.followObjects()
	return v, nil
}

// makeEmptyDir makes a directory in the Pod's file system, or a file system of its
// own for one with a size or of medium Memory. All lie in memory: they end with
// the Pod, and nobody else sees them.
func (w *world) makeEmptyDir(dir string, spec *corev1.EmptyDirVolumeSource) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	limited := spec.SizeLimit != nil && !spec.SizeLimit.IsZero()
	if spec.Medium == corev1.StorageMediumMemory || limited {
		if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, sizeOption(spec.SizeLimit)); err != nil {
			return fmt.Errorf("mount: %w", err)
		}
	}
	mode := fs.FileMode(0o777)
	if g := w.fsGroup(); g >= 0 {
		mode |= fs.ModeSetgid
		if err := os.Chown(dir, -1, g); err != nil {
			return err
		}
	}
	return os.Chmod(dir, mode)
}

// sizeOption is the mount option of a tmpfs for a limit, which may be nil.
func sizeOption(limit *resource.Quantity) string {
	if limit == nil || limit.IsZero() {
		return ""
	}
	return "size=" + strconv.FormatInt(limit.Value(), 10)
}

// fsGroup is the group that volumes belong to, less than 0 when none is asked for.
func (w *world) fsGroup() int {
	if s := w.pod.Spec.SecurityContext; s != nil && s.FSGroup != nil {
		return int(*s.FSGroup)
	}
	return -1
}

// checkHostPath does what the type of a hostPath asks for: checks what is there,
// or makes it.
func checkHostPath(spec *corev1.HostPathVolumeSource) error {
	kind := corev1.HostPathUnset
	if spec.Type != nil {
		kind = *spec.Type
	}
	st, err := os.Stat(spec.Path)
	if errors.Is(err, fs.ErrNotExist) {
		switch kind {
		case corev1.HostPathDirectoryOrCreate:
			return os.MkdirAll(spec.Path, 0o755)
		case corev1.HostPathFileOrCreate:
			f, err := os.OpenFile(spec.Path, os.O_CREATE|os.O_WRONLY, 0o644) // in a directory that is there
			if err != nil {
				return err
			}
			return f.Close()
		case corev1.HostPathUnset:
			return fmt.Errorf("hostPath %s is not there: make it, or say type: DirectoryOrCreate", spec.Path)
		}
	}
	if err != nil {
		return fmt.Errorf("hostPath type check failed: %s is not a %s: %w", spec.Path, kind, errors.Unwrap(err))
	}
	return checkHostPathType(spec.Path, kind, st.Mode())
}

func checkHostPathType(path string, kind corev1.HostPathType, mode fs.FileMode) error {
	fits := map[corev1.HostPathType]bool{
		corev1.HostPathUnset:             true,
		corev1.HostPathDirectory:         mode.IsDir(),
		corev1.HostPathDirectoryOrCreate: mode.IsDir(),
		corev1.HostPathFile:              mode.IsRegular(),
		corev1.HostPathFileOrCreate:      mode.IsRegular(),
		corev1.HostPathSocket:            mode&fs.ModeSocket != 0,
		corev1.HostPathCharDev:           mode&fs.ModeCharDevice != 0,
		corev1.HostPathBlockDev:          mode&fs.ModeDevice != 0 && mode&fs.ModeCharDevice == 0,
	}[kind]
	if !fits {
		return fmt.Errorf("hostPath type check failed: %s is not a %s", path, kind)
	}
	return nil
}
