package manifest

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checkVolumes validates the volumes of a Pod of the kinds that are acted on, and
// what its containers mount of them.
func checkVolumes(spec *corev1.PodSpec, path *field.Path) (errs field.ErrorList) {
	names := map[string]bool{}
	for i := range spec.Volumes {
		v, at := &spec.Volumes[i], path.Child("volumes").Index(i)
		if v.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
		} else {
			errs = append(errs, invalid(at.Child("name"), v.Name, validation.IsDNS1123Label(v.Name))...)
			errs = append(errs, seenBefore(names, v.Name, at.Child("name"), v.Name)...)
		}
		errs = append(errs, checkVolumeSource(&v.VolumeSource, at)...)
	}
	for i := range spec.InitContainers {
		errs = append(errs, checkMounts(&spec.InitContainers[i], names, path.Child("initContainers").Index(i))...)
	}
	for i := range spec.Containers {
		errs = append(errs, checkMounts(&spec.Containers[i], names, path.Child("containers").Index(i))...)
	}
	return errs
}

// oneSource collects the errors of what has to be of one kind alone.
type oneSource struct {
	path  *field.Path
	found int
	errs  field.ErrorList
}

// check checks a kind, if it is given.
func (o *oneSource) check(given bool, name string, f func(*field.Path) field.ErrorList) {
	if !given {
		return
	}
	if o.found++; o.found > 1 {
		o.errs = append(o.errs, field.Forbidden(o.path.Child(name), "may not specify more than 1 volume type"))
		return
	}
	o.errs = append(o.errs, f(o.path.Child(name))...)
}

func checkVolumeSource(v *corev1.VolumeSource, path *field.Path) field.ErrorList {
	o := oneSource{path: path}
	o.check(v.EmptyDir != nil, "emptyDir", func(p *field.Path) field.ErrorList { return checkEmptyDir(v.EmptyDir, p) })
	o.check(v.HostPath != nil, "hostPath", func(p *field.Path) field.ErrorList { return checkHostPath(v.HostPath, p) })
	o.check(v.Secret != nil, "secret", func(p *field.Path) field.ErrorList {
		return lists(required(v.Secret.SecretName, p.Child("secretName")), checkMode(v.Secret.DefaultMode, p.Child("defaultMode")), checkItems(v.Secret.Items, p.Child("items")))
	})
	o.check(v.ConfigMap != nil, "configMap", func(p *field.Path) field.ErrorList {
		return lists(required(v.ConfigMap.Name, p.Child("name")), checkMode(v.ConfigMap.DefaultMode, p.Child("defaultMode")), checkItems(v.ConfigMap.Items, p.Child("items")))
	})
	o.check(v.DownwardAPI != nil, "downwardAPI", func(p *field.Path) field.ErrorList {
		return append(checkMode(v.DownwardAPI.DefaultMode, p.Child("defaultMode")), checkDownwardFiles(v.DownwardAPI.Items, p)...)
	})
	o.check(v.Projected != nil, "projected", func(p *field.Path) field.ErrorList { return checkProjected(v.Projected, p) })
	return o.errs
}

func required(value string, path *field.Path) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return nil
}

func checkEmptyDir(v *corev1.EmptyDirVolumeSource, path *field.Path) (errs field.ErrorList) {
	if v.SizeLimit != nil && v.SizeLimit.Sign() < 0 {
		errs = append(errs, field.Forbidden(path.Child("sizeLimit"), "SizeLimit field must be a valid resource quantity"))
	}
	return errs
}

func checkHostPath(v *corev1.HostPathVolumeSource, path *field.Path) field.ErrorList {
	if v.Path == "" {
		return field.ErrorList{field.Required(path.Child("path"), "")}
	}
	errs := noBackstep(v.Path, path.Child("path"))
	return append(errs, oneOf(path.Child("type"), *v.Type, corev1.HostPathUnset, corev1.HostPathDirectoryOrCreate, corev1.HostPathDirectory,
		corev1.HostPathFileOrCreate, corev1.HostPathFile, corev1.HostPathSocket, corev1.HostPathCharDev, corev1.HostPathBlockDev)...)
}

