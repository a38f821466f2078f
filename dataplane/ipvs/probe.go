package ipvs

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dataplane"
)

// Probe asks the kernel whether it has IPVS, after asking for its modules. It
// returns nil, or an error that wraps dataplane.ErrUnsupported.
func Probe(ctx context.Context) error {
	loadModules(ctx)
	k, err := openKernel()
	if err != nil {
		return err
	}
	k.close()
	return nil
}

// presentSchedulers lists the schedulers that the kernel has. Nothing is tried out:
// a virtual server with one that is missing would make the kernel look for a module
// with its lock held, see loadModules. Modules show in /sys/module, what is built in
// stands in a list beside the modules, and the functions of either in the kernel's
// symbols.
func presentSchedulers() map[string]bool {
	out := map[string]bool{}
	for _, s := range schedulers() {
		if _, err := os.Stat("/sys/module/ip_vs_" + s); err == nil {
			out[s] = true
		}
	}
	find := func(path, pattern string) {
		missing := slices.DeleteFunc(schedulers(), func(s string) bool { return out[s] })
		for _, s := range linesWith(path, pattern, missing) {
			out[s] = true
		}
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		find(fmt.Sprintf("/lib/modules/%s/modules.builtin", unix.ByteSliceToString(u.Release[:])), "/ip_vs_%s.ko")
	}
	if len(out) < len(schedulers()) {
		find("/proc/kallsyms", " ip_vs_%s_schedule")
	}
	return out
}

// linesWith returns those of the words with which some line of a file ends in the
// pattern, or has a blank or tab behind it. A file that cannot be read has none.
func linesWith(path, pattern string, words []string) []string {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	found := map[string]bool{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line, _, _ := strings.Cut(lines.Text(), "\t")
		if !strings.Contains(line, "ip_vs_") {
			continue
		}
		for _, w := range words {
			if strings.HasSuffix(line, fmt.Sprintf(pattern, w)) {
				found[w] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// grant takes out of a table the wishes for schedulers that the kernel does not
// have. Affinity needs mh, or else sh.
func grant(t dataplane.Table, has func() map[string]bool) dataplane.Table {
	var sets []dataplane.EndpointSet
	for i, s := range t.Sets {
		wish := s.Scheduler
		if wish == "" && s.Affinity > 0 && !has()["mh"] && has()["sh"] {
			wish = "sh"
		}
		if wish != "" && !has()[wish] {
			wish = ""
		}
		if wish == s.Scheduler {
			continue
		}
		if sets == nil {
			sets = slices.Clone(t.Sets)
		}
		sets[i].Scheduler = wish
	}
	if sets != nil {
		t.Sets = sets
	}
	return t
}

// notGranted tells of wishes for schedulers that the kernel does not have, once
// for each Service port and scheduler.
func notGranted(t dataplane.Table, has func() map[string]bool) (remarks []string) {
	told := map[string]bool{}
	for _, s := range t.Sets {
		if s.Scheduler == "" || has()[s.Scheduler] {
			continue
		}
		text := fmt.Sprintf("%s wishes IPVS scheduler %q, which this kernel does not have; the default serves it: load module ip_vs_%s, or name another in annotation toyproxy.dev/ipvs-scheduler",
			s.Service, s.Scheduler, s.Scheduler)
		if !told[text] {
			told[text] = true
			remarks = append(remarks, text)
		}
	}
	return remarks
}
