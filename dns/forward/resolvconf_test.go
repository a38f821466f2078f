package forward

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestReadResolvConf: resolvers are read in their order; a file of loopback resolvers
// only, and one without any, is an error that says so.
func TestReadResolvConf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	for text, want := range map[string][]string{
		"# made by hand\nsearch example.org\nnameserver 192.0.2.53\nnameserver 2001:db8::53 # second\noptions ndots:2\n": {"192.0.2.53:53", "[2001:db8::53]:53"},
		"nameserver fe80::1%eth0\nnameserver 192.0.2.53\n":                                                               {"[fe80::1%eth0]:53", "192.0.2.53:53"},
		"nameserver 127.0.0.1\nnameserver 192.0.2.53\n":                                                                  {"127.0.0.1:53", "192.0.2.53:53"},
		"nameserver 127.0.0.53\noptions edns0\n":                                                                         nil,
		"nameserver\nnameserver example.org\n;nameserver ::1\n":                                                          nil,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		upstreams, err := ReadResolvConf(path)
		var got []string
		for _, u := range upstreams {
			got = append(got, u.String())
		}
		if !slices.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
		if text[:len(text)-1] == "nameserver 127.0.0.53\noptions edns0" && !errors.Is(err, ErrOnlyLoopback) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := ReadResolvConf(path + ".none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}