// noBackstep refuses a path with an element "..".
func noBackstep(p string, path *field.Path) field.ErrorList {
	if slices.Contains(strings.Split(p, "/"), "..") {
		return field.ErrorList{field.Invalid(path, p, "must not contain '..'")}
	}
	return nil
}

// checkInside wants a path that stays inside a volume.
func checkInside(p string, at *field.Path) (errs field.ErrorList) {
	if path.IsAbs(p) {
		errs = append(errs, field.Invalid(at, p, "must be a relative path"))
	}
	return append(errs, noBackstep(p, at)...)
}

// checkFilePath wants a name for a file of a volume that is made from objects; those
// with two dots in front are the volume's own.
func checkFilePath(p string, at *field.Path) field.ErrorList {
	errs := checkInside(p, at)
	if strings.HasPrefix(p, "..") && len(errs) == 0 {
		errs = append(errs, field.Invalid(at, p, "must not start with '..'"))
	}
	return errs
}

func checkMode(mode *int32, path *field.Path) field.ErrorList {
	const text = "must be a number between 0 and 0777 (octal), both inclusive"
	if mode != nil && (*mode < 0 || *mode > 0o777) {
		return field.ErrorList{field.Invalid(path, *mode, text)}
	}
	return nil
}

func checkItems(items []corev1.KeyToPath, path *field.Path) (errs field.ErrorList) {
	for i, item := range items {
		at := path.Index(i)
		errs = append(errs, required(item.Key, at.Child("key"))...)
		if item.Path == "" {
			errs = append(errs, field.Required(at.Child("path"), ""))
		} else {
			errs = append(errs, checkFilePath(item.Path, at.Child("path"))...)
		}
		errs = append(errs, checkMode(item.Mode, at.Child("mode"))...)
	}
	return errs
}

