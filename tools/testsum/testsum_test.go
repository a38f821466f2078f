package main

import (
	"path/filepath"
	"strings"
	"testing"
)

const project = "github.com/toyproxy/toyproxy/"

// stageFile saves a stage whose results are written "PACKAGE TEST OUTCOME [REASON or EXERCISED]", a line each.
func stageFile(t *testing.T, kernel, text string) string {
	t.Helper()
	s := Stage{Name: kernel, Kernel: kernel}
	for line := range strings.Lines(text) {
		f := strings.SplitN(strings.TrimSpace(line), " ", 4)
		if len(f) < 3 {
			continue
		}
		r := Result{Package: project + f[0], Test: f[1], Outcome: Outcome(f[2])}
		if len(f) == 4 && r.Outcome == Pass {
			r.Exercised = f[3]
		} else if len(f) == 4 {
			r.Reason = f[3]
		}
		s.Results = append(s.Results, r)
	}
	file := filepath.Join(t.TempDir(), "stage")
	if err := s.write(file); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestTotal(t *testing.T) {
	const ipvsPassed = "test/conformance TestFlows/ipvs/x pass ipvs IPv4\ntest/conformance TestFlows/ipvs/y pass ipvs IPv6\n"
	tests := []struct {
		name       string
		native, vm string
		allow, bad bool
		want       []string
	}{
		{
			name: "a test that passed in the guest is not skipped",
			native: `test/conformance TestFlows/iptables-nft/x pass iptables-nft IPv4
				test/conformance TestFlows/iptables-legacy/x pass iptables-legacy IPv4
				test/conformance TestFlows/ipvs/x skip SKIP(kernel): no ip_vs`,
			vm: ipvsPassed,
			want: []string{
				"exercised: iptables(legacy,nft)×(IPv4) in here; ipvs×(IPv4,IPv6) in uml; 4 passed, 0 failed, 0 skipped",
				"4 passed, 0 failed, 0 skipped",
			},
		},
		{
			name:   "no IPVS",
			native: "test/conformance TestFlows/ipvs/IPv4/x skip SKIP(kernel): no ip_vs\ntest/conformance TestFlows/ipvs/IPv4 pass",
			bad:    true,
			want: []string{"skipped: test/conformance.TestFlows/ipvs/IPv4/x: SKIP(kernel): no ip_vs",
				"IPVS was not exercised", "exercised: ; 1 passed", "1 passed, 0 failed, 1 skipped"},
		},
		{
			name:   "no IPVS, allowed",
			native: "dataplane TestX pass", allow: true,
			want: []string{"exercised: ; 1 passed", "1 passed, 0 failed, 0 skipped"},
		},
		{
			name:   "a skip without a kernel's want",
			native: "dataplane TestX skip too slow", vm: ipvsPassed, bad: true,
			want: []string{"skipped: dataplane.TestX: too slow", "exercised: ", "2 passed, 0 failed, 1 skipped"},
		},
		{
			name:   "a failure",
			native: "dataplane TestX fail", vm: ipvsPassed, bad: true,
			want: []string{"failed: here dataplane.TestX; it said:", "    (nothing)", "exercised: ", "2 passed, 1 failed, 0 skipped"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			err := total([]string{stageFile(t, "here", tt.native), stageFile(t, "uml", tt.vm)}, tt.allow, &out)
			if (err != nil) != tt.bad {
				t.Errorf("error %v, want one: %v", err, tt.bad)
			}
			got := strings.Split(strings.TrimSpace(out.String()), "\n")
			if len(got) != len(tt.want) {
				t.Fatalf("got %d lines:\n%s", len(got), out.String())
			}
			for i := range got {
				if !strings.HasPrefix(got[i], tt.want[i]) {
					t.Errorf("line %d:\n got %s\nwant %s", i, got[i], tt.want[i])
				}
			}
		})
	}
}

func TestFollow(t *testing.T) {
	tests := []struct {
		name, events string
		bad          bool
		want         []string
	}{
		{
			name: "a pass is one line",
			events: `{"Action":"output","Package":"github.com/toyproxy/toyproxy/a","Test":"TestX","Output":"noise\n"}
				{"Action":"attr","Package":"github.com/toyproxy/toyproxy/a","Test":"TestX","Key":"exercised","Value":"ipvs IPv4"}
				{"Action":"pass","Package":"github.com/toyproxy/toyproxy/a","Test":"TestX"}
				{"Action":"pass","Package":"github.com/toyproxy/toyproxy/a","Elapsed":1.5}`,
			want: []string{"ok   a", "1.5s  1 passed\n"},
		},
		{
			name: "a failure shows what it said",
			events: `{"Action":"output","Package":"a","Test":"TestX","Output":"    a_test.go:3: why\n"}
				{"Action":"fail","Package":"a","Test":"TestX"}
				{"Action":"output","Package":"a","Output":"FAIL\n"}
				{"Action":"fail","Package":"a"}`,
			bad: true, want: []string{"FAIL a.TestX\n", "a_test.go:3: why", "1 failed"},
		},
		{
			name: "a panic fails, with a test that failed before",
			events: `{"Action":"fail","Package":"a","Test":"TestX"}
				{"Action":"run","Package":"a","Test":"TestY"}
				{"Action":"output","Package":"a","Test":"TestY","Output":"panic: boom\n"}
				{"Action":"fail","Package":"a"}`,
			bad: true, want: []string{"FAIL a.TestX\n", "FAIL a\n", "panic: boom", "2 failed"},
		},
		{
			name: "a package that does not compile fails",
			events: `{"ImportPath":"a [a.test]","Action":"build-output","Output":"a.go:1: syntax\n"}
				{"Action":"fail","Package":"a"}`,
			bad: true, want: []string{"FAIL a\n", "a.go:1: syntax"},
		},
		{
			name: "a panic fails, with the test that ran",
			events: `{"Action":"output","Package":"a","Test":"TestX","Output":"panic: boom\n"}
				{"Action":"fail","Package":"a"}`,
			bad: true, want: []string{"panic: boom"},
		},
		{
			name: "a kernel skip passes",
			events: `{"Action":"output","Package":"a","Test":"TestX","Output":"    a_test.go:3: SKIP(kernel): no ip_vs\n"}
				{"Action":"skip","Package":"a","Test":"TestX"}
				{"Action":"pass","Package":"a"}`,
			want: []string{"1 skipped"},
		},
		{
			name: "another skip does not",
			events: `{"Action":"output","Package":"a","Test":"TestX","Output":"    a_test.go:3: flaky\n"}
				{"Action":"skip","Package":"a","Test":"TestX"}
				{"Action":"pass","Package":"a"}`,
			bad: true, want: []string{"SKIP a.TestX without SKIP(kernel): a_test.go:3: flaky"},
		},
		{name: "nothing ran", events: "go: no such tool\n", bad: true, want: []string{"go: no such tool", "no test ended"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			err := follow(Stage{Name: "s"}, strings.NewReader(tt.events), &out, "")
			if (err != nil) != tt.bad {
				t.Errorf("error %v, want one: %v", err, tt.bad)
			}
			for _, want := range tt.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("no %q in:\n%s", want, out.String())
				}
			}
		})
	}
}
