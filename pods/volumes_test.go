package pods

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// L2: an emptyDir is one directory for those that mount it, and none for others.
func TestEmptyDirIsSharedExplicitly(t *testing.T) {
	l := newLab(t)
	before := sh(t, "cat /proc/self/mountinfo")
	p := several("p", corev1.Container{Name: "writer", VolumeMounts: []corev1.VolumeMount{mount("logs", "/var/log/app")}},
		corev1.Container{Name: "reader", VolumeMounts: []corev1.VolumeMount{mount("logs", "/no/such/place")}},
		corev1.Container{Name: "other"})
	p.Spec.Containers[1].VolumeMounts[0].ReadOnly = true
	p.Spec.Volumes = []corev1.Volume{empty("logs")}
	l.sync(p)
	l.see("p", "writer", "echo one line > /var/log/app/log; echo mine > /root-of-writer")
	if got := l.see("p", "reader", "cat /no/such/place/log"); got != "one line" {
		t.Errorf("the reader sees %q", got)
	}
	if out, err := l.trySee("p", "reader", "echo x > /no/such/place/log"); err == nil {
		t.Errorf("the reader wrote: %s", out)
	}
	if got := l.see("p", "other", "ls -d /var/log/app /no /root-of-writer "+worldDir(l.cfg.StateDir)+" 2>/dev/null || true"); got != "" {
		t.Errorf("the third container sees %q", got)
	}
	for _, path := range []string{"/var/log/app", "/no", "/root-of-writer"} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s was made on the node", path)
		}
	}
	l.sync()
	if after := sh(t, "cat /proc/self/mountinfo"); !sameButNamespaces(l, before, after) {
		t.Errorf("mounts before:\n%s\nafter:\n%s", before, after)
	}
}

// sameButNamespaces compares mount tables, the shared directory of namespaces left
// out, which stays until the node is taken down.
func sameButNamespaces(l *lab, a, b string) bool {
	count := func(text string) (n int) {
		for _, m := range parseMountTable(text) {
			if !strings.HasPrefix(m.path, l.dir+"/netns") {
				n++
			}
		}
		return n
	}
	return count(a) == count(b)
}

func TestVolumesOfEachKind(t *testing.T) {
	l := newLab(t)
	l.keep(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "conf"}, Data: map[string]string{"a.conf": "one", "b.conf": "two"}, BinaryData: map[string][]byte{"bin": {0, 1}}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "keys"}, Data: map[string][]byte{"tls.key": []byte("private")}})
	host := t.TempDir()
	mode, path := int32(0o400), corev1.HostPathDirectoryOrCreate
	limit := resource.MustParse("64Ki")
	p := several("p", corev1.Container{Name: "c", VolumeMounts: []corev1.VolumeMount{
		mount("conf", "/etc/app"), mount("keys", "/keys"), mount("memory", "/memory"), mount("made", "/made"), mount("all", "/all"),
		{Name: "conf", MountPath: "/one.conf", SubPath: "a.conf"}, {Name: "memory", MountPath: "/sub", SubPathExpr: "$(POD)/x"},
	}, Env: []corev1.EnvVar{{Name: "POD", Value: "p"}}})
	p.Spec.Volumes = []corev1.Volume{
		{Name: "conf", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "conf"}}}},
		{Name: "keys", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "keys", DefaultMode: &mode, Items: []corev1.KeyToPath{{Key: "tls.key", Path: "tls/key"}}}}},
		{Name: "memory", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: &limit}}},
		{Name: "made", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: host + "/made", Type: &path}}},
		{Name: "all", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "conf"}, Items: []corev1.KeyToPath{{Key: "b.conf", Path: "b"}}}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: "labels", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}}}}},
		}}}},
	}
	l.sync(p)
	for script, want := range map[string]string{
		"cat /etc/app/a.conf /etc/app/b.conf":                       "onetwo",
		"stat -L -c %a /etc/app/a.conf; stat -c %s -L /etc/app/bin": "644\n2",
		"cat /keys/tls/key; stat -L -c ' %a' /keys/tls/key":         "private 400",
		"cat /one.conf":                               "one",
		"cat /all/b /all/labels":                      `twoapp="web"`,
		"touch /made/x; touch /sub/y; ls /memory/p/x": "y",
		"head -c 100000 /dev/zero > /memory/big 2>/dev/null || echo full": "full",
		"touch /etc/app/new 2>/dev/null || echo read-only":                "read-only",
		"stat -c %a /memory": "777",
	} {
		if got := l.see("p", "c", script); got != want {
			t.Errorf("%s: %q, want %q", script, got, want)
		}
	}
	if _, err := os.Stat(filepath.Join(host, "made", "x")); err != nil {
		t.Errorf("hostPath: %v", err)
	}
	l.keep(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "conf"}, Data: map[string]string{"b.conf": "changed"}})
	poll(t, "the changed ConfigMap", func() bool { return l.see("p", "c", "cat /etc/app/b.conf; ls /etc/app") == "changedb.conf" })
}

