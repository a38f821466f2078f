package endpoints

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
)

// zones are the zones of nodes, by node name.
type zones map[string]string

// SetNode adds or replaces a Node and returns the Services whose endpoints that
// changes, sorted: those with trafficDistribution that have a Pod on it, when
// its zone label is another one. Nothing else of a Node shows in an endpoint.
func (x *Index) SetNode(object *corev1.Node) []types.NamespacedName {
	return x.setZone(object.Name, object.Labels[corev1.LabelTopologyZone])
}

// DeleteNode removes a Node and returns the Services that this changes, sorted.
// Its Pods stay endpoints until they go themselves.
func (x *Index) DeleteNode(name string) []types.NamespacedName { return x.setZone(name, "") }

func (x *Index) setZone(node, zone string) []types.NamespacedName {
	if x.zones[node] == zone {
		return nil
	}
	if zone == "" {
		delete(x.zones, node)
	} else {
		x.zones[node] = zone
	}
	x.stats.Changes++
	var touched []*service
	for s := range x.distributed {
		x.stats.Visited++
		if s.on(node) {
			touched = append(touched, s)
		}
	}
	return x.touch(touched)
}

// on reports whether the Service has an endpoint on the node.
func (s *service) on(node string) bool {
	for p := range s.pods {
		if p.object.Spec.NodeName == node && hasEndpoint(p.object) {
			return true
		}
	}
	return false
}

// distributes reports whether the Service wants its endpoints to be given to
// clients nearby, and whether a client's own node is nearer than its zone.
func distributes(svc *corev1.Service) (near, node bool) {
	if svc == nil || svc.Spec.TrafficDistribution == nil {
		return false, false
	}
	switch *svc.Spec.TrafficDistribution {
	case corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone:
		return true, false
	case corev1.ServiceTrafficDistributionPreferSameNode:
		return true, true
	}
	return false, false
}

// place says where an endpoint is, and gives it to clients there: hints. Only
// Services that distribute their traffic have either, so that a Node's label
// concerns no others. Endpoints that are not ready have a zone and no hints.
func (zs zones) place(svc *corev1.Service, ep *discoveryv1.Endpoint) {
	near, node := distributes(svc)
	if !near || ep.NodeName == nil {
		return
	}
	if zone := zs[*ep.NodeName]; zone != "" {
		ep.Zone = &zone
	}
	if !*ep.Conditions.Ready {
		return
	}
	hints := &discoveryv1.EndpointHints{}
	if ep.Zone != nil {
		hints.ForZones = []discoveryv1.ForZone{{Name: *ep.Zone}}
	}
	if node {
		hints.ForNodes = []discoveryv1.ForNode{{Name: *ep.NodeName}}
	}
	if len(hints.ForZones)+len(hints.ForNodes) > 0 {
		ep.Hints = hints
	}
}
