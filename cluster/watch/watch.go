package watch

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// quiet is how long nothing has to happen before somebody is woken: who writes a
	// file writes it in several steps. patience bounds that.
	quiet    = 20 * time.Millisecond
	patience = 500 * time.Millisecond
	// lookEvery is how often files are looked at without inotify.
	lookEvery = 2 * time.Second
)

// Config says what to watch, and whom to tell.
type Config struct {
	// Paths are files and directories; what does not exist yet will be seen when it
	// does.
	Paths []string
	// Flat watches directories without those below them.
	Flat bool
	// Wake is called, by a goroutine of Watch, when something may have changed. It
	// must not block for long.
	Wake func()
	// Began is called once the watch has begun: what was read before may have changed
	// unseen. May be nil.
	Began func()
	// Tell is told once why inotify is not used. May be nil.
	Tell func(error)
}

// Watch watches until the context ends; then it returns. It also returns nil at
// once when there are no paths.
func Watch(ctx context.Context, cfg Config) {
	if len(cfg.Paths) == 0 {
		return
	}
	err := follow(ctx, cfg)
	if err == nil || ctx.Err() != nil {
		return
	}
	if cfg.Tell != nil {
		cfg.Tell(fmt.Errorf("inotify: %w: files are looked at every %s instead", err, lookEvery))
	}
	cfg.Wake()
	look(ctx, cfg)
}

// follow watches by inotify. It returns an error when that is not to be had, or no
// longer.
func follow(ctx context.Context, cfg Config) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer w.Close()
	watched := places{}
	if err := watched.become(w, cfg); err != nil {
		return err
	}
	if cfg.Began != nil {
		cfg.Began()
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-w.Errors:
			if !lost(err) {
				return err
			}
		case e := <-w.Events:
			if e.Op == fsnotify.Chmod || !watched.matters(e.Name) {
				continue // reading a file may touch its times
			}
		}
		if !settle(ctx, w) {
			return nil
		}
		if err := watched.become(w, cfg); err != nil {
			return err
		}
		cfg.Wake()
	}
}

// lost tells whether an error says only that events were dropped.
func lost(err error) bool { return errors.Is(err, fsnotify.ErrEventOverflow) }

// settle waits until nothing happens for a moment.
func settle(ctx context.Context, w *fsnotify.Watcher) bool {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	pause := time.NewTimer(quiet)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-limit.C:
			return true
		case <-pause.C:
			return true
		case <-w.Events:
			pause.Reset(quiet)
		case <-w.Errors:
		}
	}
}

// become makes the watched directories those that matter now.
func (ps places) become(w *fsnotify.Watcher, cfg Config) error {
	next := cfg.places()
	for dir := range ps {
		if next[dir] == nil {
			_ = w.Remove(dir) // it may be gone by itself
			delete(ps, dir)
		}
	}
	for dir := range next {
		// Adding it again is needed where a directory was replaced by another.
		if err := w.Add(dir); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("%s: %w", dir, err)
		}
		ps[dir] = next[dir]
	}
	return nil
}

func (cfg Config) places() places {
	if !cfg.Flat {
		return find(cfg.Paths)
	}
	out := places{}
	for _, p := range cfg.Paths {
		out.at(filepath.Clean(p)).all = true
	}
	return out
}

// look compares what files look like, every few seconds.
func look(ctx context.Context, cfg Config) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	seed := maphash.MakeSeed()
	last := cfg.appearance(seed)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if now := cfg.appearance(seed); now != last {
			last = now
			cfg.Wake()
		}
	}
}

// appearance is a hash of names, sizes, times and targets of the entries of all
// directories that matter.
func (cfg Config) appearance(seed maphash.Seed) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	dirs := cfg.places()
	sorted := make([]string, 0, len(dirs))
	for dir := range dirs {
		sorted = append(sorted, dir)
	}
	slices.Sort(sorted)
	for _, dir := range sorted {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			full := filepath.Join(dir, e.Name())
			target, _ := os.Readlink(full)
			fmt.Fprintf(&h, "%s\x00%s\x00", full, target)
			if info, err := os.Stat(full); err == nil {
				fmt.Fprintf(&h, "%d %d\x00", info.Size(), info.ModTime().UnixNano())
			}
		}
	}
	return h.Sum64()
}