// A container that lacks something says what, and starts once it is there.
func TestMissingPartsAreNamed(t *testing.T) {
	l := newLab(t)
	bad := func(name string, v *corev1.VolumeSource, edit func(*corev1.Container)) *corev1.Pod {
		p := several(name, corev1.Container{Name: "main"})
		if v != nil {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: *v}}
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{mount("v", "/v")}
		}
		if edit != nil {
			edit(&p.Spec.Containers[0])
		}
		return p
	}
	conf := corev1.LocalObjectReference{Name: "conf"}
	kind, yes := corev1.HostPathFile, true
	pods := []*corev1.Pod{
		bad("no-map", &corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: conf}}, nil),
		bad("no-key", nil, func(c *corev1.Container) {
			c.Env = []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: conf, Key: "a"}}}}
		}),
		bad("no-path", &corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/no/such/path"}}, nil),
		bad("no-file", &corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/usr", Type: &kind}}, nil),
		bad("claim", &corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}, nil),
		bad("escape", &corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, func(c *corev1.Container) { c.VolumeMounts[0].SubPath = "../../etc" }),
		bad("is-file", &corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, func(c *corev1.Container) { c.VolumeMounts[0].MountPath = "/etc/passwd" }),
		bad("root", nil, func(c *corev1.Container) { c.SecurityContext = &corev1.SecurityContext{RunAsNonRoot: &yes} }),
	}
	err := fmt.Sprint(l.try(pods...))
	for _, want := range []string{
		`no-map: container main: CreateContainerConfigError: volume v: ConfigMap "conf" not found`,
		`no-key: container main: CreateContainerConfigError: env A: ConfigMap "conf" not found`,
		"no-path: container main: StartError: volume v: hostPath /no/such/path is not there: make it, or say type: DirectoryOrCreate",
		"no-file: container main: StartError: volume v: hostPath type check failed: /usr is not a File",
		"claim: container main: StartError: volume v: volumes of this kind are not supported",
		"escape: container main: StartError: volume v: subPath ../../etc: ",
		"is-file: container main: StartError: mountPath /etc/passwd: is a file, and what is to be mounted is a directory",
		"root: container main: CreateContainerConfigError: container has runAsNonRoot and would run as root",
	} {
		if !strings.Contains(err, want) {
			t.Errorf("no %q in\n%s", want, err)
		}
	}
}

// Where no layer can lie over a directory, its entries stand for themselves.
func TestSkeleton(t *testing.T) {
	newLab(t)
	runtime.LockOSThread() // never unlocked: the thread ends with the test
	if err := errors.Join(unix.Unshare(unix.CLONE_NEWNS), unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	if err := errors.Join(os.MkdirAll(dir+"/sub/deep", 0o755), os.WriteFile(dir+"/file", []byte("text"), 0o600), os.Symlink("file", dir+"/link"), os.Chmod(dir, 0o751)); err != nil {
		t.Fatal(err)
	}
	b := &rootBuilder{devices: map[uint64]bool{}}
	m := source{target: dir + "/sub/new/er", dir: true, volume: true}
	if err := errors.Join(skeleton(dir, dir), b.owns(dir), b.point(m)); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(dir + "/link"); err != nil || string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
	if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o751 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	names, _ := os.ReadDir(dir + "/sub")
	if len(names) != 2 || names[0].Name() != "deep" || names[1].Name() != "new" {
		t.Errorf("entries %v", names)
	}
	if err := unix.Unmount(dir+"/sub", unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir + "/sub/new"); err == nil {
		t.Error("the mount point was made on the host")
	}
}
