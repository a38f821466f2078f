package main

import (
	"fmt"
	"strings"
)

// keeps tells whether the holder of a node's lock is a run, which does not end by
// itself.
func keeps(holder string) bool {
	words := strings.Fields(strings.ReplaceAll(holder, ",", " "))
	return len(words) > 1 && words[1] == "run"
}

// keptError says that a run keeps the node.
type keptError struct{ holder string }

// Error names it, and what to do instead.
func (e *keptError) Error() string {
	return fmt.Sprintf("this node is kept by another process (%s), which follows the manifests by itself: change these, or end it first "+
		"(kill -TERM leaves rules and Pods as they are); 'toyproxy plan' shows what is left to do", e.holder)
}
