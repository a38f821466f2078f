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

// ProgramName as the first word of a command means this program itself, whatever
// the PATH has: that which the Pod was started by, until the Pod is made anew.
const ProgramName = "toyproxy"

// StateDirVariable names the node's state directory in the environment of a
// container whose command is ProgramName: it sees the live objects, and may write
// their status, where others see none of it.
const StateDirVariable = "TOYPROXY_STATE_DIR"

// DomainVariable names there the zone of cluster DNS: what the Pods of the node search
// is what a server in one of them answers for.
const DomainVariable = "TOYPROXY_CLUSTER_DOMAIN"

func runsToyproxy(c *corev1.Container) bool { return len(c.Command) > 0 && c.Command[0] == ProgramName }

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
