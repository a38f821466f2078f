package pods

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// identity is who the processes of a container are. Nil numbers are root, as
// nothing says who an image would run as.
type identity struct {
	user, group *int64
	extra       []int64
	nonRoot     bool
	// noNew: no program gives more rights than its caller has.
	noNew bool
	// drop and add are capabilities by name, "ALL" among them.
	drop, add []corev1.Capability
}

// identityOf joins the security contexts of Pod and container, whose own counts
// more. Pure.
func identityOf(p *corev1.Pod, c *corev1.Container) identity {
	var id identity
	if s := p.Spec.SecurityContext; s != nil {
		id.user, id.group, id.nonRoot = s.RunAsUser, s.RunAsGroup, isTrue(s.RunAsNonRoot)
		id.extra = slices.Clone(s.SupplementalGroups)
		if s.FSGroup != nil {
			id.extra = append(id.extra, *s.FSGroup)
		}
	}
	s := c.SecurityContext
	if s == nil {
		return id
	}
	if s.RunAsUser != nil {
		id.user = s.RunAsUser
	}
	if s.RunAsGroup != nil {
		id.group = s.RunAsGroup
	}
	if s.RunAsNonRoot != nil {
		id.nonRoot = *s.RunAsNonRoot
	}
	id.noNew = s.AllowPrivilegeEscalation != nil && !*s.AllowPrivilegeEscalation
	if s.Capabilities != nil {
		id.drop, id.add = s.Capabilities.Drop, s.Capabilities.Add
	}
	return id
}

// become has a command run as its container's user, with no more rights than that
// has. It is called on a thread in the container's root that is thrown away: what
// is given up is never had again.
func become(p *corev1.Pod, c *corev1.Container, cmd *exec.Cmd) error {
	id := identityOf(p, c)
	if id.nonRoot && (id.user == nil || *id.user == 0) {
		return &ConfigError{"container has runAsNonRoot and would run as root: set securityContext.runAsUser"}
	}
	if id.user != nil || id.group != nil || len(id.extra) > 0 {
		cred, home := id.credential()
		cmd.SysProcAttr.Credential = cred
		if id.user != nil && !slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "HOME" }) {
			cmd.Env = append(slices.DeleteFunc(slices.Clone(cmd.Env), func(s string) bool { return strings.HasPrefix(s, "HOME=") }), "HOME="+home)
		}
	}
	return id.giveUp()
}

// giveUp gives up, on the calling thread, what the container is not to have.
func (id identity) giveUp() error {
	for _, number := range id.lost() {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(number), 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("giving up capability %d: %w", number, err)
		}
	}
	if id.noNew {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("allowPrivilegeEscalation: %w", err)
		}
	}
	return nil
}

// credential looks the user up in the container's files, as its image's would be:
// for the primary group, unless the spec names it, and the home directory.
func (id identity) credential() (*syscall.Credential, string) {
	cred := &syscall.Credential{}
	home := "/"
	if id.user != nil {
		cred.Uid = uint32(*id.user)
	}
	// NAME:PASSWORD:UID:GID:COMMENT:HOME:SHELL, see passwd(5).
	for _, f := range readColons("/etc/passwd") {
		if len(f) >= 6 && f[2] == strconv.Itoa(int(cred.Uid)) {
			if gid, err := strconv.ParseUint(f[3], 10, 32); err == nil {
				cred.Gid = uint32(gid)
			}
			home = f[5]
			break
		}
	}
	if id.group != nil {
		cred.Gid = uint32(*id.group)
	}
	for _, g := range id.extra {
		cred.Groups = append(cred.Groups, uint32(g))
	}
	return cred, home
}

// readColons returns the lines of a file of fields with colons between them.
func readColons(path string) (out [][]string) {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		out = append(out, strings.Split(lines.Text(), ":"))
	}
	return out
}

// lost are the numbers of the capabilities that the container gives up. Without
// drop it has all that root has; there is no smaller set to begin with. Pure.
func (id identity) lost() []int {
	names := capabilityNames()
	named := func(list []corev1.Capability, name string) bool {
		return slices.ContainsFunc(list, func(c corev1.Capability) bool {
			s := strings.TrimPrefix(strings.ToUpper(string(c)), "CAP_")
			return s == "ALL" || s == name
		})
	}
	var out []int
	for number, name := range names {
		if named(id.drop, name) && !named(id.add, name) {
			out = append(out, number)
		}
	}
	return out
}

// capabilityNames are the capabilities by number, see include/uapi/linux/capability.h.
func capabilityNames() []string {
	return []string{"CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
		"LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER", "SYS_MODULE",
		"SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE", "SYS_RESOURCE", "SYS_TIME",
		"SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP", "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG",
		"WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF", "CHECKPOINT_RESTORE"}
}
