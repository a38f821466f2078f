// Package metrics tells Prometheus how a node fares: what its passes did, and what
// its Services carry.
//
// A Recorder is an agent.Observer that turns agent.Report values into metrics of
// a registry of its own. What kube-proxy has is there under kube-proxy's name and
// with its meaning, so that its dashboards and alerts go on working; what it does
// not have begins with toyproxy_. The counts of Service ports are read from a
// meter.Meter when somebody asks, and told only for Service ports that there are.
// docs/metrics.md has every metric, and a test keeps it true.
//
// It measures nothing by itself, reads neither kernel nor clock, and opens no port:
// Handler is what cmd/toyproxy serves on the metrics port by package serve.
package metrics
