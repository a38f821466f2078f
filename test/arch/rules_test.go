package arch

// rule is a row of the table: what the code of a folder (not its tests) may use.
type rule struct {
	// dir is the folder, from the top of the project.
	dir string
	// imports are the project's packages that it may import.
	imports string
	// k8s says whether it may know Kubernetes: import k8s.io/… or sigs.k8s.io/….
	k8s bool
	// io names the files that may do I/O (see impure): none, or "*" for all.
	io string
}

// rules, from the kernel upwards. The arrows are those of docs/ARCHITECTURE.md:
// manifests → cluster → endpoints → balance → Table → Backend → Plan → kernel.
var rules = []rule{
	// The waist: values that both halves of the house understand.
	{dir: "dataplane"},

	// Below it: nobody knows Kubernetes. A backend that would ask such a question
	// is missing a field in dataplane.Table.
	{dir: "dataplane/xtables", imports: "dataplane", io: "tool.go droptable.go fingerprint.go trial.go"},
	{dir: "dataplane/ipset", imports: "dataplane", io: "kernel.go wire.go"},
	{dir: "dataplane/sysctl", imports: "dataplane", io: "io.go"},
	{dir: "dataplane/notice", imports: "dataplane", io: "*"},
	{dir: "dataplane/conntrack", imports: "dataplane", io: "kernel.go journal.go watch.go"},
	{dir: "dataplane/meter", imports: "dataplane dataplane/conntrack dataplane/sysctl", io: "serve.go"},
	{dir: "dataplane/iptables", imports: "dataplane dataplane/ipset dataplane/xtables dataplane/sysctl"},
	{dir: "dataplane/nftables", imports: "dataplane", io: "kernel.go"},
	{dir: "dataplane/ipvs", imports: "dataplane dataplane/xtables dataplane/sysctl", io: "kernel.go read.go socket.go probe.go journal.go fingerprint.go"},
	{dir: "podnet", imports: "dataplane dataplane/sysctl", io: "*"},

	// Above it: objects in, a table out. Only cluster's sources and state read files.
	{dir: "cluster", k8s: true},
	{dir: "cluster/manifest", imports: "cluster", k8s: true, io: "read.go"},
	{dir: "cluster/apply", imports: "cluster cluster/manifest", k8s: true},
	{dir: "cluster/state", imports: "cluster", k8s: true, io: "*"},
	{dir: "rollout", k8s: true},
	{dir: "cluster/watch", io: "*"},
	{dir: "cluster/workload", imports: "cluster cluster/apply cluster/state controller", k8s: true, io: "*"},
	{dir: "endpoints", imports: "cluster", k8s: true},
	{dir: "balance", imports: "cluster dataplane endpoints", k8s: true},

	// Names and front doors: from live objects to servers.
	{dir: "cluster/follow", imports: "cluster cluster/state", k8s: true, io: "*"},
	{dir: "dns", imports: "cluster endpoints", k8s: true},
	{dir: "dns/forward", io: "*"},
	{dir: "dns/server", imports: "cluster dns dns/forward serve", k8s: true, io: "*"},
	{dir: "ingress", imports: "cluster", k8s: true},
	{dir: "ingress/gateway", imports: "cluster ingress", k8s: true},
	{dir: "ingress/proxy", imports: "cluster ingress serve", k8s: true, io: "*"},

	// Around it.
	{dir: "pods", imports: "cluster cluster/state dataplane podnet", k8s: true, io: "*"},
	{dir: "controller", imports: "cluster", k8s: true},
	{dir: "explain", imports: "balance cluster dataplane", k8s: true},
	{dir: "agent", imports: "balance cluster controller dataplane endpoints pods", k8s: true, io: "loop.go"},
	{dir: "serve", io: "*"},
	{dir: "health", imports: "agent balance cluster dataplane serve", io: "state.go nodeports.go"},
	{dir: "metrics", imports: "agent cluster dataplane dataplane/meter", io: "handler.go"},
	{dir: "top", imports: "dataplane dataplane/meter"},
	{dir: "doctor", imports: "dataplane dataplane/ipvs dataplane/nftables dataplane/xtables", io: "*"},
	{dir: "demo", io: "*"},
	{dir: "load", io: "load.go"},

	// The wiring may use everything, and nobody may use it.
	{dir: "cmd/toyproxy", imports: "*", k8s: true, io: "*"},

	// For tests alone: imported by no product code, as no row above names them.
	{dir: "test/arch"},
	{dir: "test/lab", imports: "dataplane", io: "*"},
	{dir: "test/tables", imports: "dataplane test/lab", io: "checks.go"},
	{dir: "test/sandbox", io: "*"},
	{dir: "test/conformance"},
	{dir: "test/walk"},
	{dir: "test/figures"},
	{dir: "test/dnscluster", imports: "cluster/state", k8s: true, io: "*"},
	{dir: "test/hostile"},
}

// impure are the imports that reach outside the process or make a result differ
// from one call to the next. Code that has them does I/O.
var impure = []string{
	"os", "os/exec", "os/signal", "net", "net/http", "syscall", "log", "log/slog", "math/rand", "math/rand/v2", "crypto/rand",
	"golang.org/x/sys/unix", "github.com/vishvananda/netlink", "github.com/vishvananda/netlink/nl", "github.com/vishvananda/netns",
	"github.com/moby/ipvs", "github.com/coreos/go-iptables/iptables",
}

// impureCalls are calls of pure packages that are impure all the same.
var impureCalls = []string{
	"time.Now", "time.Since", "time.Until", "time.Sleep", "time.After", "time.Tick", "time.NewTimer", "time.NewTicker",
	"fmt.Print", "fmt.Printf", "fmt.Println",
}

// Limits on length, in lines. They hold for code, not for tests.
const (
	maxFunction = 60
	maxFile     = 400
)

// vagueNames tell nothing of what a package or a file holds.
var vagueNames = []string{"util", "utils", "common", "helper", "helpers", "manager", "misc"}
