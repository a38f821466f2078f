package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

const (
	// Those who ask are programs on a timer; whoever sends a request letter by
	// letter, or holds a connection for nothing, is cut off.
	headerLimit = 5 * time.Second
	answerLimit = 30 * time.Second
	idleLimit   = time.Minute
	headerBytes = 16 << 10
	// farewell is how long requests in progress have when the context ends.
	farewell = time.Second
)

// Serve answers on a listener until the context ends, and closes it. Requests in
// progress have a second to end. It returns nil when the context ended it.
func Serve(ctx context.Context, ln net.Listener, h http.Handler) error {
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: headerLimit, WriteTimeout: answerLimit, IdleTimeout: idleLimit, MaxHeaderBytes: headerBytes,
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
		defer cancel()
		if server.Shutdown(last) != nil {
			_ = server.Close()
		}
	})
	err := server.Serve(ln)
	if !stop() {
		<-ended
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	_ = server.Close()
	return fmt.Errorf("HTTP server on %s: %w", ln.Addr(), err)
}
