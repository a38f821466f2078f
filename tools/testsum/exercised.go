package main

import "strings"

// liveTests are the folders whose tests put packets through a kernel. What the
// other packages pass says nothing about a kernel.
var liveTests = []string{"test/conformance", "dataplane/ipvs", "dataplane/iptables", "dataplane/nftables"}

// exercisedIn reads off the names of the tests that passed what the stage
// exercised: TestConformance/ipvs/IPv6/udp was ipvs on IPv6. A name that says
// no backend, as those of the backends' own unit tests, counts for none.
func exercisedIn(s Stage) []exercise {
	parents := parentsIn(s.Results)
	found := map[string]*exercise{}
	var order []string
	for _, r := range s.Results {
		backend := backendOf(r)
		if r.Outcome != Pass || backend == "" || parents[key{r.Package, r.Test}] {
			continue
		}
		e := found[backend]
		if e == nil {
			e = &exercise{backend: backend, engines: map[string]bool{}, families: map[string]bool{}, kernel: s.Kernel}
			found[backend] = e
			order = append(order, backend)
		}
		e.note(strings.ToLower(r.Test))
	}
	all := make([]exercise, 0, len(order))
	for _, backend := range order {
		all = append(all, *found[backend])
	}
	return all
}

// parentsIn finds the tests that have subtests. They pass even where all those skip.
func parentsIn(results []Result) map[key]bool {
	parents := map[key]bool{}
	for _, r := range results {
		if i := strings.LastIndexByte(r.Test, '/'); i > 0 {
			parents[key{r.Package, r.Test[:i]}] = true
		}
	}
	return parents
}

func backendOf(r Result) string {
	live := false
	for _, folder := range liveTests {
		live = live || strings.HasSuffix(r.Package, "/"+folder)
	}
	if !live {
		return ""
	}
	for part := range strings.SplitSeq(strings.ToLower(r.Test), "/") {
		for _, backend := range []string{"iptables", "ipvs", "nftables"} {
			if strings.HasPrefix(part, backend) {
				return backend
			}
		}
	}
	return ""
}

func (e *exercise) note(test string) {
	for _, engine := range []string{"nft", "legacy"} {
		if e.backend == "iptables" && strings.Contains(test, engine) {
			e.engines[engine] = true
		}
	}
	for word, family := range map[string]string{"ipv4": "IPv4", "ipv6": "IPv6", "v4": "IPv4", "v6": "IPv6"} {
		if strings.Contains(test, word) {
			e.families[family] = true
		}
	}
}
