// Package coredns asks CoreDNS itself whether dns.Zone is right.
//
// Its tests generate a cluster from a fixed seed, hand the same objects to dns.Zone and
// to CoreDNS (command server here, a process of its own that reads them from package
// apiserver), ask both thousands of questions, and require the same answers: response
// code and all sections. Where the answers are meant to differ, a table says why:
// testdata/differences.txt, which docs/dns-coredns.md shows.
//
// It is a module of its own, because CoreDNS brings a hundred modules along; nothing of
// the product imports it.
package coredns
