package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
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
//
// A directory that is there but cannot be used is an error, not a reason to take
// the next: that would replace what runs by something else.
func (f *sourceFlags) source(stdin io.Reader, earlier func(types.NamespacedName) *corev1.Service) (source, error) {
	opts := manifest.Options{
		Paths: f.files, Stdin: stdin, ServiceCIDRs: f.serviceCIDRs.set, Earlier: earlier,
	}
	if len(f.files) > 0 {
		return source{opts, strings.Join(f.files, ", ")}, nil
	}
	for _, dir := range defaultPaths {
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		opts.Paths = []string{dir}
		return source{opts, dir}, trusted(dir)
	}
	opts.FS, opts.Paths = demo.Manifests, []string{"manifests"}
	return source{opts, fmt.Sprintf("built-in demo (no %s, no %s)", defaultPaths[0], defaultPaths[1])}, nil
}

// trusted refuses manifests that root would take from somebody else's directory
// only because it is the current one: they name programs to run.
func trusted(dir string) error {
	var st unix.Stat_t
	if os.Geteuid() != 0 || unix.Stat(dir, &st) != nil || st.Uid == 0 || strconv.Itoa(int(st.Uid)) == os.Getenv("SUDO_UID") {
		return nil
	}
	return exit(exitBadManifest, fmt.Errorf("%s belongs to uid %d, neither root nor you: if you trust it, name it: -f %s", dir, st.Uid, dir))
}

// load reads the objects of a source.
func (s source) load(ctx context.Context) (agent.Input, error) {
	res, err := manifest.Load(ctx, s.options)
	if err != nil {
		return agent.Input{}, exit(exitBadManifest, err)
	}
	return agent.Input{Objects: res.Objects, Problems: res.Problems, Locate: res.Locate}, nil
}
