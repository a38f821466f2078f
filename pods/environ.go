package pods

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// environment collects variables; a later one of a name replaces the earlier.
type environment struct {
	vars []string
	at   map[string]int
	// known are those that a spec has set, for $(NAME).
	known map[string]string
}

func (e *environment) set(name, value string) {
	line := name + "=" + value
	if i, ok := e.at[name]; ok {
		e.vars[i] = line
		return
	}
	e.at[name] = len(e.vars)
	e.vars = append(e.vars, line)
}

// containerEnv is the environment of a container: a few basics, what envFrom names,
// then what env says, where a value may use $(NAME) of an earlier one. An entry
// that is missing and not optional is a *ConfigError.
func containerEnv(p *corev1.Pod, c *corev1.Container, objs objects, path string) ([]string, error) {
	e := &environment{at: map[string]int{}, known: map[string]string{}}
	e.set("PATH", cmp.Or(path, standardPath))
	e.set("HOSTNAME", hostname(p))
	e.set("HOME", "/root")
	if runsToyproxy(c) {
		e.set(StateDirVariable, objs.stateDir)
		if objs.domain != "" {
			e.set(DomainVariable, objs.domain)
		}
	}
	for _, from := range c.EnvFrom {
		if err := e.take(from, objs); err != nil {
			return nil, err
		}
	}
	for _, v := range c.Env {
		value, has, err := e.value(p, c, v, objs)
		if err != nil {
			return nil, fmt.Errorf("env %s: %w", v.Name, err)
		}
		if has {
			e.set(v.Name, value)
			e.known[v.Name] = value
		}
	}
	return e.vars, nil
}

// take adds all entries of a ConfigMap or Secret.
func (e *environment) take(from corev1.EnvFromSource, objs objects) error {
	kind, name, optional, get := "ConfigMap", "", (*bool)(nil), objs.configMap
	switch {
	case from.ConfigMapRef != nil:
		name, optional = from.ConfigMapRef.Name, from.ConfigMapRef.Optional
	case from.SecretRef != nil:
		kind, name, optional, get = "Secret", from.SecretRef.Name, from.SecretRef.Optional, objs.secret
	default:
		return nil
	}
	data, exists, err := get(name)
	if err != nil {
		return fmt.Errorf("envFrom: %w", err)
	}
	if !exists && (optional == nil || !*optional) {
		return &ConfigError{fmt.Sprintf("envFrom: %s %q not found: write it into a manifest, or mark the reference optional", kind, name)}
	}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		e.set(from.Prefix+key, string(data[key]))
		e.known[from.Prefix+key] = string(data[key])
	}
	return nil
}

// value is what a variable is set to; false when it is not set at all.
func (e *environment) value(p *corev1.Pod, c *corev1.Container, v corev1.EnvVar, objs objects) (string, bool, error) {
	from := v.ValueFrom
	switch {
	case from == nil:
		return expand(v.Value, e.known), true, nil
	case from.FieldRef != nil:
		return field(p, from.FieldRef.FieldPath), true, nil
	case from.ConfigMapKeyRef != nil:
		r := from.ConfigMapKeyRef
		b, has, err := entry("ConfigMap", r.Name, r.Key, r.Optional != nil && *r.Optional, objs.configMap)
		return string(b), has, err
	case from.SecretKeyRef != nil:
		r := from.SecretKeyRef
		b, has, err := entry("Secret", r.Name, r.Key, r.Optional != nil && *r.Optional, objs.secret)
		return string(b), has, err
	case from.ResourceFieldRef != nil:
		value, err := resourceValue(p, c, from.ResourceFieldRef, nodeCapacity())
		return value, err == nil, err
	}
	return "", false, nil // fileKeyRef: the support table has told
}

// field is a value of the downward API.
func field(p *corev1.Pod, path string) string {
	hosts, own := make([]string, 0, len(p.Status.HostIPs)), make([]string, 0, len(p.Status.PodIPs))
	for _, ip := range p.Status.HostIPs {
		hosts = append(hosts, ip.IP)
	}
	for _, ip := range p.Status.PodIPs {
		own = append(own, ip.IP)
	}
	value, known := map[string]string{
		"metadata.name":           p.Name,
		"metadata.namespace":      p.Namespace,
		"metadata.uid":            string(p.UID),
		"metadata.labels":         pairs(p.Labels),
		"metadata.annotations":    pairs(p.Annotations),
		"spec.nodeName":           p.Spec.NodeName,
		"spec.serviceAccountName": p.Spec.ServiceAccountName,
		"status.hostIP":           p.Status.HostIP,
		"status.hostIPs":          strings.Join(hosts, ","),
		"status.podIP":            p.Status.PodIP,
		"status.podIPs":           strings.Join(own, ","),
	}[path]
	if known {
		return value
	}
	// What is left: metadata.labels['KEY'] and metadata.annotations['KEY'].
	name, entry, _ := strings.Cut(strings.TrimSuffix(path, "']"), "['")
	return map[string]map[string]string{"metadata.labels": p.Labels, "metadata.annotations": p.Annotations}[name][entry]
}

// pairs is how the downward API writes labels and annotations into a file.
func pairs(m map[string]string) string {
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		lines = append(lines, fmt.Sprintf("%s=%q", key, m[key]))
	}
	return strings.Join(lines, "\n")
}

// expand replaces $(NAME) by the value of a known variable. $$ stands for one
// dollar sign, and what names no variable stays as it is, as in Kubernetes.
func expand(s string, known map[string]string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '$' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		if s[i+1] == '$' {
			b.WriteByte('$')
			i++
			continue
		}
		end := strings.IndexByte(s[i:], ')')
		if s[i+1] != '(' || end < 0 {
			b.WriteByte('$')
			continue
		}
		if v, ok := known[s[i+2:i+end]]; ok {
			b.WriteString(v)
		} else {
			b.WriteString(s[i : i+end+1])
		}
		i += end
	}
	return b.String()
}

// envMap is an environment by name.
func envMap(env []string) map[string]string {
	known := make(map[string]string, len(env))
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		known[name] = value
	}
	return known
}

// argv is the command line of a container that has a command.
func argv(c corev1.Container, env []string) []string {
	known := envMap(env)
	var out []string
	for _, s := range append(slices.Clone(c.Command), c.Args...) {
		out = append(out, expand(s, known))
	}
	return out
}
