// Package apiserver is as much of a kube-apiserver as CoreDNS's kubernetes plugin needs:
// list and watch of Services, EndpointSlices, Pods and Namespaces, in JSON, of objects
// that a test sets.
//
// It checks nothing, forgets nothing and authenticates nobody.
package apiserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Server holds objects. It is an http.Handler, and safe for concurrent use.
type Server struct {
	mu      sync.Mutex
	objects map[string]metav1.Object // by resource, namespace and name
	log     []event
	grown   chan struct{} // closed when the log grows
}

// event is a line of a watch. Its resource version is its place in the log, from 1.
type event struct {
	resource string
	Type     string          `json:"type"`
	Object   json.RawMessage `json:"object"`
}

// New returns a server without objects.
func New() *Server {
	return &Server{objects: map[string]metav1.Object{}, grown: make(chan struct{})}
}

// Set creates an object or puts it in the place of the one of its name.
func (s *Server) Set(obj metav1.Object) error { return s.add(obj, "ADDED", "MODIFIED") }

// Delete removes an object.
func (s *Server) Delete(obj metav1.Object) error { return s.add(obj, "DELETED", "DELETED") }

func (s *Server) add(obj metav1.Object, first, then string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	resource, err := label(obj)
	if err != nil {
		return err
	}
	obj.SetResourceVersion(strconv.Itoa(len(s.log) + 1))
	raw, err := json.Marshal(obj)
	if err != nil {
		return fmt.Errorf("encoding of %s/%s: %w", obj.GetNamespace(), obj.GetName(), err)
	}
	key := resource + "/" + obj.GetNamespace() + "/" + obj.GetName()
	kind := first
	if s.objects[key] != nil {
		kind = then
	}
	s.objects[key] = obj
	if kind == "DELETED" {
		delete(s.objects, key)
	}
	s.log = append(s.log, event{resource: resource, Type: kind, Object: raw})
	close(s.grown)
	s.grown = make(chan struct{})
	return nil
}

// label sets an object's kind, as it is in JSON, and returns its resource.
func label(obj metav1.Object) (string, error) {
	switch obj := obj.(type) {
	case *corev1.Service:
		obj.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}
		return "services", nil
	case *corev1.Pod:
		obj.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
		return "pods", nil
	case *corev1.Namespace:
		obj.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}
		return "namespaces", nil
	case *discoveryv1.EndpointSlice:
		obj.TypeMeta = metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"}
		return "endpointslices", nil
	}
	return "", fmt.Errorf("object %T: of no resource here", obj)
}

// kinds are those of the resources, with their API versions.
var kinds = map[string][2]string{
	"/api/v1/services":                         {"v1", "Service"},
	"/api/v1/pods":                             {"v1", "Pod"},
	"/api/v1/namespaces":                       {"v1", "Namespace"},
	"/apis/discovery.k8s.io/v1/endpointslices": {"discovery.k8s.io/v1", "EndpointSlice"},
}

// ServeHTTP lists and watches.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind, ok := kinds[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	resource := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	w.Header().Set("Content-Type", "application/json")
	q := r.URL.Query()
	if watch := q.Get("watch"); watch != "" && watch != "false" && watch != "0" {
		s.watch(w, r, resource, kind)
		return
	}
	items, version := s.list(resource)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"apiVersion": kind[0], "kind": kind[1] + "List", "metadata": map[string]string{"resourceVersion": strconv.Itoa(version)}, "items": items,
	})
}

// list returns the objects of a resource but for Pods that have ended, which CoreDNS
// leaves out by a field selector.
func (s *Server) list(resource string) (items []metav1.Object, version int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	items = []metav1.Object{}
	for key, obj := range s.objects {
		if strings.HasPrefix(key, resource+"/") && selected(obj) {
			items = append(items, obj)
		}
	}
	return items, len(s.log)
}

func selected(obj metav1.Object) bool {
	pod, ok := obj.(*corev1.Pod)
	return !ok || pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodUnknown
}

// watch sends what happens after a version; with sendInitialEvents, first what there is
// and a bookmark.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, resource string, kind [2]string) {
	out := json.NewEncoder(w)
	version, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		var items []metav1.Object
		items, version = s.list(resource)
		for _, obj := range items {
			_ = out.Encode(map[string]any{"type": "ADDED", "object": obj})
		}
		_ = out.Encode(map[string]any{"type": "BOOKMARK", "object": map[string]any{"apiVersion": kind[0], "kind": kind[1],
			"metadata": map[string]any{"resourceVersion": strconv.Itoa(version), "annotations": map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}})
	}
	for {
		s.mu.Lock()
		events, grown := s.log[min(version, len(s.log)):], s.grown
		s.mu.Unlock()
		for _, e := range events {
			if e.resource == resource {
				_ = out.Encode(e)
			}
		}
		version += len(events)
		if http.NewResponseController(w).Flush() != nil {
			return
		}
		select {
		case <-grown:
		case <-r.Context().Done():
			return
		}
	}
}
