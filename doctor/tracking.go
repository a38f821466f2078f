package doctor

import (
	"fmt"
	"strconv"
	"strings"
)

// tracking tells how full the kernel's table of connections is, and what it had
// to throw away. toyproxy never changes the limit: it is the administrator's.
func tracking() []Finding {
	const dir = "/proc/sys/net/netfilter/nf_conntrack_"
	return trackingOf(read(dir+"count"), read(dir+"max"), read("/proc/net/stat/nf_conntrack"))
}

// trackingOf judges the texts of the kernel's files. Without them nothing is
// tracked yet, and there is nothing to say.
func trackingOf(count, limit, stat string) []Finding {
	have, errHave := strconv.Atoi(count)
	most, errMost := strconv.Atoi(limit)
	if errHave != nil || errMost != nil || most == 0 {
		return nil
	}
	const check = "connection tracking"
	dropped, collided := losses(stat)
	f := Finding{check, OK, fmt.Sprintf("%d of %d connections", have, most), ""}
	if have >= most/10*9 {
		f.Status, f.Mend = Warning, fmt.Sprintf("when it is full new connections are dropped: raise it (sysctl -w net.netfilter.nf_conntrack_max=%d)", 2*most)
	}
	out := []Finding{f}
	if dropped > 0 {
		out = append(out, Finding{check, Warning, fmt.Sprintf("%d packets were dropped since the start of this machine because the table was full, or by early drop", dropped),
			"raise net.netfilter.nf_conntrack_max if the number grows"})
	}
	if collided > 0 {
		out = append(out, Finding{check, Note, fmt.Sprintf("%d packets were lost since the start of this machine because two flows wanted the same translated port at once (insert_failed)", collided),
			"some are normal; masquerading already chooses ports at random. A growing number with slow DNS: let resolvers send one question at a time (options single-request-reopen)"})
	}
	return out
}

// losses adds up a column of drops and one of collisions over all processors.
// The numbers are hexadecimal.
func losses(stat string) (dropped, collided uint64) {
	lines := strings.Split(strings.TrimSpace(stat), "\n")
	names := strings.Fields(lines[0])
	for _, line := range lines[1:] {
		for i, text := range strings.Fields(line) {
			if i >= len(names) {
				break
			}
			n, err := strconv.ParseUint(text, 16, 64)
			switch {
			case err != nil:
			case names[i] == "drop" || names[i] == "early_drop":
				dropped += n
			case names[i] == "insert_failed":
				collided += n
			}
		}
	}
	return dropped, collided
}
