package pods

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
)

// hostname is what the Pod's processes see as theirs: spec.hostname, else the
// Pod's name, cut to what the kernel takes.
func hostname(p *corev1.Pod) string {
	const most = 63
	h := cmp.Or(p.Spec.Hostname, p.Name)
	if len(h) > most {
		h = strings.TrimRight(h[:most], "-.")
	}
	return h
}

// environ is the environment of a container: a few basics, then what its spec
// says, where a value may use $(NAME) of an earlier one. Values from ConfigMaps
// and Secrets are left out: there are none here.
func environ(p *corev1.Pod, c corev1.Container, path string) []string {
	vars := []corev1.EnvVar{{Name: "PATH", Value: path}, {Name: "HOSTNAME", Value: hostname(p)}, {Name: "HOME", Value: "/root"}}
	known := map[string]string{}
	for _, e := range c.Env {
		switch {
		case e.ValueFrom == nil:
			vars = append(vars, corev1.EnvVar{Name: e.Name, Value: expand(e.Value, known)})
		case e.ValueFrom.FieldRef != nil:
			vars = append(vars, corev1.EnvVar{Name: e.Name, Value: field(p, e.ValueFrom.FieldRef.FieldPath)})
		default:
			continue
		}
		known[e.Name] = vars[len(vars)-1].Value
	}
	// The last of one name counts, as in a shell.
	at := map[string]int{}
	var out []string
	for _, e := range vars {
		if i, ok := at[e.Name]; ok {
			out[i] = e.Name + "=" + e.Value
			continue
		}
		at[e.Name] = len(out)
		out = append(out, e.Name+"="+e.Value)
	}
	return out
}

// field is a value of the downward API.
func field(p *corev1.Pod, path string) string {
	switch path {
	case "metadata.name":
		return p.Name
	case "metadata.namespace":
		return p.Namespace
	case "metadata.uid":
		return string(p.UID)
	case "spec.nodeName":
		return p.Spec.NodeName
	case "spec.serviceAccountName":
		return p.Spec.ServiceAccountName
	case "status.hostIP":
		return p.Status.HostIP
	case "status.podIP":
		return p.Status.PodIP
	case "status.podIPs":
		var ips []string
		for _, ip := range p.Status.PodIPs {
			ips = append(ips, ip.IP)
		}
		return strings.Join(ips, ",")
	}
	// What is left: metadata.labels['KEY'] and metadata.annotations['KEY'].
	name, entry, _ := strings.Cut(strings.TrimSuffix(path, "']"), "['")
	return map[string]map[string]string{"metadata.labels": p.Labels, "metadata.annotations": p.Annotations}[name][entry]
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

// argv is the command line of a container that has a command.
func argv(c corev1.Container, env []string) []string {
	known := map[string]string{}
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		known[name] = value
	}
	var out []string
	for _, s := range append(append([]string(nil), c.Command...), c.Args...) {
		out = append(out, expand(s, known))
	}
	return out
}

// lookUp finds the program of a container: by the PATH of the container, not of
// the process that starts it, and from the container's working directory.
func lookUp(program string, env []string, dir string) (string, error) {
	if strings.Contains(program, "/") {
		path := within(dir, program)
		if err := executable(path); err != nil {
			return "", fmt.Errorf("program not found on this host: %s: %w", path, err)
		}
		return path, nil
	}
	var list string
	for _, e := range env {
		if value, ok := strings.CutPrefix(e, "PATH="); ok {
			list = value
		}
	}
	for _, d := range filepath.SplitList(list) {
		if path := within(dir, filepath.Join(cmp.Or(d, "."), program)); executable(path) == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("program not found on this host: there is no %q in PATH %s: install it, or write its whole path", program, list)
}

// within is a path as seen from a directory.
func within(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// executable tells why a file is no program, or nil.
func executable(path string) error {
	st, err := os.Stat(path)
	var inner *fs.PathError
	switch {
	case errors.As(err, &inner):
		return inner.Err
	case err != nil:
		return err
	case st.IsDir():
		return syscall.EISDIR
	case st.Mode()&0o111 == 0:
		return errors.New("is not executable: chmod +x")
	}
	return nil
}

// checkWorkingDir names a directory that is missing: the kernel's answer names
// the program instead.
func checkWorkingDir(dir string) error {
	st, err := os.Stat(dir)
	var inner *fs.PathError
	switch {
	case errors.As(err, &inner):
		return fmt.Errorf("workingDir %s: %w: make the directory on this host, or choose another", dir, inner.Err)
	case err == nil && !st.IsDir():
		return fmt.Errorf("workingDir %s is no directory: choose another", dir)
	}
	return err
}

// startError says what the kernel means by a program that is there and does not
// exist.
func startError(cmd *exec.Cmd, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is there, but not the interpreter that its first line or its header names", cmd.Path)
	}
	return err
}

// standInArgs is the command line of a stand-in. Its name is not that of this
// program, so that those who end toyproxy by name do not end containers.
func standInArgs(p *corev1.Pod, c corev1.Container) []string {
	args := []string{StandInName, "--pod", p.Name}
	for _, ip := range p.Status.PodIPs {
		args = append(args, "--address", ip.IP)
	}
	seen := map[string]bool{}
	for _, port := range c.Ports {
		s := strconv.Itoa(int(port.ContainerPort)) + "/" + string(cmp.Or(port.Protocol, corev1.ProtocolTCP))
		if !seen[s] {
			args = append(args, "--port", s)
		}
		seen[s] = true
	}
	return args
}

// tcpPorts are the TCP ports that a container declares.
func tcpPorts(c corev1.Container) []uint16 {
	var out []uint16
	for _, p := range c.Ports {
		if p.Protocol == corev1.ProtocolTCP || p.Protocol == "" {
			out = append(out, uint16(p.ContainerPort))
		}
	}
	return out
}

// listening returns the TCP ports that something listens on in the network
// namespace of this process.
func listening() map[uint16]bool {
	const listen = "0A" // TCP_LISTEN in include/net/tcp_states.h
	out := map[uint16]bool{}
	for _, file := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		b, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			if len(f) < 4 || f[3] != listen {
				continue
			}
			port, err := strconv.ParseUint(f[1][strings.LastIndexByte(f[1], ':')+1:], 16, 16)
			if err == nil {
				out[uint16(port)] = true
			}
		}
	}
	return out
}
