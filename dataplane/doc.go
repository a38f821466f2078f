// Package dataplane is the waist of toyproxy: what stands above it is
// Kubernetes, what stands below it is the kernel.
//
// A Table says which addresses clients may dial on one node (frontends), what
// is to become of a packet by where it comes from (routes), and which endpoints
// may serve it. Every policy is already decided in it. A Backend makes the
// kernel of one network namespace match a Table: it reads the kernel, computes
// a Plan, and the Plan can be printed and applied.
//
// This package holds types and pure functions on them only. It knows no
// Kubernetes type, reads no file, opens no socket, writes no log. Package
// balance makes tables; packages dataplane/iptables and dataplane/ipvs
// implement Backend; package agent brings them together.
package dataplane
