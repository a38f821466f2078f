package pods

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster/state"
)

// several is a Pod of containers that do nothing but stay, or what a command says.
func several(name string, containers ...corev1.Container) *corev1.Pod {
	p := program(name)
	p.Spec.Containers = nil
	for _, c := range containers {
		c.Image = "c:1"
		if len(c.Command) == 0 {
			c.Command = []string{"sleep", "1000"}
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
	return p
}

// see runs a shell command inside a container, and returns what it prints.
func (l *lab) see(pod, container, script string) string {
	l.t.Helper()
	out, err := l.trySee(pod, container, script)
	if err != nil {
		l.t.Fatalf("%s in %s: %v\n%s", script, container, err, out)
	}
	return out
}

func (l *lab) trySee(pod, container, script string) (string, error) {
	l.t.Helper()
	id := types.NamespacedName{Namespace: "default", Name: pod}
	out, err := os.CreateTemp(l.dir, "see")
	if err != nil {
		l.t.Fatal(err)
	}
	defer os.Remove(out.Name())
	defer out.Close()
	c, err := Find(l.cfg.StateDir, id, container)
	if err != nil {
		return "", err
	}
	code, err := c.Run(l.t.Context(), []string{"sh", "-c", script}, Streams{Out: out, Err: out})
	b, _ := os.ReadFile(out.Name())
	if err == nil && code != 0 {
		err = fmt.Errorf("status %d", code)
	}
	return strings.TrimSpace(string(b)), err
}

func (l *lab) keep(objs ...metav1.Object) {
	l.t.Helper()
	for _, obj := range objs {
		var err error
		switch obj := obj.(type) {
		case *corev1.ConfigMap:
			_, err = state.Open(l.cfg.StateDir, "configmaps", func() *corev1.ConfigMap { return nil }).Save(obj)
		case *corev1.Secret:
			_, err = state.Open(l.cfg.StateDir, "secrets", func() *corev1.Secret { return nil }).Save(obj)
		}
		if err != nil {
			l.t.Fatal(err)
		}
	}
}

func mount(name, at string) corev1.VolumeMount { return corev1.VolumeMount{Name: name, MountPath: at} }

func empty(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
}

// L1: containers share one network namespace, which `ip netns exec` joins too.
func TestContainersShareTheNetwork(t *testing.T) {
	l := newLab(t)
	p := several("pod-a", corev1.Container{Name: "a"}, corev1.Container{Name: "b"})
	p.Spec.Containers[0].Command = nil
	p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8080}}
	l.sync(p)
	addrs := "ip -o -4 addr show dev eth0 | awk '{print $4}'"
	if a, b := l.see("pod-a", "a", addrs), l.see("pod-a", "b", addrs); a != "10.244.0.2/32" || a != b {
		t.Errorf("addresses %s and %s", a, b)
	}
	if got := l.see("pod-a", "b", "printf 'x\\n' | nc -w 3 127.0.0.1 8080 | head -1"); got != "pod-a 127.0.0.1:8080 from 127.0.0.1" {
		t.Errorf("over localhost: %q", got)
	}
	if got := sh(t, "nsenter --net=%s ip -o -4 addr show dev eth0", l.net.Path("pod-a")); !strings.Contains(got, "10.244.0.2/32") {
		t.Errorf("the named namespace: %s", got)
	}
	twice := several("twice", corev1.Container{Name: "a"}, corev1.Container{Name: "b"})
	for i := range twice.Spec.Containers {
		twice.Spec.Containers[i].Command = nil
		twice.Spec.Containers[i].Ports = []corev1.ContainerPort{{ContainerPort: 8080}}
	}
	if err := l.try(p, twice); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("one port bound twice: %v", err)
	}
}

