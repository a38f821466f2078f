package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/moby/ipvs"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// GuestVariable is the environment variable that says the test runs in a
// kernel that was chosen because it has every feature: there the absence of
// one fails the test instead of skipping it.
const GuestVariable = "VMRUN_GUEST"

// Feature is something of the kernel, or of the machine's tools, that a test
// cannot do without.
type Feature string

// The features that tests ask for.
const (
	// Namespaces: the right to make network namespaces.
	Namespaces Feature = "network namespaces (root, or unshare --user --map-root-user --net --mount)"
	// IPVS: virtual servers.
	IPVS Feature = "IPVS (module ip_vs)"
	// IptablesNFT and IptablesLegacy: the two engines, with table nat.
	IptablesNFT    Feature = "iptables-nft (nf_tables, nft_compat, nft_chain_nat)"
	IptablesLegacy Feature = "iptables-legacy (iptable_nat)"
	// Nftables: tables of family ip with chains of type nat, and nft(8).
	Nftables Feature = "nftables (nf_tables, nft_chain_nat)"
	// IPSet: ipset(8) with hash:ip,port.
	IPSet Feature = "ipset (ip_set_hash_ipport)"
	// SCTP: sockets of that protocol.
	SCTP Feature = "SCTP sockets (module sctp)"
)

// Require skips the test when this machine lacks a feature, with a reason that
// starts with "SKIP(kernel)" and names it. In a guest that was chosen for its
// kernel (GuestVariable is set) it fails the test instead, but for IptablesNFT
// and Nftables: the guest is there for IPVS, and the machine's own kernel has that.
func Require(t testing.TB, features ...Feature) {
	t.Helper()
	for _, f := range features {
		if err := f.Missing(); err != nil {
			err = fmt.Errorf("%s: %w", f, err)
			if f == IptablesNFT || f == Nftables { // Debian builds its User Mode Linux without
				t.Skipf("SKIP(kernel): %v", err)
			}
			Skip(t, err)
		}
	}
}

// Skip ends a test for what the kernel lacks: the one place that decides
// whether that is a skip or a failure.
func Skip(t testing.TB, missing error) {
	t.Helper()
	if guest := os.Getenv(GuestVariable); guest != "" {
		t.Fatalf("missing in guest kernel %s, which ought to have it: %v", guest, missing)
	}
	t.Skipf("SKIP(kernel): %v", missing)
}

// Missing returns nil if the machine has the feature, else what is in the way.
// It tries the feature in a namespace of its own.
func (f Feature) Missing() error {
	return onThread(func() error {
		space, err := netns.New()
		if err != nil {
			return fmt.Errorf("new network namespace: %w", err)
		}
		defer space.Close()
		return f.try()
	})
}

// try uses the feature in the namespace of the thread.
func (f Feature) try() error {
	switch f {
	case IPVS:
		return tryIPVS()
	case IptablesNFT:
		return tryTool("iptables-nft", "-w", "-t", "nat", "-N", "PROBE")
	case IptablesLegacy:
		return tryTool("iptables-legacy", "-w", "-t", "nat", "-N", "PROBE")
	case Nftables:
		return tryTool("nft", "add table ip probe; add chain ip probe c { type nat hook output priority 0; }")
	case IPSet:
		return tryTool("ipset", "create", "PROBE", "hash:ip,port")
	case SCTP:
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_SCTP)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
	return nil
}

// tryIPVS asks for the family of generic netlink; loading the module is part of
// what the library does.
func tryIPVS() error {
	if _, err := os.Stat(fmt.Sprintf("/proc/%d/task/%d/net/ip_vs", os.Getpid(), unix.Gettid())); errors.Is(err, fs.ErrNotExist) {
		return errors.New("no /proc/net/ip_vs")
	}
	h, err := ipvs.New("")
	if err != nil {
		return err
	}
	h.Close()
	return nil
}

func tryTool(args ...string) error {
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", args[0], err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Main is the body of TestMain for packages that use labs. A process without
// the right to make namespaces starts itself again as root of a user namespace
// of its own; and a run that leaves descriptors open fails.
func Main(m *testing.M) int {
	if Namespaces.Missing() != nil && os.Getenv(againVariable) == "" {
		if code, ok := again(); ok {
			return code
		}
	}
	before := descriptors()
	code := m.Run()
	runtime.GC() // ends what only finalizers hold
	if after := descriptors(); code == 0 && after > before {
		fmt.Fprintf(os.Stderr, "lab: %d file descriptors before the tests, %d after: a test leaks them\n", before, after)
		return 1
	}
	return code
}

const againVariable = "TOYPROXY_LAB_AGAIN"

// again runs this program under unshare(1); ok is false if that is not allowed.
// It gets a folder /run of its own, in which iptables-legacy can have its lock.
func again() (code int, ok bool) {
	const withRun = `mount -t tmpfs run /run && exec "$0" "$@"`
	wrap := []string{"--user", "--map-root-user", "--net", "--mount", "--", "sh", "-c", withRun}
	if exec.Command("unshare", append(wrap, "true")...).Run() != nil {
		return 0, false
	}
	cmd := exec.Command("unshare", append(append(wrap, os.Args[0]), os.Args[1:]...)...)
	cmd.Env = append(os.Environ(), againVariable+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return exit.ExitCode(), true
	case err != nil:
		fmt.Fprintln(os.Stderr, "lab:", err)
		return 1, true
	}
	return 0, true
}

// descriptors counts the open sockets, namespaces and files, without those of
// Go's own poller, which come with the first socket and stay.
func descriptors() int {
	dir, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	n := 0
	for _, d := range dir {
		to, err := os.Readlink("/proc/self/fd/" + d.Name())
		if err == nil && !strings.HasPrefix(to, "anon_inode:") {
			n++
		}
	}
	return n
}
