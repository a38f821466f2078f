package proxy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/toyproxy/toyproxy/ingress"
)

// slowly sends a line at each tick of a channel, and says that it ends.
func slowly(tick <-chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for range tick {
			_, _ = io.WriteString(w, "line\n")
			_ = http.NewResponseController(w).Flush()
		}
		_, _ = io.WriteString(w, "end\n")
	}
}

// reload edits what the open connections do not need: other routes, another Service,
// other endpoints of their own Service, a certificate.
func (l *lab) reload(i int, kept []ingress.Route, other string, certs ...ingress.Certificate) {
	routes := append([]ingress.Route{}, kept...)
	for j := range i % 7 {
		routes = append(routes, route(fmt.Sprintf("other-%d-%d.example", i, j), "other"))
	}
	l.apply(routes, certs...)
	if i%2 == 0 {
		l.serve("other", []string{other})
	} else {
		l.serve("other", nil)
	}
}

// TestReload is field fault 108: 200 edits, and nothing that is open drops.
func TestReload(t *testing.T) {
	const sockets, downloads, edits = 100, 20, 200
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	l := newLab(t, Options{})
	tick := make(chan struct{})
	web, files, other := endpoint(t, webSocketEcho), endpoint(t, slowly(tick)), endpoint(t, says("other"))
	l.serve("web", []string{web})
	l.serve("files", []string{files})
	kept := []ingress.Route{route("web.example", "web"), route("files.example", "files")}
	l.apply(kept)

	var conns []*websocket.Conn
	for range sockets {
		c, _, err := websocket.Dial(ctx, "ws://"+l.addr(80)+"/", &websocket.DialOptions{Host: "web.example"})
		if err != nil {
			t.Fatal(err)
		}
		defer c.CloseNow()
		conns = append(conns, c)
	}
	var bodies sync.WaitGroup
	results := make(chan string, downloads)
	for range downloads {
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.addr(80)+"/", nil)
		r.Host = "files.example"
		bodies.Go(func() {
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				results <- err.Error()
				return
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			results <- fmt.Sprintf("%v, %q at the end", err, text[max(0, len(text)-4):])
		})
	}
	for i := range edits {
		l.reload(i, kept, other)
		tick <- struct{}{}
		if err := talk(ctx, conns[i%sockets], fmt.Sprint("message ", i)); err != nil {
			t.Fatalf("edit %d: %v", i, err)
		}
	}
	// The endpoints themselves go: what is open to them goes on until it ends.
	l.serve("web", nil)
	l.serve("files", nil)
	for i, c := range conns {
		if err := talk(ctx, c, "still here"); err != nil {
			t.Errorf("connection %d after its endpoint was removed: %v", i, err)
		}
	}
	if resp, _ := l.do("GET", "web.example", "/"); resp.StatusCode != 503 {
		t.Errorf("a new request to a Service without endpoints: %d", resp.StatusCode)
	}
	close(tick)
	bodies.Wait()
	for range downloads {
		if got := <-results; got != `<nil>, "end\n" at the end` {
			t.Errorf("download: %s", got)
		}
	}
}

// TestReloadUnderLoad: requests that come while the configuration changes are all answered.
func TestReloadUnderLoad(t *testing.T) {
	l := newLab(t, Options{})
	a, b := endpoint(t, says("a")), endpoint(t, says("b"))
	l.serve("web", []string{a})
	kept := []ingress.Route{route("web.example", "web")}
	l.apply(kept)
	done := make(chan struct{})
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if resp, body := l.do("GET", "web.example", "/"); resp.StatusCode != 200 {
					t.Errorf("%d %q", resp.StatusCode, body)
					return
				}
			}
		})
	}
	for i := range 100 {
		l.reload(i, kept, a)
		l.serve("web", [][]string{{a}, {b}, {a, b}}[i%3])
	}
	close(done)
	clients.Wait()
}
