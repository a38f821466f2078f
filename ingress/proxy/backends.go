package proxy

import (
	"net"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/ingress"
)

// backends keep the pools of a Config filled from Services and EndpointSlices. A
// change of a Service costs what its own pools cost.
type backends struct {
	mu       sync.Mutex
	services map[types.NamespacedName]*corev1.Service
	slices   map[types.NamespacedName]map[string]*discoveryv1.EndpointSlice
	pools    map[poolKey]*pool
	metrics  *metrics
}

// poolKey tells pools apart.
type poolKey struct {
	service  types.NamespacedName
	port     uint16
	portName string
	// protocol is one more than that of the Backend, 0 when it has none.
	protocol uint8
	refused  string
}

func keyOf(b ingress.Backend) poolKey {
	key := poolKey{service: b.Service, port: b.Port, portName: b.PortName, refused: b.Refused}
	if b.Protocol != nil {
		key.protocol = 1 + uint8(*b.Protocol)
	}
	return key
}

func newBackends(m *metrics) *backends {
	return &backends{
		services: map[types.NamespacedName]*corev1.Service{},
		slices:   map[types.NamespacedName]map[string]*discoveryv1.EndpointSlice{},
		pools:    map[poolKey]*pool{},
		metrics:  m,
	}
}

// use makes the pools those that a Config names. Pools that stay keep their targets.
func (b *backends) use(named []ingress.Backend) map[poolKey]*pool {
	b.mu.Lock()
	defer b.mu.Unlock()
	pools := make(map[poolKey]*pool, len(named))
	for _, backend := range named {
		key := keyOf(backend)
		if pools[key] != nil {
			continue
		}
		if old := b.pools[key]; old != nil {
			pools[key] = old
			continue
		}
		pools[key] = &pool{backend: backend}
		b.fill(pools[key])
	}
	for key, old := range b.pools {
		if pools[key] == nil {
			old.leave(b.metrics)
		}
	}
	b.pools = pools
	return pools
}

// update takes in changes of Services and EndpointSlices; other objects are passed over.
func (b *backends) update(events []cluster.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	touched := map[types.NamespacedName]bool{}
	for _, e := range events {
		switch e.Object.Kind {
		case cluster.Service:
			b.setService(e)
			touched[e.Object.NamespacedName] = true
		case cluster.EndpointSlice:
			for _, service := range b.setSlice(e) {
				touched[service] = true
			}
		}
	}
	for key, p := range b.pools {
		if touched[key.service] {
			b.fill(p)
		}
	}
}

func (b *backends) setService(e cluster.Event) {
	if svc, ok := e.New.(*corev1.Service); ok && svc != nil {
		b.services[e.Object.NamespacedName] = svc
		return
	}
	delete(b.services, e.Object.NamespacedName)
}

// setSlice returns the Services that the slice was of and is of.
func (b *backends) setSlice(e cluster.Event) []types.NamespacedName {
	var touched []types.NamespacedName
	if old, ok := e.Old.(*discoveryv1.EndpointSlice); ok && old != nil {
		service := serviceOf(old)
		delete(b.slices[service], old.Name)
		if len(b.slices[service]) == 0 {
			delete(b.slices, service)
		}
		touched = append(touched, service)
	}
	if s, ok := e.New.(*discoveryv1.EndpointSlice); ok && s != nil {
		service := serviceOf(s)
		if b.slices[service] == nil {
			b.slices[service] = map[string]*discoveryv1.EndpointSlice{}
		}
		b.slices[service][s.Name] = s
		touched = append(touched, service)
	}
	return touched
}

func serviceOf(s *discoveryv1.EndpointSlice) types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: s.Labels[discoveryv1.LabelServiceName]}
}

// fill resolves a pool anew.
func (b *backends) fill(p *pool) {
	service := p.backend.Service
	all := make([]*discoveryv1.EndpointSlice, 0, len(b.slices[service]))
	for _, s := range b.slices[service] {
		all = append(all, s)
	}
	found := ingress.Resolve(p.backend, b.services[service], all)
	set := targetSet{protocol: found.Protocol, affinity: found.Affinity, missing: found.Reason.String()}
	var addresses []string
	if found.Reason == ingress.Usable && found.External != "" {
		addresses = []string{net.JoinHostPort(found.External, strconv.Itoa(int(found.ExternalPort)))}
	}
	for _, e := range found.Endpoints {
		addresses = append(addresses, e.Address.String())
	}
	p.become(addresses, set, b.metrics)
}
