package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// events writes the events of a run of package a: "TEST OUTCOME [WHAT IT SAYS]" for
// each test, and how the package ends: by itself with FAIL, or not.
func events(text string, byItself bool) string {
	var out strings.Builder
	outcome := Pass
	for line := range strings.Lines(text) {
		f := strings.SplitN(strings.TrimSpace(line), " ", 3)
		if len(f) < 2 {
			continue
		}
		fmt.Fprintf(&out, `{"Action":"run","Package":"a","Test":"%s"}`+"\n", f[0])
		if len(f) == 3 {
			fmt.Fprintf(&out, `{"Action":"output","Package":"a","Test":"%s","Output":"    %s\n"}`+"\n", f[0], f[2])
		}
		fmt.Fprintf(&out, `{"Action":"%s","Package":"a","Test":"%s"}`+"\n", f[1], f[0])
		if Outcome(f[1]) == Fail {
			outcome = Fail
		}
	}
	if outcome == Fail && byItself {
		out.WriteString(`{"Action":"output","Package":"a","Output":"FAIL\n"}` + "\n")
	}
	fmt.Fprintf(&out, `{"Action":"%s","Package":"a"}`+"\n", outcome)
	return out.String()
}

// TestAgain plays a stage whose failures are run again.
func TestAgain(t *testing.T) {
	tests := []struct {
		name, first string
		panicked    bool
		// listed are the patterns to run again; second is that run.
		listed, second string
		want           []string
	}{
		{
			name:   "what passes then is flaky, and so its parent has passed",
			first:  "TestX pass\nTestS/one.two fail too slow\nTestS fail",
			listed: "a ^TestS$/^one\\.two$\n", second: "TestS/one.two pass\nTestS pass",
			want: []string{"flaky: s a.TestS/one.two: failed once, passed when run again; the first time it said:", "        too slow",
				"exercised: ; 3 passed, 0 failed, 0 skipped, 1 flaky", "3 passed, 0 failed, 0 skipped"},
		},
		{
			name:   "what fails again has failed",
			first:  "TestX pass\nTestY fail why",
			listed: "a ^TestY$\n", second: "TestY fail why, once more",
			want: []string{"failed: s a.TestY; it said:", "        why", "exercised: ; 1 passed, 1 failed, 0 skipped", "1 passed, 1 failed, 0 skipped"},
		},
		{
			name:   "a parent fails with one of its subtests",
			first:  "TestS/one fail 1\nTestS/two fail 2\nTestS fail",
			listed: "a ^TestS$/^one$\na ^TestS$/^two$\n", second: "TestS/one pass\nTestS pass\nTestS/two fail 2\nTestS fail",
			want: []string{"flaky: s a.TestS/one: failed once, passed when run again; the first time it said:", "        1",
				"failed: s a.TestS/two; it said:", "        2", "exercised: ; 1 passed, 2 failed, 0 skipped, 1 flaky", "1 passed, 2 failed, 0 skipped"},
		},
		{
			name:  "nothing failed",
			first: "TestX pass",
			want:  []string{"exercised: ; 1 passed, 0 failed, 0 skipped", "1 passed, 0 failed, 0 skipped"},
		},
		{
			name:  "five are too many",
			first: "T1 fail\nT2 fail\nT3 fail\nT4 fail\nT5 fail",
		},
		{
			name:  "a package that died has more to tell",
			first: "TestX fail boom", panicked: true,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "s.json")
			var out, listed strings.Builder
			_ = follow(Stage{Name: "s"}, strings.NewReader(events(tt.first, !tt.panicked)), &out, file)
			if err := listAgain(file, &listed); err != nil || listed.String() != tt.listed {
				t.Fatalf("to run again: %q, %v; want %q", listed.String(), err, tt.listed)
			}
			if tt.second != "" {
				_ = followAgain(file, strings.NewReader(events(tt.second, true)), &out)
			}
			if tt.want == nil {
				return
			}
			out.Reset()
			_ = total([]string{file}, true, &out)
			if got := strings.Split(strings.TrimSpace(out.String()), "\n"); !slices.Equal(got, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", out.String(), strings.Join(tt.want, "\n"))
			}
		})
	}
}

// TestLastLines: the cause stands at the end of what a test says.
func TestLastLines(t *testing.T) {
	said := []string{"=== RUN TestX\n"}
	for i := range 20 {
		said = append(said, fmt.Sprintf("line %d\n", i), "\n")
	}
	said = append(said, strings.Repeat("x", 1000), "--- FAIL: TestX (0.00s)\n")
	got := lastLines(said)
	if len(got) != lastMost || got[0] != "line 9" || len(got[lastMost-1]) > lastLength+4 {
		t.Errorf("%q", got)
	}
}
