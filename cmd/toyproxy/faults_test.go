package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// onRun plays a test against an agent on each backend that this kernel has.
func onRun(t *testing.T, flags string, test func(*testing.T, *box)) {
	requireRoot(t)
	for _, backend := range []string{"nftables", "iptables", "ipvs"} {
		ok, err := condition(backend)
		if backend == "iptables" {
			ok, err = !inGuest(), nil
		}
		if err != nil || !ok || (backend != "ipvs" && inGuest()) {
			continue // the kernel to try it in is another one
		}
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			b.write("client.yaml", clientText("pod-a"))
			b.write("web.yaml", deploymentText("web", "10.96.0.10", 2, "v1"))
			b.run("--min-sync-period 50ms --sync-period 2s --backend " + backend + " " + flags)
			b.awaitAnswer("pod-a", "10.96.0.10")
			b.await("both Pods", func() bool { return strings.Count(b.sh("toyproxy get pods -l app=web --no-headers"), " 1/1 ") == 2 })
			test(t, b)
			b.kill(syscall.SIGTERM)
			b.sh("toyproxy down")
		})
	}
}

// nodePort is Service web with a node port.
const nodePort = `---
apiVersion: v1
kind: Service
metadata: {name: door}
spec: {type: NodePort, selector: {app: web}, ports: [{port: 80, targetPort: 8080, nodePort: 30080}]}
`

// answers waits until an address answers from the node, or no more does.
func (b *box) answers(addr string, want bool) {
	b.t.Helper()
	b.await(fmt.Sprintf("%s to answer: %v", addr, want), func() bool {
		_, err := b.try("curl -sf -m 3 -o /dev/null " + addr)
		return (err == nil) == want
	})
}

// TestNewNodeAddress proves that a node port answers on an address that the node
// got while the agent ran, and no more when it is gone; an address that
// --nodeport-addresses leaves out never (cilium#24481).
func TestNewNodeAddress(t *testing.T) {
	onRun(t, "--nodeport-addresses 192.0.2.0/24", func(t *testing.T, b *box) {
		b.write("door.yaml", nodePort)
		b.sh("ip link add up0 type veth peer name up1 && ip link set up0 up && ip link set up1 up")
		b.sh("ip addr add 192.0.2.77/24 dev up0 && ip addr add 198.51.100.7/24 dev up0")
		b.answers("192.0.2.77:30080", true)
		b.answers("198.51.100.7:30080", false)
		b.sh("ip addr add 192.0.2.78/24 dev up0")
		b.answers("192.0.2.78:30080", true)
		b.sh("ip addr del 192.0.2.78/24 dev up0")
		b.answers("192.0.2.78:30080", false)
		b.answers("192.0.2.77:30080", true)
	})
}

// TestHeldNodePort proves that a server of the node's own on a node port is told as
// a problem, that everything else works meanwhile, and that it is told no more
// once the server has gone (kubernetes#58286, #97360).
func TestHeldNodePort(t *testing.T) {
	onRun(t, "", func(t *testing.T, b *box) {
		server := b.command("exec toyproxy stand-in --pod held --port 30080/TCP")
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		b.write("door.yaml", nodePort)
		b.await("the problem", func() bool {
			return strings.Contains(b.sh("toyproxy get problems"), "30080")
		})
		b.awaitAnswer("pod-a", "10.96.0.10")
		_ = syscall.Kill(childOf(b, server.Process.Pid), syscall.SIGTERM)
		_ = server.Wait()
		b.await("no problem", func() bool {
			return !strings.Contains(b.sh("toyproxy get problems"), "30080")
		})
	})
}

// TestForeignRules proves that what is flushed or deleted comes back round after
// round, once, and that rules of others that came meanwhile stay (kubernetes#129128).
func TestForeignRules(t *testing.T) {
	onRun(t, "", func(t *testing.T, b *box) {
		const list = "nft list table ip others 2>/dev/null; true"
		if ok, _ := condition("nftables"); ok {
			b.sh("nft add table ip others; nft add chain ip others c; nft add rule ip others c ip daddr 192.0.2.9 counter drop")
		}
		want := b.sh(list)
		b.sh(ruleCount) // brings up what listing makes
		b.await("all rules", func() bool {
			_, err := b.try("toyproxy verify -f manifests")
			return err == nil
		})
		rules := b.sh(ruleCount)
		for range 5 {
			b.sh("nft delete table ip toyproxy 2>/dev/null; for i in iptables-nft iptables-legacy ip6tables-nft ip6tables-legacy; do for t in nat filter mangle; do $i -t $t -F 2>/dev/null; done; done; true")
			b.await("the rules to be back", func() bool { return b.sh(ruleCount) == rules })
			b.awaitAnswer("pod-a", "10.96.0.10")
		}
		if got := b.sh(list); got != want {
			t.Errorf("a table of others is\n%s\nwas\n%s", got, want)
		}
	})
}

// ruleCount counts the rules that are ours or not, by table.
const ruleCount = `nft list table ip toyproxy 2>/dev/null | wc -l; for i in iptables-nft iptables-legacy; do for t in nat filter mangle; do $i -t $t -S 2>/dev/null | grep -c '^-A'; done; done; true`