func checkDownwardFiles(items []corev1.DownwardAPIVolumeFile, path *field.Path) (errs field.ErrorList) {
	fields := sets.New("metadata.name", "metadata.namespace", "metadata.labels", "metadata.annotations", "metadata.uid")
	for i := range items {
		item, at := &items[i], path
		if item.Path == "" {
			errs = append(errs, field.Required(at.Child("path"), ""))
		} else {
			errs = append(errs, checkFilePath(item.Path, at.Child("path"))...)
		}
		switch {
		case item.FieldRef != nil && item.ResourceFieldRef != nil:
			errs = append(errs, field.Invalid(at, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously"))
		case item.FieldRef != nil:
			errs = append(errs, checkFieldRef(item.FieldRef, fields, at.Child("fieldRef"))...)
		case item.ResourceFieldRef != nil:
			errs = append(errs, checkResourceRef(item.ResourceFieldRef, true, at.Child("resourceFieldRef"))...)
		default:
			errs = append(errs, field.Required(at, "one of fieldRef and resourceFieldRef is required"))
		}
		errs = append(errs, checkMode(item.Mode, at.Child("mode"))...)
	}
	return errs
}

func checkProjected(v *corev1.ProjectedVolumeSource, path *field.Path) field.ErrorList {
	errs := checkMode(v.DefaultMode, path.Child("defaultMode"))
	paths := map[string]bool{}
	for i := range v.Sources {
		s := &v.Sources[i]
		o := oneSource{path: path.Child("sources").Index(i)}
		o.check(s.Secret != nil, "secret", func(p *field.Path) field.ErrorList {
			return lists(required(s.Secret.Name, p.Child("name")), checkItems(s.Secret.Items, p.Child("items")), conflicts(paths, s.Secret.Name, s.Secret.Items, path))
		})
		o.check(s.ConfigMap != nil, "configMap", func(p *field.Path) field.ErrorList {
			return lists(required(s.ConfigMap.Name, p.Child("name")), checkItems(s.ConfigMap.Items, p.Child("items")), conflicts(paths, s.ConfigMap.Name, s.ConfigMap.Items, path))
		})
		o.check(s.DownwardAPI != nil, "downwardAPI", func(p *field.Path) field.ErrorList { return checkDownwardFiles(s.DownwardAPI.Items, p) })
		errs = append(errs, o.errs...)
	}
	return errs
}

// conflicts refuses the second file of a path.
func conflicts(seen map[string]bool, name string, items []corev1.KeyToPath, path *field.Path) (errs field.ErrorList) {
	for _, item := range items {
		if item.Path != "" && seen[item.Path] {
			errs = append(errs, field.Invalid(path, name, "conflicting duplicate paths"))
		}
		seen[item.Path] = true
	}
	return errs
}

func checkMounts(c *corev1.Container, volumes map[string]bool, path *field.Path) (errs field.ErrorList) {
	points := map[string]bool{}
	for i, m := range c.VolumeMounts {
		at := path.Child("volumeMounts").Index(i)
		switch {
		case m.Name == "":
			errs = append(errs, field.Required(at.Child("name"), ""))
		case !volumes[m.Name]:
			errs = append(errs, field.NotFound(at.Child("name"), m.Name))
		}
		errs = append(errs, required(m.MountPath, at.Child("mountPath"))...)
		if points[m.MountPath] {
			errs = append(errs, field.Invalid(at.Child("mountPath"), m.MountPath, "must be unique"))
		}
		points[m.MountPath] = true
		errs = append(errs, checkSubPath(&m, at)...)
		if m.MountPropagation != nil {
			if *m.MountPropagation == corev1.MountPropagationBidirectional && !privileged(c) {
				errs = append(errs, field.Forbidden(at.Child("mountPropagation"), "Bidirectional mount propagation is available only to privileged containers"))
			}
			errs = append(errs, oneOf(at.Child("mountPropagation"), *m.MountPropagation, corev1.MountPropagationNone, corev1.MountPropagationHostToContainer, corev1.MountPropagationBidirectional)...)
		}
	}
	return errs
}

func privileged(c *corev1.Container) bool {
	s := c.SecurityContext
	return s != nil && s.Privileged != nil && *s.Privileged
}

func checkSubPath(m *corev1.VolumeMount, path *field.Path) (errs field.ErrorList) {
	if m.SubPath != "" {
		errs = append(errs, checkInside(m.SubPath, path.Child("subPath"))...)
	}
	if m.SubPathExpr == "" {
		return errs
	}
	if m.SubPath != "" {
		errs = append(errs, field.Invalid(path.Child("subPathExpr"), m.SubPathExpr, "subPathExpr and subPath are mutually exclusive"))
	}
	return append(errs, checkInside(m.SubPathExpr, path.Child("subPathExpr"))...)
}

// checkFieldRef wants a field of the downward API that is among the known ones, or
// an entry of labels or annotations.
func checkFieldRef(f *corev1.ObjectFieldSelector, known sets.Set[string], path *field.Path) field.ErrorList {
	if f.FieldPath == "" {
		return field.ErrorList{field.Required(path.Child("fieldPath"), "")}
	}
	name, subscript, ok := strings.Cut(f.FieldPath, "['")
	if key := strings.TrimSuffix(subscript, "']"); ok && key != subscript {
		switch name {
		case "metadata.annotations":
			return invalid(path, key, validation.IsQualifiedName(strings.ToLower(key)))
		case "metadata.labels":
			return invalid(path, key, validation.IsQualifiedName(key))
		}
		return field.ErrorList{field.Invalid(path, name, "does not support subscript")}
	}
	if !known.Has(f.FieldPath) {
		return field.ErrorList{field.NotSupported(path.Child("fieldPath"), f.FieldPath, sets.List(known))}
	}
	return nil
}
