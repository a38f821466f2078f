package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Damaged parts an error of this package into those that name damaged files, beside
// which the rest is good, and what else went wrong, if anything.
func Damaged(err error) (damaged []*CorruptError, other error) {
	if one, ok := err.(*CorruptError); ok {
		return []*CorruptError{one}, nil
	}
	if joined, many := err.(interface{ Unwrap() []error }); many {
		var others []error
		for _, e := range joined.Unwrap() {
			d, o := Damaged(e)
			damaged, others = append(damaged, d...), append(others, o)
		}
		return damaged, errors.Join(others...)
	}
	if inner := errors.Unwrap(err); inner != nil {
		if damaged, other = Damaged(inner); other == nil {
			return damaged, nil
		}
	}
	return damaged, err
}

// RemoveDamaged removes the damaged files that an error names, which nobody else
// would if their objects are not wanted any more. It is for who keeps the node. The
// error is what could not be removed.
func RemoveDamaged(err error) error {
	damaged, _ := Damaged(err)
	var errs []error
	for _, d := range damaged {
		if data, err := os.ReadFile(d.Path); err == nil && json.Valid(data) || errors.Is(err, fs.ErrNotExist) {
			continue // it was written anew meanwhile, or is gone
		}
		if err := os.RemoveAll(d.Path); err != nil {
			errs = append(errs, fmt.Errorf("damaged state file: %w", err))
		}
	}
	return errors.Join(errs...)
}