// What the files say that a container sees in /etc, and its host name.
func TestFilesInEtc(t *testing.T) {
	l := newLab(t)
	before := sh(t, "cat /etc/hosts /etc/hostname; hostname")
	p := several("p", corev1.Container{Name: "c"})
	p.Spec.Hostname, p.Spec.Subdomain = "db-0", "db"
	p.Spec.HostAliases = []corev1.HostAlias{{IP: "192.0.2.9", Hostnames: []string{"old", "older"}}}
	p.Spec.DNSPolicy = corev1.DNSNone
	five := "5"
	p.Spec.DNSConfig = &corev1.PodDNSConfig{Nameservers: []string{"192.0.2.53"}, Searches: []string{"example.org"}, Options: []corev1.PodDNSConfigOption{{Name: "ndots", Value: &five}}}
	fqdn := p.DeepCopy()
	fqdn.Name, fqdn.Spec.SetHostnameAsFQDN = "fqdn", new(true)
	l.sync(p, fqdn)
	hosts := l.see("p", "c", "cat /etc/hosts")
	for _, want := range []string{"127.0.0.1\tlocalhost", "10.244.0.2\tdb-0.db.default.svc.cluster.local\tdb-0", "fd00:10:244::2\tdb-0.db.default.svc.cluster.local\tdb-0", "192.0.2.9\told\tolder"} {
		if !strings.Contains(hosts, want+"\n") && !strings.HasSuffix(hosts, want) {
			t.Errorf("no %q in\n%s", want, hosts)
		}
	}
	if got := l.see("p", "c", "cat /etc/hostname; hostname; echo $HOSTNAME"); got != "db-0\ndb-0\ndb-0" && hasKind("uts") {
		t.Errorf("host name: %q", got)
	}
	if got := l.see("fqdn", "c", "hostname"); got != "db-0.db.default.svc.cluster.local" && hasKind("uts") {
		t.Errorf("whole host name: %q", got)
	}
	if log := read(t, LogPath(l.cfg.StateDir, "default", "p", "pause")); !hasKind("uts") && !strings.Contains(log, "no uts namespaces: the Pod has the node's host name") {
		t.Errorf("the log of the Pod: %s", log)
	}
	const resolv = "nameserver 192.0.2.53\nsearch example.org\noptions ndots:5"
	if got := l.see("p", "c", "cat /etc/resolv.conf"); got != resolv {
		t.Errorf("resolv.conf: %q", got)
	}
	if got := sh(t, "tail -n 3 %s/etc/p/resolv.conf", l.dir); got != resolv {
		t.Errorf("`ip netns exec` sees %q", got)
	}
	if after := sh(t, "cat /etc/hosts /etc/hostname; hostname"); after != before {
		t.Errorf("the node's files were %q and are %q", before, after)
	}
}

func hasKind(kind string) bool {
	_, err := os.Stat("/proc/self/ns/" + kind)
	return err == nil
}

func TestUsersAndRights(t *testing.T) {
	l := newLab(t)
	if ids := strings.Fields(sh(t, "cat /proc/self/uid_map")); len(ids) == 3 && ids[2] == "1" {
		t.Skip("SKIP(kernel): several users: not root")
	}
	user, group, fsGroup, no, yes := int64(1234), int64(2345), int64(3456), false, true
	p := several("p",
		corev1.Container{Name: "user", VolumeMounts: []corev1.VolumeMount{mount("v", "/v")}},
		corev1.Container{Name: "root", SecurityContext: &corev1.SecurityContext{RunAsUser: new(int64), ReadOnlyRootFilesystem: &yes, AllowPrivilegeEscalation: &no,
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"NET_BIND_SERVICE"}}}, VolumeMounts: []corev1.VolumeMount{mount("v", "/v")}})
	p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: &user, RunAsGroup: &group, SupplementalGroups: []int64{77}, FSGroup: &fsGroup,
		Sysctls: []corev1.Sysctl{{Name: "net.ipv4.ip_unprivileged_port_start", Value: "80"}}}
	p.Spec.Volumes = []corev1.Volume{empty("v")}
	l.sync(p)
	for _, tc := range []struct{ container, script, want string }{
		{"user", "id -u; id -g; id -G | tr ' ' '\\n' | sort -n | tr '\\n' ' '", "1234\n2345\n77 2345 3456"},
		{"user", "touch /v/mine; stat -c '%u %g' /v/mine; stat -c %a /v", "1234 3456\n2777"},
		{"user", "cat /proc/sys/net/ipv4/ip_unprivileged_port_start", "80"},
		{"root", "id -u; grep -E 'CapEff|NoNewPrivs' /proc/self/status | tr -d '\\t'", "0\nCapEff:0000000000000400\nNoNewPrivs:1"},
		{"root", "touch /new /run/new 2>/dev/null; ls /new /run/new 2>/dev/null; touch /v/theirs && ls /v", "mine\ntheirs"},
	} {
		if got := l.see("p", tc.container, tc.script); got != tc.want {
			t.Errorf("%s: %s: %q, want %q", tc.container, tc.script, got, tc.want)
		}
	}
	if status := sh(t, "grep -E '^(Uid|Gid)' /proc/%d/status", l.report("p").Containers[0].Pid); !strings.Contains(status, "1234") || !strings.Contains(status, "2345") {
		t.Errorf("the container itself: %s", status)
	}
}

