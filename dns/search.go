package dns

import "strings"

// Candidates are the names that a resolver tries for one that was asked for, in
// their order, each with a final dot: by the search list and by ndots, as
// resolv.conf(5) has it. A name that ends with a dot is tried as it is, alone. One
// with at least ndots dots is tried as it is first, any other one last.
func Candidates(name string, search []string, ndots int) []string {
	if strings.HasSuffix(name, ".") {
		return []string{name}
	}
	asIs := name + "."
	var names []string
	for _, domain := range search {
		if domain = strings.TrimSuffix(domain, "."); domain != "" {
			names = append(names, asIs+domain+".")
		}
	}
	if strings.Count(name, ".") >= ndots {
		return append([]string{asIs}, names...)
	}
	return append(names, asIs)
}
