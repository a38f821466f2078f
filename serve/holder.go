package serve

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// holder names the program that listens on the TCP port of addr in the network
// namespace of this thread; empty when it cannot be seen.
func holder(addr string) string {
	port, ok := portOf(addr)
	if !ok {
		return ""
	}
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile("/proc/thread-self/net/" + table)
		if err != nil {
			continue
		}
		if socket := listeningSocket(string(text), port); socket != "" {
			if name := ownerOf(socket); name != "" {
				return name
			}
		}
	}
	return ""
}

// listeningSocket finds in a table of /proc/net the socket that listens on a port,
// as "socket:[4711]".
func listeningSocket(text string, port uint16) string {
	const listening, local, state, inode = "0A", 1, 3, 9
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) <= inode || f[state] != listening {
			continue
		}
		_, number, _ := strings.Cut(f[local], ":")
		if n, err := strconv.ParseUint(number, 16, 16); err == nil && uint16(n) == port {
			return "socket:[" + f[inode] + "]"
		}
	}
	return ""
}

// ownerOf names the first process that has a socket open.
func ownerOf(socket string) string {
	files, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return ""
	}
	for _, f := range files {
		if to, err := os.Readlink(f); err != nil || to != socket {
			continue
		}
		pid, _, _ := strings.Cut(strings.TrimPrefix(f, "/proc/"), "/")
		name, err := os.ReadFile("/proc/" + pid + "/comm")
		if err != nil {
			return "pid " + pid
		}
		return fmt.Sprintf("%s (pid %s)", strings.TrimSpace(string(name)), pid)
	}
	return ""
}
