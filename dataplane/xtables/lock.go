package xtables

import (
	"strconv"
	"strings"
)

// holderOf finds in the text of /proc/locks the process that holds the file
// with that inode number: "1: FLOCK  ADVISORY  WRITE 30510 fe:00:9773057 0 EOF".
// Lines of waiting processes have "->" and are passed over. A process outside
// our process namespace has the number 0 or -1 and cannot be named.
func holderOf(locks string, inode uint64) string {
	for line := range strings.Lines(locks) {
		f := strings.Fields(line)
		if len(f) < 6 || f[1] == "->" || f[1] != "FLOCK" {
			continue
		}
		if !strings.HasSuffix(f[5], ":"+strconv.FormatUint(inode, 10)) {
			continue
		}
		if n, err := strconv.Atoi(f[4]); err == nil && n > 0 {
			return f[4]
		}
	}
	return ""
}
