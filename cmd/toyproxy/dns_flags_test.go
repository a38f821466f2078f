package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/toyproxy/toyproxy/pods"
)

// What --forward takes, and whom it has asked for which zone.
func TestForwardFlags(t *testing.T) {
	file := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(file, []byte("nameserver 192.0.2.9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		values []string
		want   string
	}{
		{[]string{"192.0.2.53"}, "[{. [192.0.2.53:53]}]"},
		{[]string{"192.0.2.53:5353", "2001:db8::53"}, "[{. [192.0.2.53:5353 [2001:db8::53]:53]}]"},
		{[]string{"corp.example=192.0.2.1,192.0.2.2", file}, "[{corp.example [192.0.2.1:53 192.0.2.2:53]} {. [192.0.2.9:53]}]"},
		{[]string{"secret.example=none", "192.0.2.53"}, "[{secret.example []} {. [192.0.2.53:53]}]"},
		{[]string{"dns.example"}, ""}, {[]string{"corp.example="}, ""}, {[]string{"=192.0.2.1"}, ""}, {[]string{"a..b=192.0.2.1"}, ""},
		{[]string{"192.0.2.53", "none"}, ""}, {[]string{"none", "192.0.2.53"}, ""},
	} {
		var f forwardFlags
		var err error
		for _, v := range c.values {
			if e := f.Set(v); e != nil {
				err = e
			}
		}
		if err != nil {
			if c.want != "" {
				t.Errorf("%q: %v", c.values, err)
			}
			continue
		}
		routes, err := f.routes()
		if got := fmt.Sprint(routes); got != c.want || err != nil {
			t.Errorf("%q: %s, %v; want %s", c.values, got, err, c.want)
		}
	}
}

// Whom --allow lets in.
func TestAllowFlag(t *testing.T) {
	for text, want := range map[string]string{"all": "all", "192.0.2.0/24": "192.0.2.0/24", "192.0.2.7/24": "192.0.2.0/24", "192.0.2.7": "192.0.2.7/32",
		"2001:db8::/32": "2001:db8::/32", "x": "", "": "", "192.0.2.0/33": ""} {
		var a allowFlag
		if err := a.Set(text); (err == nil) != (want != "") || err == nil && a.String() != want {
			t.Errorf("%q: %s, %v", text, a.String(), err)
		}
	}
}

// Manifests are served as they are, and as they become; one that cannot be read at all
// takes nothing away.
func TestManifestSource(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "web.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var src sourceFlags
	src.register(&cobra.Command{})
	src.files = []string{dir}
	write(serviceText("web", "10.96.0.10", "web", 80))
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer cancel()
	s, err := followManifests(ctx, nil, &src, &helpers)
	if err != nil {
		t.Fatal(err)
	}
	address := func() string {
		events, err := s.Catch()
		if err != nil {
			t.Error(err)
		}
		for _, e := range events {
			if svc, ok := e.New.(*corev1.Service); ok {
				return svc.Spec.ClusterIP
			}
		}
		return ""
	}
	if got := address(); got != "10.96.0.10" {
		t.Errorf("at first: %q", got)
	}
	write(serviceText("web", "10.96.0.11", "web", 80))
	for got := ""; got != "10.96.0.11"; got = address() {
		if err := s.Wait(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if got := address(); got != "" {
		t.Errorf("twice: %q", got)
	}
}

// A server in a Pod answers for the zone that its node's Pods search, unless it is told.
func TestDomainOfPod(t *testing.T) {
	for _, c := range []struct{ name, node, flag, want string }{
		{"elsewhere", "", "", "cluster.local"},
		{"in a Pod", "other.zone", "", "other.zone"},
		{"told", "other.zone", "--domain=told.zone", "told.zone"},
		{"told by the other name", "other.zone", "--cluster-domain=told.zone", "told.zone"},
		{"no zone", "a_b", "", "error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(pods.DomainVariable, c.node)
			var o dnsOptions
			cmd := &cobra.Command{}
			o.register(cmd)
			if err := cmd.ParseFlags([]string{c.flag}); c.flag != "" && err != nil {
				t.Fatal(err)
			}
			got := "error"
			if err := o.domainOfPod(cmd); err == nil {
				got = o.src.domain.value
			}
			if got != c.want {
				t.Errorf("zone %s, want %s", got, c.want)
			}
		})
	}
}
