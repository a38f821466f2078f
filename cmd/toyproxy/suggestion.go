package main

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/toyproxy/toyproxy/dataplane"
)

// suggestion is a command that shows the result, for a reader who is new.
func (p *nodePlan) suggestion() string {
	var client, vip string
	for _, pod := range p.Pods {
		name := podNamespaceName(p.Desired, pod)
		silent := len(pod.Spec.Containers) > 0 && len(pod.Spec.Containers[0].Ports) == 0
		if name != "" && (client == "" || silent) {
			client = name
		}
	}
	for _, fe := range p.Table.Frontends {
		serves := fe.Kind == dataplane.ClusterIP && fe.Protocol == dataplane.TCP && fe.Port != 53 && fe.Routes[dataplane.FromPod].Verdict == dataplane.Forward
		if serves && (vip == "" || fe.Port == 80) {
			vip = strings.TrimSuffix(netip.AddrPortFrom(fe.Addr, fe.Port).String(), ":80")
		}
		if serves && fe.Port == 80 {
			break
		}
	}
	if client == "" || vip == "" || p.netns != "" {
		return ""
	}
	return fmt.Sprintf("sudo ip netns exec %s curl %s", client, vip)
}
