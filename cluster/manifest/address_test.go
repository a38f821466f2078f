package manifest

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestParseAddr(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"10.96.0.1", ""},
		{"fd00:10:96::1", ""},
		{"010.96.0.1", "leading 0"},
		{"10.96.0.01", "leading 0"},
		{"fd00:0::1", "write fd00::1"},
		{"FD00::1", "write fd00::1"},
		{"::ffff:10.96.0.1", "write 10.96.0.1"},
		{"2001:db8::1%eth0", "valid IP address"},
		{"10.96.0.1%eth0", "valid IP address"},
		{"10.96.0.256", "valid IP address"},
		{"10.96.0", "valid IP address"},
		{"10.96.0.1/32", "valid IP address"},
		{" 10.96.0.1", "valid IP address"},
		{"", "valid IP address"},
	} {
		_, err := parseAddr(field.NewPath("spec", "clusterIP"), tc.text)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Detail, tc.want) {
			t.Errorf("%q: got %v, want %q", tc.text, err, tc.want)
		}
	}
}

// TestPodAddr: what no Pod can have is refused before anybody sends to it.
func TestPodAddr(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"10.244.0.5", ""},
		{"fd00:10:244::5", ""},
		{"203.0.113.7", ""},
		{"127.0.0.1", "loopback range"},
		{"0.0.0.0", "unspecified"},
		{"::", "unspecified"},
		{"224.0.0.1", "link-local multicast range"},
		{"239.1.1.1", "multicast address"},
		{"ff05::1", "multicast address"},
		{"255.255.255.255", "broadcast address"},
		{"10.244.0.256", "valid IP address"},
	} {
		errs := checkPodAddr(field.NewPath("status", "podIPs").Index(0), tc.text)
		if (len(errs) == 0) != (tc.want == "") || len(errs) > 1 || len(errs) == 1 && !strings.Contains(errs[0].Detail, tc.want) {
			t.Errorf("%q: got %v, want %q", tc.text, errs, tc.want)
		}
	}
}

// TestTextOfAliasesIsBounded keeps a small file from becoming much JSON.
func TestTextOfAliasesIsBounded(t *testing.T) {
	text := tree{kind: stringValue, text: strings.Repeat("x", 1<<20)}
	list := tree{kind: listValue}
	for range 1000 {
		list.items = append(list.items, text)
	}
	if n := len(list.appendJSON(nil)); n < maxObjectBytes || n > 2*maxObjectBytes {
		t.Errorf("%d bytes of JSON, want a little more than %d", n, maxObjectBytes)
	}
}
