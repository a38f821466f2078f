package health

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/balance"
	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/serve"
)

var _ agent.Observer = (*NodePorts)(nil)

// weightHeader tells load balancers how many endpoints are behind this node.
const weightHeader = "X-Load-Balancing-Endpoint-Weight"

// NodePorts answers load balancers that ask whether this node is any use for a
// Service with externalTrafficPolicy Local: one listener for each health check,
// which comes and goes with it. It is safe for concurrent use.
type NodePorts struct {
	ctx     context.Context
	healthy func() bool
	running sync.WaitGroup

	mu sync.Mutex
	// servers are the open ports, problems those that could not be opened.
	servers  map[uint16]*portServer
	problems []cluster.Problem
	// addrs are the node's addresses on which node ports answer; nil: on all.
	addrs []netip.Addr
}

// NewNodePorts returns one without listeners. They live until the context ends.
// Healthy tells whether the rules of the node are in order.
func NewNodePorts(ctx context.Context, healthy func() bool) *NodePorts {
	return &NodePorts{ctx: ctx, healthy: healthy, servers: map[uint16]*portServer{}}
}

// portServer is the listener of one health check.
type portServer struct {
	owner *NodePorts
	// check is what is answered; the owner's mu guards it.
	check balance.HealthCheck
	port  net.Listener
	end   context.CancelFunc
}

// Observe opens and closes ports for the health checks of a pass.
func (n *NodePorts) Observe(r agent.Report) {
	if r.Whole && r.Err == nil {
		n.mu.Lock()
		n.addrs = slices.Clone(r.Table.Node.Addrs)
		n.mu.Unlock()
	}
	n.Set(r.Checks)
}

// Set opens and closes ports so that just these health checks are answered, in the
// network namespace of the calling thread, and returns what is wrong: ports that
// cannot be opened. Those are tried again by the next call.
func (n *NodePorts) Set(checks []balance.HealthCheck) []cluster.Problem {
	wanted := make(map[uint16]bool, len(checks))
	for _, c := range checks {
		wanted[c.Port] = true
	}
	n.drop(func(port uint16) bool { return !wanted[port] })
	n.mu.Lock()
	defer n.mu.Unlock()
	n.problems = nil
	if n.ctx.Err() != nil {
		return nil
	}
	for _, c := range checks {
		if s := n.servers[c.Port]; s != nil {
			s.check = c
			continue
		}
		if err := n.open(c); err != nil {
			n.problems = append(n.problems, problemOf(c, err))
		}
	}
	return slices.Clone(n.problems)
}

// Problems returns what the last Set found wrong.
func (n *NodePorts) Problems() []cluster.Problem {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.problems)
}

// Ports lists the open ports.
func (n *NodePorts) Ports() []uint16 {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := make([]uint16, 0, len(n.servers))
	for port := range n.servers {
		out = append(out, port)
	}
	slices.SortFunc(out, cmp.Compare[uint16])
	return out
}

// Close closes all ports and waits for the end of what was being answered.
func (n *NodePorts) Close() error {
	n.drop(func(uint16) bool { return true })
	n.running.Wait()
	return nil
}

// drop closes ports: when it returns others may have them. What is being answered
// comes to its end without it.
func (n *NodePorts) drop(unwanted func(port uint16) bool) {
	n.mu.Lock()
	var gone []*portServer
	for port, s := range n.servers {
		if unwanted(port) {
			delete(n.servers, port)
			gone = append(gone, s)
		}
	}
	n.mu.Unlock()
	for _, s := range gone {
		s.end()
		_ = s.port.Close()
	}
}

// open opens the port of a health check. The caller holds mu.
func (n *NodePorts) open(c balance.HealthCheck) error {
	ln, err := serve.Listen(n.ctx, ":"+strconv.Itoa(int(c.Port)))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(n.ctx)
	s := &portServer{owner: n, check: c, port: ln, end: cancel}
	n.servers[c.Port] = s
	n.running.Go(func() {
		defer cancel()
		// An error is the end of the listener; that it has gone is all there is to
		// know, and the next Set opens it again.
		_ = serve.Serve(ctx, nodeListener{ln, n.answersOn}, s)
		n.forget(c.Port, s)
	})
	return nil
}

// forget takes a server out that has ended by itself.
func (n *NodePorts) forget(port uint16, s *portServer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.servers[port] == s {
		delete(n.servers, port)
	}
}

// answersOn tells whether node ports answer on an address of the node. Over
// loopback people may always look.
func (n *NodePorts) answersOn(a netip.Addr) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.addrs) == 0 || a.IsLoopback() || slices.Contains(n.addrs, a)
}

// problemOf says what the Service lacks.
func problemOf(c balance.HealthCheck, err error) cluster.Problem {
	return cluster.Problem{
		Object: cluster.MakeRef(cluster.Service, c.Service.Namespace, c.Service.Name), Field: "spec.healthCheckNodePort", Warning: true,
		Message: fmt.Sprintf("load balancers get no answer for this Service: %v; it is tried again with every pass", err),
	}
}

// verdict is what kube-proxy answers to load balancers.
type verdict struct {
	Service        serviceName `json:"service"`
	LocalEndpoints int         `json:"localEndpoints"`
	ProxyHealthy   bool        `json:"serviceProxyHealthy"`
}

type serviceName struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// ServeHTTP answers a load balancer, whatever the path.
func (s *portServer) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	healthy := s.owner.healthy()
	s.owner.mu.Lock()
	c := s.check
	s.owner.mu.Unlock()
	w.Header().Set(weightHeader, strconv.Itoa(c.Local))
	write(w, codeOf(c.Local > 0 && healthy),
		verdict{serviceName{c.Service.Namespace, c.Service.Name}, c.Local, healthy})
}

// nodeListener accepts connections to those addresses of the node on which node
// ports answer, and resets the others.
type nodeListener struct {
	net.Listener
	answersOn func(netip.Addr) bool
}

// Accept returns the next connection to be answered.
func (l nodeListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		at, ok := c.LocalAddr().(*net.TCPAddr)
		if !ok || l.answersOn(at.AddrPort().Addr().Unmap()) {
			return c, nil
		}
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = c.Close()
	}
}
