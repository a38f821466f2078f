package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/websocket"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pods are the servers of the suite: they tell what request reached them.
type pods struct {
	api   *api
	mu    sync.Mutex
	count int
	logs  map[string][]line // by namespace/name
	known map[string]bool   // Deployments that have theirs
}

// line is one of a log.
type line struct {
	at   time.Time
	text string
}

// run makes the Pods of a Deployment, once, and serves them until the test ends.
func (p *pods) run(t *testing.T, d *appsv1.Deployment) {
	if p.known[d.Namespace+"/"+d.Name] {
		return
	}
	p.known[d.Namespace+"/"+d.Name] = true
	replicas := 1
	if d.Spec.Replicas != nil {
		replicas = int(*d.Spec.Replicas)
	}
	for i := range replicas {
		p.count++
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: fmt.Sprintf("%s-7d9f8-%d", d.Name, i), Labels: d.Spec.Template.Labels},
			Spec:       d.Spec.Template.Spec,
			Status: corev1.PodStatus{
				Phase: corev1.PodRunning, PodIP: fmt.Sprintf("127.20.0.%d", p.count),
				Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			},
		}
		pod.Status.PodIPs = []corev1.PodIP{{IP: pod.Status.PodIP}}
		p.serve(t, pod)
		if err := p.api.Create(context.Background(), pod); err != nil {
			t.Errorf("Pod %s: %v", pod.Name, err)
		}
	}
}

// serve opens the ports of a Pod: 3000 speaks HTTP/1.1, 3001 HTTP/2 without TLS.
func (p *pods) serve(t *testing.T, pod *corev1.Pod) {
	mux := http.NewServeMux()
	mux.Handle("/ws", websocket.Handler(func(ws *websocket.Conn) { _, _ = io.Copy(ws, ws) }))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { p.echo(pod, w, r) })
	for _, port := range []string{"3000", "3001"} {
		ln, err := net.Listen("tcp", net.JoinHostPort(pod.Status.PodIP, port))
		if err != nil {
			t.Errorf("Pod %s: %v", pod.Name, err)
			continue
		}
		srv := &http.Server{Handler: mux, Protocols: &http.Protocols{}, ReadHeaderTimeout: time.Minute}
		srv.Protocols.SetHTTP1(port == "3000")
		srv.Protocols.SetUnencryptedHTTP2(port == "3001")
		go func() { _ = srv.Serve(ln) }()
		t.Cleanup(func() { _ = srv.Close() })
	}
}

// echo answers with what the suite compares, after ?delay=, and with the headers that
// the request orders.
func (p *pods) echo(pod *corev1.Pod, w http.ResponseWriter, r *http.Request) {
	name := pod.Namespace + "/" + pod.Name
	p.mu.Lock()
	p.logs[name] = append(p.logs[name], line{time.Now(), "Echoing back request made to " + r.RequestURI + " to client (" + r.RemoteAddr + ")"})
	p.mu.Unlock()
	if d, err := time.ParseDuration(r.FormValue("delay")); err == nil {
		select {
		case <-time.After(d):
		case <-r.Context().Done():
			return
		}
	}
	for pair := range strings.SplitSeq(strings.Join(r.Header["X-Echo-Set-Header"], ","), ",") {
		if name, value, ok := strings.Cut(strings.TrimSpace(pair), ":"); ok {
			w.Header()[name] = []string{strings.Join(append(w.Header()[name], strings.TrimSpace(value)), ",")}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"path": r.RequestURI, "host": r.Host, "method": r.Method, "proto": r.Proto, "headers": r.Header,
		"namespace": pod.Namespace, "pod": pod.Name,
	})
}

// logServer answers for the logs of Pods, at the path that an API server has them at.
func (p *pods) logServer(t *testing.T) string {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/namespaces/{namespace}/pods/{name}/log", func(w http.ResponseWriter, r *http.Request) {
		since, _ := time.Parse(time.RFC3339, r.FormValue("sinceTime"))
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, l := range p.logs[r.PathValue("namespace")+"/"+r.PathValue("name")] {
			if l.at.After(since) {
				_, _ = fmt.Fprintln(w, l.text)
			}
		}
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv.URL
}
