package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/cluster/manifest"
	"github.com/toyproxy/toyproxy/demo"
)

// defaultPaths are tried in order when no -f is given.
var defaultPaths = [...]string{"./manifests", "/etc/toyproxy/manifests"}

// source is where objects come from, and how to say so.
type source struct {
	options     manifest.Options
	description string
}

// source picks the manifests: -f, else the first default directory that
// exists, else the built-in demo.
func (f *sourceFlags) source(stdin io.Reader, earlier func(types.NamespacedName) *corev1.Service) source {
	opts := manifest.Options{
		Paths: f.files, Stdin: stdin, ServiceCIDRs: f.serviceCIDRs.set, Earlier: earlier,
	}
	if len(f.files) > 0 {
		return source{opts, strings.Join(f.files, ", ")}
	}
	for _, dir := range defaultPaths {
		if _, err := os.Stat(dir); err == nil {
			opts.Paths = []string{dir}
			return source{opts, dir}
		}
	}
	opts.FS, opts.Paths = demo.Manifests, []string{"manifests"}
	return source{opts, fmt.Sprintf("built-in demo (no %s, no %s)", defaultPaths[0], defaultPaths[1])}
}

// load reads the objects of a source.
func (s source) load(ctx context.Context) (agent.Input, error) {
	res, err := manifest.Load(ctx, s.options)
	if err != nil {
		return agent.Input{}, exit(exitBadManifest, err)
	}
	return agent.Input{Objects: res.Objects, Problems: res.Problems, Locate: res.Locate}, nil
}
