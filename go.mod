module github.com/toyproxy/toyproxy

go 1.26.0

require (
	github.com/coreos/go-iptables v0.8.0 // iptables: versions, existence checks, base jumps
	github.com/coreos/go-systemd/v22 v22.7.0 // sd_notify
	github.com/creack/pty v1.1.24 // exec -t: a terminal for the command
	github.com/fsnotify/fsnotify v1.10.1 // run, get -w: what changes in directories
	github.com/google/go-cmp v0.7.0 // tests: readable differences
	github.com/google/nftables v0.3.0 // nftables: encoding of expressions
	github.com/moby/ipvs v1.1.0 // IPVS: virtual and real servers
	github.com/prometheus/client_golang v1.25.0 // metrics
	github.com/prometheus/client_model v0.6.3 // metrics: what a scrape holds
	github.com/prometheus/common v0.72.0 // metrics: reading its text
	github.com/rogpeppe/go-internal v1.16.0 // tests: scripts of what users type
	github.com/spf13/cobra v1.10.2 // the command tree, as kubectl has it
	github.com/spf13/pflag v1.0.10 // its flags
	github.com/vishvananda/netlink v1.3.1 // links, addresses, routes, ipset, conntrack
	github.com/vishvananda/netns v0.0.5 // network namespaces
	go.yaml.in/yaml/v3 v3.0.6 // YAML with line and column of every node
	golang.org/x/sys v0.50.0 // system calls
	golang.org/x/term v0.48.0 // exec -t, top: the user's terminal
	google.golang.org/grpc v1.85.0 // probes of kind grpc
	k8s.io/api v0.37.2 // the Kubernetes types
	k8s.io/apimachinery v0.37.2 // their names, selectors, and checks of names
	k8s.io/client-go v0.37.2 // wait --for=jsonpath, as kubectl reads it
	k8s.io/endpointslice v0.37.2 // the endpoint controller's own conditions and hints
	pgregory.net/rapid v1.3.0 // tests: properties
	sigs.k8s.io/yaml v1.6.0 // -o yaml
)

require (
	github.com/coder/websocket v1.8.15 // tests: WebSockets through the ingress
	github.com/miekg/dns v1.1.73 // DNS messages and servers
	google.golang.org/protobuf v1.36.12 // tests: messages of gRPC through the ingress
	sigs.k8s.io/gateway-api v1.6.3 // the types of the Gateway API
)

require (
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/davecgh/go-spew v1.1.2-0.20180830191138-d8f796af33cc // indirect
	github.com/fxamacker/cbor/v2 v2.9.1 // indirect
	github.com/go-logr/logr v1.4.4 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/json-iterator/go v1.1.12 // indirect
	github.com/mdlayher/netlink v1.7.3-0.20250113171957-fbb4dce95f42 // indirect
	github.com/mdlayher/socket v0.5.0 // indirect
	github.com/modern-go/concurrent v0.0.0-20180306012644-bacd9c7ef1dd // indirect
	github.com/modern-go/reflect2 v1.0.3-0.20250322232337-35a7c28c31ee // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/pmezard/go-difflib v1.0.1-0.20181226105442-5d4384ee4fb2 // indirect
	github.com/prometheus/procfs v0.22.0 // indirect
	github.com/sirupsen/logrus v1.9.0 // indirect
	github.com/x448/float16 v0.8.4 // indirect
	go.yaml.in/yaml/v2 v2.4.4 // indirect
	golang.org/x/net v0.61.0 // indirect
	golang.org/x/oauth2 v0.37.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	golang.org/x/time v0.15.0 // indirect
	golang.org/x/tools v0.52.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1 // indirect
	gopkg.in/inf.v0 v0.9.1 // indirect
	k8s.io/klog/v2 v2.140.0 // indirect
	k8s.io/kube-openapi v0.0.0-20260721132016-d427ff9ee9ad // indirect
	k8s.io/utils v0.0.0-20260626114624-be93311217bd // indirect
	sigs.k8s.io/json v0.0.0-20250730193827-2d320260d730 // indirect
	sigs.k8s.io/randfill v1.0.0 // indirect
	sigs.k8s.io/structured-merge-diff/v6 v6.4.2 // indirect
)
