package pods

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// place is the mount namespace of one run of a container, by which its processes
// are found that have left its process group. It is held open: the number of a
// namespace that is gone is given to another.
type place struct {
	file  *os.File
	inode uint64
}

// openPlace returns the place of a process, nil when it has none of its own.
func openPlace(pid int) *place {
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/mnt", pid))
	if err != nil {
		return nil
	}
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil || st.Ino == inodeOf("/proc/self/ns/mnt") {
		_ = f.Close()
		return nil
	}
	return &place{f, st.Ino}
}

// close lets go of it, and kills all processes that are left there if asked to.
func (p *place) close(kill bool) {
	if p == nil {
		return
	}
	defer p.file.Close()
	if !kill {
		return
	}
	names, err := readNames("/proc")
	if err != nil {
		return
	}
	for _, name := range names {
		// Most processes are others', and are to cost no more than this.
		if pid, err := strconv.Atoi(name); err != nil || pid == os.Getpid() || inodeOf("/proc/"+name+"/ns/mnt") != p.inode {
			continue
		} else if s, err := readStat(pid); err == nil && inodeOf("/proc/"+name+"/ns/mnt") == p.inode {
			_ = (process{s.pid, s.start}).signal(unix.SIGKILL)
		}
	}
}
