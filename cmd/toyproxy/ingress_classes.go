package main

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/toyproxy/toyproxy/ingress"
	"github.com/toyproxy/toyproxy/ingress/gateway"
)

// controllers are the names by which classes choose a proxy: proxies that are to keep
// apart, each with a Service of its own, have different ones.
type controllers struct{ ingress, gateway string }

func (c controllers) check() error {
	for flag, name := range map[string]string{"--ingress-controller": c.ingress, "--gateway-controller": c.gateway} {
		domain, path, ok := strings.Cut(name, "/")
		if !ok || domain == "" || path == "" {
			return exit(exitUsage, fmt.Errorf("%s %q: write DOMAIN/PATH, such as example.com/edge", flag, name))
		}
	}
	return nil
}

// lockName is that of the file whose holder writes statuses. Proxies with the same names have the
// same statuses to write; one of them does.
func (c controllers) lockName() string {
	if c == (controllers{ingress.ControllerName, string(gateway.ControllerName)}) {
		return "status.lock"
	}
	return "status-" + url.QueryEscape(c.ingress+" "+c.gateway) + ".lock"
}
