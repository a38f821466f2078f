package main

import (
	"slices"
	"testing"
	"time"

	"github.com/toyproxy/toyproxy/dns"
)

// What dns history -w prints when the file has grown, or was cut and has grown.
func TestUnseen(t *testing.T) {
	history := func(seconds ...int64) (out []dns.Entry) {
		for i, s := range seconds {
			out = append(out, dns.Entry{Time: time.Unix(s, 0), Object: string(rune('a' + i))})
		}
		return out
	}
	times := func(entries []dns.Entry) (out []int64) {
		for _, e := range entries {
			out = append(out, e.Time.Unix())
		}
		return out
	}
	for name, tc := range map[string]struct{ now, seen, want []int64 }{
		"first":            {now: []int64{1, 2}, want: []int64{1, 2}},
		"nothing new":      {now: []int64{1, 2, 2}, seen: []int64{1, 2, 2}},
		"one more":         {now: []int64{1, 2, 3}, seen: []int64{1, 2}, want: []int64{3}},
		"of the same time": {now: []int64{1, 2, 2, 2}, seen: []int64{1, 2}, want: []int64{2, 2}},
		"cut":              {now: []int64{3, 4}, seen: []int64{1, 2, 3}, want: []int64{4}},
		"begun anew":       {now: []int64{9}, seen: []int64{1, 2}, want: []int64{9}},
	} {
		if got := times(unseen(history(tc.now...), history(tc.seen...))); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

func TestRecordsOf(t *testing.T) {
	all := []string{
		"web.default.svc.cluster.local.\t5\tIN\tA\t10.96.0.10",
		"_http._tcp.web.default.svc.cluster.local.\t5\tIN\tSRV\t0 100 80 web.default.svc.cluster.local.",
		"web.shop.svc.cluster.local.\t5\tIN\tA\t10.96.0.11",
		"cobweb.default.svc.cluster.local.\t5\tIN\tA\t10.96.0.12",
	}
	for name, want := range map[string]int{"web": 2, "web.shop.svc.cluster.local.": 1, "shop.svc.cluster.local": 1, "svc.cluster.local": 4, "nobody": 0} {
		if got := recordsOf(slices.Clone(all), name, "default.svc.cluster.local"); len(got) != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
