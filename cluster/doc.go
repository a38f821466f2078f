// Package cluster holds Kubernetes objects in memory and tells what changed.
//
// Its sources fill it: cluster/manifest reads files; a later one will watch a
// kube-apiserver. Objects that reach the Store are decoded, defaulted, valid
// and shared: nobody may change them. What is wrong with the input travels
// beside the objects as Problems and never stops other objects.
//
// In the flow it stands first: sources → cluster.Store → endpoints → balance.
// It decides nothing about traffic, and touches no kernel.
package cluster
