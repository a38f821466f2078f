// Command server is CoreDNS with the few plugins that serve a cluster's zone: those of
// the Corefile that kubeadm installs.
//
// It is a judge for tests and benchmarks, and no part of the product.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/metrics"
	_ "github.com/coredns/coredns/plugin/ready"
)

// The order in which plugins see a query, as CoreDNS's own plugin.cfg has it.
var order = []string{"health", "ready", "prometheus", "errors", "log", "cache", "kubernetes", "forward"}

func main() {
	dnsserver.Directives = order
	coremain.Run()
}
