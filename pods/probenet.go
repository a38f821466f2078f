package pods

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// proberName is what probes call themselves: servers look for its beginning, to
// leave probes out of their logs.
const proberName = "kube-probe/1.37"

// mostRead bounds what is read of an answer, in bytes.
const mostRead = 10 << 10

// askNetwork asks over the network of the Pod, in which this process is: at a
// port of its address, unless the handler names another host. The context bounds
// it. It returns why the answer is no success.
func askNetwork(ctx context.Context, address string, c *corev1.Container, h corev1.ProbeHandler) (outcome, string) {
	switch {
	case h.HTTPGet != nil:
		return askHTTP(ctx, address, c, h.HTTPGet)
	case h.TCPSocket != nil:
		to, err := hostPort(cmp.Or(h.TCPSocket.Host, address), h.TCPSocket.Port, c)
		if err != nil {
			return unknown, err.Error()
		}
		return askTCP(ctx, to)
	case h.GRPC != nil:
		return askGRPC(ctx, net.JoinHostPort(address, strconv.Itoa(int(h.GRPC.Port))), h.GRPC)
	}
	return unknown, "it has no handler: write exec, httpGet, tcpSocket or grpc"
}

// hostPort resolves a port, which may be the name of one of the container's.
func hostPort(host string, port intstr.IntOrString, c *corev1.Container) (string, error) {
	if port.Type == intstr.Int {
		return net.JoinHostPort(host, strconv.Itoa(port.IntValue())), nil
	}
	for _, p := range c.Ports {
		if p.Name == port.StrVal {
			return net.JoinHostPort(host, strconv.Itoa(int(p.ContainerPort))), nil
		}
	}
	if n, err := strconv.ParseUint(port.StrVal, 10, 16); err == nil {
		return net.JoinHostPort(host, strconv.FormatUint(n, 10)), nil
	}
	return "", fmt.Errorf("container %s has no port named %q: name one of its ports, or write a number", c.Name, port.StrVal)
}

func askTCP(ctx context.Context, to string) (outcome, string) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", to)
	if err != nil {
		return failed, explain(ctx, err)
	}
	_ = conn.Close()
	return passed, ""
}

func askHTTP(ctx context.Context, address string, c *corev1.Container, h *corev1.HTTPGetAction) (outcome, string) {
	req, err := httpRequest(ctx, address, c, h)
	if err != nil {
		return unknown, err.Error()
	}
	transport := &http.Transport{
		DisableKeepAlives: true, DisableCompression: true,
		// Whose certificate it is does not matter: the address is the Pod's own.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, CheckRedirect: sameHost}
	resp, err := client.Do(req)
	if err != nil {
		return failed, explain(ctx, err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, mostRead))
	if resp.StatusCode < 200 || resp.StatusCode > 399 {
		return failed, strings.TrimSuffix(fmt.Sprintf("HTTP status %s of %s: %s", resp.Status, req.URL, lastOf(body)), ": ")
	}
	return passed, ""
}

// sameHost follows redirects to the same host only. One to another host is an
// answer like any other.
func sameHost(req *http.Request, via []*http.Request) error {
	const most = 10
	switch {
	case req.URL.Hostname() != via[0].URL.Hostname():
		return http.ErrUseLastResponse
	case len(via) >= most:
		return fmt.Errorf("%d redirects", most)
	}
	return nil
}

func httpRequest(ctx context.Context, address string, c *corev1.Container, h *corev1.HTTPGetAction) (*http.Request, error) {
	to, err := hostPort(cmp.Or(h.Host, address), h.Port, c)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(h.Path)
	if err != nil {
		u = &url.URL{Path: h.Path}
	}
	u.Scheme, u.Host = strings.ToLower(cmp.Or(string(h.Scheme), "http")), to
	if !strings.HasPrefix(u.Path, "/") {
		u.Path = "/" + u.Path
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	req.Header.Set("User-Agent", proberName)
	req.Header.Set("Accept", "*/*")
	seen := map[string]bool{}
	for _, header := range h.HTTPHeaders {
		name := http.CanonicalHeaderKey(header.Name)
		switch {
		case name == "Host":
			req.Host = header.Value
		case seen[name]:
			req.Header.Add(name, header.Value)
		default:
			req.Header.Set(name, header.Value)
		}
		seen[name] = true
	}
	return req, nil
}

func askGRPC(ctx context.Context, to string, g *corev1.GRPCAction) (outcome, string) {
	conn, err := grpc.NewClient("passthrough:///"+to, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithNoProxy(), grpc.WithUserAgent(proberName))
	if err != nil {
		return unknown, err.Error()
	}
	defer conn.Close()
	var service string
	if g.Service != nil {
		service = *g.Service
	}
	resp, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: service})
	switch s := status.Convert(err); {
	case s.Code() == codes.Unimplemented:
		return failed, "the server at " + to + " does not implement grpc.health.v1.Health"
	case err != nil:
		return failed, fmt.Sprintf("gRPC %s at %s: %s", s.Code(), to, lastOf([]byte(s.Message())))
	case resp.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING:
		return failed, fmt.Sprintf("gRPC service %q at %s is %s", service, to, resp.GetStatus())
	}
	return passed, ""
}

// explain says what went wrong, with a word for a time-out.
func explain(ctx context.Context, err error) string {
	var inner *url.Error
	if errors.As(err, &inner) {
		err = fmt.Errorf("%s %s: %w", inner.Op, inner.URL, inner.Err)
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return "no answer in time (timeoutSeconds): " + err.Error()
	}
	return err.Error()
}
