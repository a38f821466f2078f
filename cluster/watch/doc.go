// Package watch tells when files may have changed: manifests, the live objects of
// a node, a configuration.
//
// It reads no file and knows no format: whoever is woken reads again what he wants.
// It wakes too often rather than too rarely. In the flow it stands before
// cluster/manifest and cluster/state, beside agent's loop.
//
// Files are followed by inotify on their directories, and where a path goes through
// symbolic links on the directory of each of these too: an editor replaces a file
// by another of its name, and a mounted ConfigMap exchanges one link for all of its
// files. Where inotify is not to be had, names, sizes and times are compared every
// few seconds.
package watch
