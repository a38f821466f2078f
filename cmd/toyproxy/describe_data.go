package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

func describeConfigMap(w io.Writer, c *corev1.ConfigMap) error {
	p := newPage(w, "")
	p.sayMeta(&c.ObjectMeta)
	if err := p.flush(); err != nil {
		return err
	}
	fmt.Fprint(w, "\nData\n====\n")
	for _, name := range slices.Sorted(maps.Keys(c.Data)) {
		fmt.Fprintf(w, "%s:\n----\n%s\n\n", printable(name), printableLines(c.Data[name]))
	}
	fmt.Fprint(w, "BinaryData\n====\n")
	for _, name := range slices.Sorted(maps.Keys(c.BinaryData)) {
		fmt.Fprintf(w, "%s: %s\n", printable(name), count(len(c.BinaryData[name]), "byte"))
	}
	return nil
}

// describeSecret shows how much there is, and nothing of it.
func describeSecret(w io.Writer, s *corev1.Secret) error {
	p := newPage(w, "")
	p.sayMeta(&s.ObjectMeta)
	p.say("Type", string(s.Type))
	if err := p.flush(); err != nil {
		return err
	}
	fmt.Fprint(w, "\nData\n====\n")
	c := newColumns(w)
	for _, name := range slices.Sorted(maps.Keys(s.Data)) {
		c.row(name+":", count(len(s.Data[name]), "byte"))
	}
	return c.flush()
}

// printableLines is printable text of several lines.
func printableLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = printable(l)
	}
	return strings.Join(lines, "\n")
}
