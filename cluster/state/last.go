package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Last is what the last sync of a node was asked for, so that later commands can
// say when they are asked for something else.
type Last struct {
	// Backend is the backend in use: "iptables".
	Backend string `json:"backend"`
	// Manifests says where the objects came from, as it was shown.
	Manifests string `json:"manifests"`
	// Arguments are those of the command line that matter to later commands:
	// "--backend ipvs -f /srv/manifests".
	Arguments string `json:"arguments"`
	// ClusterDomain is the zone of cluster DNS: "cluster.local".
	ClusterDomain string `json:"clusterDomain,omitempty"`
}

func lastPath(stateDir string) string { return filepath.Join(stateDir, "last-sync.json") }

// ReadLast returns what the last sync was asked for; the zero value when there
// was none, or when nothing can be learnt from the file.
func ReadLast(stateDir string) Last {
	var l Last
	if text, err := os.ReadFile(lastPath(stateDir)); err == nil {
		_ = json.Unmarshal(text, &l)
	}
	return l
}

// WriteLast notes what a sync was asked for.
func WriteLast(stateDir string, l Last) error {
	if ReadLast(stateDir) == l {
		return nil
	}
	text, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return fmt.Errorf("note of the last sync: %w", err)
	}
	return WriteFile(lastPath(stateDir), text)
}

// ForgetLast removes the note.
func ForgetLast(stateDir string) error {
	if err := os.Remove(lastPath(stateDir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("note of the last sync: %w", err)
	}
	return nil
}
