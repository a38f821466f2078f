package dns

import "time"

// Entry is a line of the history: what one event changed in the zone. A server
// writes it as JSON, one line an entry, the oldest first; `dns history` reads it.
type Entry struct {
	Time time.Time `json:"time"`
	// Event is what happened to the object: "added", "modified" or "deleted".
	Event string `json:"event"`
	// Object is such as "Service default/web".
	Object string `json:"object"`
	// Records as in Change.
	Added   []string `json:"added,omitempty"`
	Removed []string `json:"removed,omitempty"`
}

// HistoryFile is where the history of a node is, below its state directory.
const HistoryFile = "dns/history.jsonl"
