package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/ipvs"
	"github.com/toyproxy/toyproxy/dataplane/nftables"
	"github.com/toyproxy/toyproxy/dataplane/xtables"
)

// system checks the kernel, the user and the state directory.
func system(o Options) []Finding {
	var u unix.Utsname
	kernel := "unknown"
	if unix.Uname(&u) == nil {
		kernel = unix.ByteSliceToString(u.Release[:])
	}
	out := []Finding{{"kernel", OK, kernel, ""}}
	if os.Geteuid() == 0 {
		out = append(out, Finding{"user", OK, "root", ""})
	} else {
		out = append(out, Finding{"user", Warning, fmt.Sprintf("uid %d: checks that need root are not conclusive", os.Geteuid()), "run it with sudo"})
	}
	if _, err := os.Stat("/proc/sys/net/ipv6"); err != nil {
		out = append(out, Finding{"IPv6", Note, "this kernel has none: only IPv4 frontends are programmed", ""})
	} else {
		out = append(out, Finding{"IPv6", OK, "available", ""})
	}
	return append(out, stateDir(o.StateDir))
}

func stateDir(dir string) Finding {
	var fs unix.Statfs_t
	for d := dir; ; d = filepath.Dir(d) {
		if err := unix.Statfs(d, &fs); err == nil {
			break
		} else if d == "/" || d == "." {
			return Finding{"state directory", Warning, fmt.Sprintf("%s: %v", dir, err), "choose another with --state-dir"}
		}
	}
	if fs.Type == unix.TMPFS_MAGIC {
		return Finding{"state directory", OK, dir + " is in memory, as the kernel's state is", ""}
	}
	return Finding{"state directory", Note, dir + " outlives a reboot, the kernel's state does not: the first sync afterwards finds the difference", ""}
}

// engines tries both iptables engines for both families.
func engines(ctx context.Context) []Finding {
	if os.Geteuid() != 0 {
		return []Finding{notKnown(checkNFT), notKnown(checkLegacy)}
	}
	var out []Finding
	for _, e := range []xtables.Engine{xtables.NFT, xtables.Legacy} {
		check := checkNFT
		if e == xtables.Legacy {
			check = checkLegacy
		}
		err4 := xtables.Tool{Engine: e, Family: dataplane.IPv4}.Probe(ctx)
		err6 := xtables.Tool{Engine: e, Family: dataplane.IPv6}.Probe(ctx)
		switch {
		case err4 != nil:
			out = append(out, lacking(check, err4, "install the package iptables, or use the other engine"))
		case err6 != nil:
			out = append(out, Finding{check, OK, "IPv4 only: " + lacking(check, err6, "").Detail, ""})
		default:
			out = append(out, Finding{check, OK, "IPv4 and IPv6", ""})
		}
	}
	if found, err := xtables.Detect(ctx, xtables.Auto); err == nil {
		out = append(out, Finding{"iptables engine", OK, fmt.Sprintf("%s, iptables %s: %s", found.Engine, found.Version, found.Reason), ""})
		if found.ForeignOther > 0 {
			out = append(out, Finding{"two engines", Warning,
				fmt.Sprintf("engine %s holds %d rules of other programs: both engines are in force at once", found.Engine.Other(), found.ForeignOther),
				"move them to one engine"})
		}
	}
	return out
}

// lacking tells of a backend that cannot work: what it lacks, of the kernel or of
// the machine, and the cure.
func lacking(check string, err error, mend string) Finding {
	var u *dataplane.Unsupported
	if errors.As(err, &u) {
		return Finding{check, Missing, u.Missing + " is missing", cmp.Or(u.Mend, mend)}
	}
	return Finding{check, Missing, err.Error(), mend}
}

// notKnown is the finding where only root could find out.
func notKnown(check string) Finding {
	return Finding{check, Warning, "not known: only root may ask the kernel", "run it with sudo"}
}

func nftablesFeature() Finding {
	if os.Geteuid() != 0 {
		return notKnown(checkNftables)
	}
	if err := nftables.Probe(); err != nil {
		return lacking(checkNftables, err, "use --backend iptables")
	}
	return Finding{checkNftables, OK, "the kernel has it", ""}
}

func ipvsFeature(ctx context.Context) Finding {
	if os.Geteuid() != 0 {
		return notKnown(checkIPVS)
	}
	if err := ipvs.Probe(ctx); err != nil {
		return lacking(checkIPVS, err, "use --backend iptables, or boot a kernel with IPVS")
	}
	return Finding{checkIPVS, OK, "the kernel has it", ""}
}

// programs checks for the tools that are run.
func programs() []Finding {
	var missing []string
	for _, p := range [][2]string{{"ip", "iproute2"}, {"iptables-restore", "iptables"}, {"curl", "curl"}} {
		if _, err := exec.LookPath(p[0]); err != nil {
			missing = append(missing, p[0]+" (package "+p[1]+")")
		}
	}
	if len(missing) > 0 {
		return []Finding{{"programs", Warning, "not found: " + strings.Join(missing, ", "), "install them"}}
	}
	return []Finding{{"programs", OK, "ip, iptables-restore, curl", ""}}
}

// settings checks sysctls that decide whether Services work.
func settings() []Finding {
	var out []Finding
	if read("/proc/sys/net/ipv4/ip_forward") == "0" {
		out = append(out, Finding{"forwarding", Note, "net.ipv4.ip_forward is 0: sync sets it to 1, down puts it back", ""})
	}
	if read("/proc/sys/net/bridge/bridge-nf-call-iptables") == "0" {
		out = append(out, Finding{"bridged traffic", Note,
			"net.bridge.bridge-nf-call-iptables is 0: replies between Pods of one bridge bypass the rules; sync sets it to 1, down puts it back", ""})
	}
	return out
}

func read(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// otherProxies looks for kube-proxy, which would fight over the same packets.
func otherProxies(ctx context.Context) []Finding {
	var out []Finding
	for _, tool := range []string{"iptables-nft-save", "iptables-legacy-save"} {
		text, err := exec.CommandContext(ctx, tool, "-t", "nat").Output()
		if err == nil && strings.Contains(string(text), ":KUBE-SERVICES ") {
			out = append(out, Finding{"kube-proxy", Warning, "rules of kube-proxy stand in " + tool,
				"stop kube-proxy and run 'kube-proxy --cleanup' before sync, or use another --netns"})
		}
	}
	d := net.Dialer{Timeout: 300 * time.Millisecond}
	if conn, err := d.DialContext(ctx, "tcp", "127.0.0.1:10249"); err == nil {
		_ = conn.Close()
		out = append(out, Finding{"kube-proxy", Warning, "something answers on 127.0.0.1:10249, kube-proxy's metrics port",
			"stop kube-proxy before sync, or use another --netns"})
	}
	if len(out) == 0 {
		out = append(out, Finding{"other proxies", OK, "none seen", ""})
	}
	return out
}
