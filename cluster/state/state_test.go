package state

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func service(ns, name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
}

func open(dir string) Dir[*corev1.Service] {
	return Open(dir, "services", func() *corev1.Service { return &corev1.Service{} })
}

func TestSaveAndLoad(t *testing.T) {
	d := open(t.TempDir())
	if changed, err := d.Save(service("default", "web")); err != nil || !changed {
		t.Fatalf("first Save: %v, %v; want changed", changed, err)
	}
	if changed, err := d.Save(service("default", "web")); err != nil || changed {
		t.Fatalf("second Save: %v, %v; want unchanged", changed, err)
	}
	got, err := d.Load(types.NamespacedName{Namespace: "default", Name: "web"})
	if err != nil || got.Name != "web" {
		t.Fatalf("Load: %v, %v", got, err)
	}
	if err := d.Delete(types.NamespacedName{Namespace: "default", Name: "web"}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Load(types.NamespacedName{Namespace: "default", Name: "web"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Load after Delete: %v; want not exist", err)
	}
}

func TestListSkipsDamagedFiles(t *testing.T) {
	dir := t.TempDir()
	d := open(dir)
	if objs, err := d.List(); err != nil || len(objs) != 0 {
		t.Fatalf("List of nothing: %v, %v", objs, err)
	}
	for _, s := range []*corev1.Service{service("b", "x"), service("a", "y")} {
		if _, err := d.Save(s); err != nil {
			t.Fatal(err)
		}
	}
	bad := filepath.Join(dir, "services", "a_bad.json")
	if err := os.WriteFile(bad, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	objs, err := d.List()
	if len(objs) != 2 || objs[0].Name != "y" || objs[1].Name != "x" {
		t.Errorf("List: %v; want a/y, b/x", objs)
	}
	var corrupt *CorruptError
	if !errors.As(err, &corrupt) || corrupt.Path != bad {
		t.Errorf("List error: %v; want the damaged file named", err)
	}
}

func TestReplaceRemovesOthers(t *testing.T) {
	dir := t.TempDir()
	d := open(dir)
	if err := d.Replace([]*corev1.Service{service("a", "x"), service("a", "y")}); err != nil {
		t.Fatal(err)
	}
	if err := d.Replace([]*corev1.Service{service("a", "y")}); err != nil {
		t.Fatal(err)
	}
	entries, _ := os.ReadDir(filepath.Join(dir, "services"))
	if len(entries) != 1 || entries[0].Name() != "a_y.json" {
		t.Errorf("files: %v; want a_y.json alone", entries)
	}
}

func TestLockNamesItsHolder(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "nodes", "net-1")
	first, err := Lock(t.Context(), path, dir, "sync, pid 7")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	var held *HeldError
	if _, err := Lock(ctx, path, dir, "other"); !errors.As(err, &held) || !strings.Contains(err.Error(), "sync, pid 7") {
		t.Fatalf("second Lock: %v; want its holder named", err)
	}
	if err := (&HeldError{Path: path}).Error(); !strings.Contains(err, "of an unknown name") {
		t.Errorf("without a holder: %s", err)
	}
	if name, is := Holder(path); !is || name != "sync, pid 7" {
		t.Errorf("Holder: %q, %v", name, is)
	}
	first.Unlock()
	if _, is := Holder(path); is {
		t.Error("Holder of a lock that was given back")
	}
	again, err := Lock(t.Context(), path, dir, "third")
	if err != nil {
		t.Fatalf("Lock after Unlock: %v", err)
	}
	again.Unlock()
}

func TestLockKeepsTheClaim(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	path := filepath.Join(t.TempDir(), "nodes", "net-1")
	n, err := Lock(t.Context(), path, one, "sync")
	if err != nil {
		t.Fatal(err)
	}
	n.Unlock()
	var claimed *ClaimedError
	if _, err := Lock(t.Context(), path, two, "sync"); !errors.As(err, &claimed) || claimed.StateDir != one {
		t.Fatalf("Lock for another state directory: %v; want the claim of %s", err, one)
	}
	n, err = Lock(t.Context(), path, one, "down")
	if err != nil {
		t.Fatal(err)
	}
	n.Forget()
	n, err = Lock(t.Context(), path, two, "sync")
	if err != nil {
		t.Fatalf("Lock after Forget: %v", err)
	}
	n.Unlock()
}

// Two of the longest names that the API allows are two files.
func TestLongNames(t *testing.T) {
	d := open(t.TempDir())
	namespace, long := strings.Repeat("n", 63), strings.Repeat("a", 252)
	want := []*corev1.Service{service(namespace, long+"x"), service(namespace, long+"y")}
	if err := d.Replace(want); err != nil {
		t.Fatal(err)
	}
	if got, err := d.List(); err != nil || len(got) != 2 || got[1].Name != long+"y" {
		t.Errorf("got %v, %v", got, err)
	}
	if err := d.Delete(types.NamespacedName{Namespace: namespace, Name: long + "x"}); err != nil {
		t.Error(err)
	}
	if got, err := d.Load(types.NamespacedName{Namespace: namespace, Name: long + "y"}); err != nil || got.Name != long+"y" {
		t.Errorf("got %v, %v", got, err)
	}
}

// No link is followed: its target would be overwritten.
func TestLockFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	target, path := filepath.Join(dir, "precious"), filepath.Join(dir, "lock")
	if err := errors.Join(os.WriteFile(target, []byte("kept"), 0o600), os.Symlink(target, path)); err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(t.Context(), path, dir, "sync"); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
	if b, err := os.ReadFile(target); string(b) != "kept" {
		t.Errorf("the target holds %q, %v", b, err)
	}
}
