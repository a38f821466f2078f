package main

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// A DNS server beside an agent: it answers whatever becomes of the agent, and at once
// when it was killed itself; a node that is removed and made anew has its new names.
func TestDNSServerLives(t *testing.T) {
	requireRoot(t)
	if inGuest() {
		return // no part of it needs IPVS
	}
	t.Parallel()
	b := newBox(t)
	b.write("web.yaml", serviceText("web", "10.96.0.10", "web", 80))
	serve := func() *exec.Cmd {
		cmd := b.command("exec toyproxy dns --forward none --listen 127.0.0.1:53 --log errors >>dns.log 2>&1")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	answer := func() string {
		out, _ := b.try("dig +short +tries=1 +time=20 @127.0.0.1 web.default.svc.cluster.local")
		return strings.TrimSpace(out)
	}
	server := serve()
	const agent = "--backend nftables --sync-period 1s --metrics-bind-address= --healthz-bind-address= --count-traffic=false"
	b.run(agent)
	b.await("the first answer", func() bool { return answer() == "10.96.0.10" })

	b.kill(syscall.SIGKILL)
	if got := answer(); got != "10.96.0.10" {
		t.Errorf("without the agent: %q", got)
	}
	b.write("web.yaml", serviceText("web", "10.96.0.11", "web", 80))
	b.run(agent)
	b.await("the new address", func() bool { return answer() == "10.96.0.11" })

	if err := syscall.Kill(childOf(b, server.Process.Pid), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = server.Wait()
	server = serve()
	b.await("the server to listen", func() bool { _, err := b.try("ss -Hlun | grep -q 127.0.0.1:53"); return err == nil })
	if got := answer(); got != "10.96.0.11" {
		t.Errorf("the first answer of a server that was killed: %q", got)
	}

	b.kill(syscall.SIGTERM)
	b.sh("toyproxy down")
	if got := answer(); got != "" {
		t.Errorf("after down: %q", got)
	}
	b.write("web.yaml", serviceText("web", "10.96.0.12", "web", 80))
	b.sh("toyproxy sync --backend nftables -f manifests")
	if got := answer(); got != "10.96.0.12" {
		t.Errorf("after a new sync: %q", got)
	}
	if err := syscall.Kill(childOf(b, server.Process.Pid), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := server.Wait(); err != nil {
		t.Errorf("end by TERM: %v\n%s", err, b.sh("cat dns.log"))
	}
}
