// Package oracle asks Kubernetes itself whether cluster/manifest is right.
//
// Its tests build objects, hand each to manifest.Load and to the defaulting
// and validation of kube-apiserver's own source, and require the same answer:
// equal objects, or both refuse. Kinds of the Gateway API go through what the API
// server does with custom resources: their CRDs' schemas, defaults and rules. Where the answers are meant to differ, the
// table of mutations says why.
//
// It is a module of its own, because k8s.io/kubernetes is not supported as a
// library; nothing of the product imports it.
package oracle