// With shareProcessNamespace, containers see each other's processes and no others.
func TestSharedProcesses(t *testing.T) {
	l := newLab(t)
	p := several("p", corev1.Container{Name: "a", Command: []string{"sleep", "1234567"}}, corev1.Container{Name: "b"})
	p.Spec.ShareProcessNamespace = new(true)
	l.sync(p)
	got := l.see("p", "b", "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done")
	if !strings.Contains(got, "sleep 1234567") || !strings.HasPrefix(got, "toyproxy "+InitName) || strings.Contains(got, "pods.test") {
		t.Errorf("processes:\n%s", got)
	}
	l.see("p", "b", "(setsid true &) ; sleep 0.2") // leaves an orphan
	poll(t, "no dead processes", func() bool { return !strings.Contains(l.see("p", "b", "cat /proc/[0-9]*/stat 2>/dev/null"), ") Z ") })
	pause := l.pause("p")
	if err := pause.signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	poll(t, "the end of all processes", func() bool { return sh(t, "pgrep -f 'sleep 123456[7]' || true") == "" })
}

// A pause process that is killed takes all its mounts with it, and a root that a
// container has changed is fresh in its next run.
func TestWorldsEndWithTheirPod(t *testing.T) {
	l := newLab(t)
	p := several("p", corev1.Container{Name: "c", Command: []string{"sh", "-c", "test ! -e /mark || exit 9; touch /mark; exec sleep 1000"}, VolumeMounts: []corev1.VolumeMount{mount("v", "/v")}})
	p.Spec.Volumes = []corev1.Volume{empty("v")}
	l.sync(p)
	l.see("p", "c", "touch /v/kept")
	first := l.report("p").Containers[0].Pid
	if err := unix.Kill(first, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	poll(t, "the restart", func() bool {
		c := l.report("p").Containers[0]
		return c.Pid != first && c.Phase == running && c.Ready
	})
	if got := l.see("p", "c", "ls /v /mark"); got != "/mark\n\n/v:\nkept" {
		t.Errorf("after the restart: %q", got)
	}
	pause := l.pause("p")
	if err := pause.signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	poll(t, "the end of pause", func() bool { return !pause.alive() })
	if left, _ := os.ReadDir(worldDir(l.cfg.StateDir)); len(left) > 0 {
		t.Errorf("left on the node: %v", left)
	}
}

// A Pod with hostNetwork has the node's addresses, ports, host name and links.
func TestHostNetwork(t *testing.T) {
	l := newLab(t)
	p := web("p")
	p.Spec.HostNetwork, p.Spec.HostAliases = true, []corev1.HostAlias{{IP: "192.0.2.9", Hostnames: []string{"old"}}}
	p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "c", Image: "c:1", Command: []string{"sleep", "1000"}})
	got := l.sync(p, web("other"))
	if got[0].Status.PodIP != "192.0.2.1" || !ready(got[0]) {
		t.Errorf("address %s, ready %v", got[0].Status.PodIP, ready(got[0]))
	}
	sh(t, "ip link set lo up; ip addr add 192.0.2.1/32 dev lo")
	ask(t, "tcp", "192.0.2.1:8080", "x\n")
	if a, b := l.see("p", "c", "ls /sys/class/net; hostname; tail -n1 /etc/hosts"), sh(t, "ip -o link | awk -F'[ @:]+' '{print $2}' | sort; hostname; printf '192.0.2.9\told'"); a != b {
		t.Errorf("the container sees %q, the node %q", a, b)
	}
	l.sync(web("other"))
	if _, err := os.Stat(l.net.Path("p")); err == nil {
		t.Error("it got a network of its own")
	}
	ask(t, "tcp", "10.244.0.2:8080", "x\n")
}

// A command inside a container ends with it, and so does what it leaves behind.
func TestCommandsEndWithTheContainer(t *testing.T) {
	l := newLab(t)
	l.sync(several("p", corev1.Container{Name: "c"}))
	c, err := Find(l.cfg.StateDir, types.NamespacedName{Namespace: "default", Name: "p"}, "")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan int, 1)
	go func() {
		code, _ := c.Run(t.Context(), []string{"sh", "-c", "setsid sleep 7654321 & exec sleep 7654322"}, Streams{})
		ended <- code
	}()
	poll(t, "the commands", func() bool { return len(strings.Fields(sh(t, "pgrep -f 'sleep 765432[12]' || true"))) >= 2 })
	l.sync()
	if code := <-ended; code != 128+int(unix.SIGKILL) {
		t.Errorf("status %d", code)
	}
	poll(t, "their end", func() bool { return sh(t, "pgrep -f 'sleep 765432[12]' || true") == "" })
}
