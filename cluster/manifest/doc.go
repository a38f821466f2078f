// Package manifest turns Kubernetes YAML and JSON into a complete, valid set
// of objects, and says of everything wrong where it stands.
//
// It reads files, splits and decodes documents strictly, fills in defaults,
// validates as kube-apiserver does at creation, and does what the API server
// does beyond that: allocates cluster IPs and node ports. All of it but
// read.go is pure: the same bytes and the same earlier Services give the same
// Result, so a Service keeps its address from pass to pass.
//
// It is not an API server: there is no admission, no status written, no
// history; and it decides nothing about traffic.
//
// In the flow it is one source of package cluster:
// files → manifest.Load → cluster.Store → endpoints → balance.
package manifest
