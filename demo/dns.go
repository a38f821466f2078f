package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

const domain = "cluster.local"

// playDNS is rows L20 to L22: names that follow the live objects.
func playDNS(ctx context.Context, s *stage) error {
	return s.play(ctx, nameService, nameGone, nameElsewhere, podNames, history)
}

// playSearch is row L23: short names.
func playSearch(ctx context.Context, s *stage) error {
	return s.play(ctx, nameService, searchList, shortNames)
}

// plainService is a Service without Pods: a name and an address.
func (s *stage) plainService(namespace, name, addr string) error {
	return s.write(namespace+"-"+name+".yaml", fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: %s, namespace: %s}
spec:
  clusterIP: %s
  selector: {app: %s}
  ports: [{name: http, port: 80, targetPort: http}]
`, name, namespace, addr, name))
}

// dig asks cluster DNS from pod-a, and returns the status and the answers.
func (s *stage) dig(ctx context.Context, name, kind string) (status, answer string, err error) {
	if answer, err = s.run(ctx, fmt.Sprintf("ip netns exec pod-a dig +short %s %s", name, kind)); err != nil {
		return "", "", err
	}
	out, err := s.quiet(ctx, fmt.Sprintf("ip netns exec pod-a dig %s %s", name, kind))
	if err != nil {
		return "", "", err
	}
	_, rest, _ := strings.Cut(out, "status: ")
	status, _, _ = strings.Cut(rest, ",")
	return status, strings.TrimSpace(answer), nil
}

// expectName asks for the address of a Service and compares.
func (s *stage) expectName(ctx context.Context, name, want string) error {
	status, answer, err := s.dig(ctx, name, "A")
	if err != nil {
		return err
	}
	if want == "NXDOMAIN" {
		return s.expect(status == want && answer == "", "%s does not exist (NXDOMAIN)", name)
	}
	return s.expect(status == "NOERROR" && answer == want, "%s is %s", name, want)
}

// nameService starts cluster DNS, a client and three Services.
func nameService(ctx context.Context, s *stage) error {
	if _, err := s.quiet(ctx, "command -v dig"); err != nil {
		return fmt.Errorf("this lesson asks by dig, which is not here: apt-get install bind9-dnsutils")
	}
	s.say("Cluster DNS is a Pod like any other, behind Service kube-dns. Three Services have names.")
	err := errors.Join(
		s.writeBuiltIn(Manifests, "manifests/dns.yaml", "dns.yaml"),
		s.writePod(podSpec{Name: "pod-a", Labels: "app: client"}),
		s.plainService("default", "web", "10.96.10.11"),
		s.plainService("default", "api", "10.96.10.12"),
		s.plainService("billing", "ledger", "10.96.20.5"),
		s.sync(ctx))
	if err != nil {
		return err
	}
	if _, err := s.run(ctx, "toyproxy get services -A"); err != nil {
		return err
	}
	return errors.Join(
		s.expectName(ctx, "api.default.svc."+domain, "10.96.10.12"),
		s.expectName(ctx, "ledger.billing.svc."+domain, "10.96.20.5"))
}

// nameGone: a name goes with its Service, at once.
func nameGone(ctx context.Context, s *stage) error {
	s.say("A Service is deleted. Nobody waits for a TTL: the very next question is answered from what there is now.")
	return errors.Join(
		s.remove("billing-ledger.yaml"),
		s.sync(ctx),
		s.expectName(ctx, "ledger.billing.svc."+domain, "NXDOMAIN"))
}

// nameElsewhere: the namespace is part of the name.
func nameElsewhere(ctx context.Context, s *stage) error {
	s.say("A Service of the same short name comes in another namespace: another name, another address.")
	err := errors.Join(
		s.plainService("default", "ledger", "10.96.10.99"),
		s.sync(ctx),
		s.expectName(ctx, "ledger.default.svc."+domain, "10.96.10.99"),
		s.expectName(ctx, "ledger.billing.svc."+domain, "NXDOMAIN"))
	if err != nil {
		return err
	}
	s.say("And with both of them, the two names have two addresses.")
	return errors.Join(
		s.plainService("billing", "ledger", "10.96.20.6"),
		s.sync(ctx),
		s.expectName(ctx, "ledger.billing.svc."+domain, "10.96.20.6"),
		s.expectName(ctx, "ledger.default.svc."+domain, "10.96.10.99"))
}

// podNames is L22: Pods have names too, made of their addresses.
func podNames(ctx context.Context, s *stage) error {
	s.say("A Pod's name is its address with dashes, as long as there is such a Pod.")
	clients, err := s.pods(ctx, "client")
	if err != nil {
		return err
	}
	if len(clients) != 1 {
		return s.expect(false, "one Pod with app=client")
	}
	addr := clients[0].addr
	dashed := strings.ReplaceAll(addr, ".", "-")
	other := dashed[:strings.LastIndex(dashed, "-")+1] + "250"
	return errors.Join(
		s.expectName(ctx, dashed+".default.pod."+domain, addr),
		s.expectName(ctx, other+".default.pod."+domain, "NXDOMAIN"),
		s.expectName(ctx, dashed+".billing.pod."+domain, "NXDOMAIN"))
}

// history is L21: what every event changed.
func history(ctx context.Context, s *stage) error {
	s.say("What has happened? The server keeps a history: the time, the event, the records that came and went.")
	out, err := s.run(ctx, "toyproxy dns history")
	if err != nil {
		return err
	}
	at := func(what string) int { return strings.Index(out, what) }
	gone := at("- ledger.billing.svc." + domain)
	came := at("+ ledger.default.svc." + domain)
	return s.expect(gone > 0 && came > gone, "ledger.billing went before ledger.default came")
}

// searchList shows where short names are looked for.
func searchList(ctx context.Context, s *stage) error {
	s.say("Service ledger of namespace default has a Pod now. What does pod-a know of names?")
	err := errors.Join(
		s.writePod(podSpec{Name: "ledger-1", Labels: "app: ledger", Port: 8080}),
		s.plainService("default", "ledger", "10.96.10.99"),
		s.sync(ctx))
	if err != nil {
		return err
	}
	out, err := s.run(ctx, "ip netns exec pod-a cat /etc/resolv.conf")
	if err != nil {
		return err
	}
	list := "search default.svc.cluster.local svc.cluster.local cluster.local"
	return s.expect(strings.Contains(out, list) && strings.Contains(out, "ndots:5"), "the search list of namespace default, and ndots:5")
}

// shortNames are tried against the list.
func shortNames(ctx context.Context, s *stage) error {
	out, err := s.run(ctx, "ip netns exec pod-a curl -s http://ledger")
	if err != nil {
		return err
	}
	if err := s.expect(strings.Contains(out, "ledger-1"), "http://ledger is answered by ledger-1"); err != nil {
		return err
	}
	s.say("Every name that was tried, with its answer:")
	if out, err = s.run(ctx, "toyproxy dns lookup ledger --from pod-a"); err != nil {
		return err
	}
	if err := s.expect(strings.Contains(out, "10.96.10.99") && !strings.Contains(out, "NXDOMAIN"), "the first name of the list has the answer"); err != nil {
		return err
	}
	s.say("The name of another namespace is the second that is tried.")
	if out, err = s.run(ctx, "toyproxy dns lookup ledger.billing --from pod-a"); err != nil {
		return err
	}
	return s.expect(strings.Contains(out, "10.96.20.5") && strings.Contains(out, "NXDOMAIN"), "ledger.billing.default.svc does not exist, ledger.billing.svc does")
}
