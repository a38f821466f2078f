package main

import (
	"context"
	"io"
	"sync"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/cluster/watch"
)

// manifestSource yields the objects that manifests will give, to a server that needs
// no state directory. It implements dns/server.Source.
type manifestSource struct {
	load  func() (cluster.Objects, error)
	store *cluster.Store
	// changed holds a token when there is something to wait for.
	changed chan struct{}

	mu     sync.Mutex
	events []cluster.Event
	failed error
}

// followManifests reads the manifests, and reads them again when they change until the
// context ends.
func followManifests(ctx context.Context, stdin io.Reader, src *sourceFlags, helpers *sync.WaitGroup) (*manifestSource, error) {
	s := &manifestSource{store: cluster.NewStore(), changed: make(chan struct{}, 1)}
	s.load = func() (cluster.Objects, error) {
		d, err := asManifested(ctx, stdin, src, scope{stateDir: noState})
		if err != nil {
			return cluster.Objects{}, err
		}
		o := d.Objects
		o.EndpointSlices = d.Slices
		return o, nil
	}
	objects, err := s.load()
	if err != nil {
		return nil, err
	}
	s.events = s.store.Replace(objects)
	helpers.Go(func() {
		watch.Watch(ctx, watch.Config{Paths: src.files, Wake: s.reload, Began: s.reload, Tell: func(err error) { progress("warning: " + err.Error()) }})
	})
	return s, nil
}

// reload reads the manifests again; those that are wrong as a whole change nothing.
func (s *manifestSource) reload() {
	objects, err := s.load()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed = err; err == nil {
		s.events = append(s.events, s.store.Replace(objects)...)
	}
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// Catch implements dns/server.Source.
func (s *manifestSource) Catch() ([]cluster.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	events, err := s.events, s.failed
	s.events, s.failed = nil, nil
	return events, err
}

// Wait implements dns/server.Source.
func (s *manifestSource) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.changed:
		return nil
	}
}
