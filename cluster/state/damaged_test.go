package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestDamaged: damaged files are told apart from other errors however they are
// wrapped, and removed unless they have been written anew.
func TestDamaged(t *testing.T) {
	dir := t.TempDir()
	half, again := filepath.Join(dir, "half.json"), filepath.Join(dir, "again.json")
	if err := errors.Join(os.WriteFile(half, []byte("{"), 0o600), os.WriteFile(again, []byte("{}"), 0o600)); err != nil {
		t.Fatal(err)
	}
	full := errors.New("full")
	one, two := &CorruptError{half, full}, &CorruptError{again, full}
	err := errors.Join(fmt.Errorf("Pods: %w", errors.Join(one, nil)), full, two)
	damaged, other := Damaged(err)
	if len(damaged) != 2 || damaged[0] != one || damaged[1] != two || !errors.Is(other, full) {
		t.Errorf("damaged %v, other %v", damaged, other)
	}
	if damaged, other := Damaged(nil); len(damaged) != 0 || other != nil {
		t.Errorf("of nothing: %v, %v", damaged, other)
	}
	if err := RemoveDamaged(err); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 1 || left[0] != again {
		t.Errorf("left: %v", left)
	}
}
