package ingress

import (
	"net/netip"
	"testing"
)

func TestAccess(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		annotations []string
		client      string
		want        bool
	}{
		{nil, "192.0.2.1", true},
		{[]string{"whitelist-source-range=10.0.0.0/8, 192.0.2.1"}, "10.1.2.3", true},
		{[]string{"whitelist-source-range=10.0.0.0/8, 192.0.2.1"}, "192.0.2.1", true},
		{[]string{"whitelist-source-range=10.0.0.0/8, 192.0.2.1"}, "::ffff:192.0.2.1", true},
		{[]string{"whitelist-source-range=10.0.0.0/8, 192.0.2.1"}, "192.0.2.2", false},
		{[]string{"whitelist-source-range=10.0.0.0/8"}, "fd00::1", false},
		{[]string{"allowlist-source-range=fd00::/8"}, "fd00::1", true},
		{[]string{"allowlist-source-range=10.1.2.3/8"}, "10.9.9.9", true},
		{[]string{"whitelist-source-range=10.0.0.0/8", "allowlist-source-range=192.0.2.1"}, "192.0.2.1", true},
		{[]string{"denylist-source-range=192.0.2.0/24"}, "192.0.2.1", false},
		{[]string{"denylist-source-range=192.0.2.0/24"}, "198.51.100.1", true},
		{[]string{"denylist-source-range=10.1.0.0/16", "whitelist-source-range=10.0.0.0/8"}, "10.1.0.1", false},
		{[]string{"denylist-source-range=10.1.0.0/16", "whitelist-source-range=10.0.0.0/8"}, "10.2.0.1", true},
	} {
		// A canary of the path lets in the same clients.
		out := compile(with(ing("x", 1, "a.example / P s"), tc.annotations...),
			with(ing("new", 1, "a.example / P new"), "canary=true", "canary-by-header=X-New"))
		wantProblems(t, out)
		for _, r := range out.Config.Ports[0].Listeners[0].Routes {
			if got := r.Access.Admits(netip.MustParseAddr(tc.client)); got != tc.want {
				t.Errorf("%v admits %s: %t (%s)", tc.annotations, tc.client, got, &r)
			}
		}
	}
	for _, text := range []string{"", "10.0.0.0/8,", "10.0.0.0/33", "a.example", "10.0.0.0-10.0.0.9", "fe80::1%eth0"} {
		for _, name := range []string{"whitelist-source-range", "denylist-source-range"} {
			out := compile(with(ing("x", 1, "a.example / P s"), name+"="+text))
			wantProblems(t, out, "is no range such as 10.0.0.0/8")
			if out.Config.Ports[0].Listeners[0].Routes[0].Split[0].Backend.Refused == "" {
				t.Errorf("%s %q lets everybody in", name, text)
			}
		}
	}
}
