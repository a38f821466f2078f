package manifest

import (
	"slices"

	"github.com/toyproxy/toyproxy/cluster"
)

// supportTable is the one place that says what is done with each field of each
// kind; warnings and docs/support.md are made from it.
func supportTable() []entry {
	return slices.Concat(
		of("", metadataSupport()),
		of(cluster.Service, serviceSupport()),
		of(cluster.EndpointSlice, sliceSupport()),
		of(cluster.Pod, podSupport()),
		of(cluster.Pod, volumeSupport()),
		of(cluster.Pod, containerSupport()),
		workloadSupport(),
		of(cluster.ConfigMap, configMapSupport()),
		of(cluster.Secret, secretSupport()),
		doorSupport(),
		of(cluster.Node, nodeSupport()),
		of(cluster.Namespace, namespaceSupport()),
	)
}

func of(kind cluster.Kind, rows []entry) []entry {
	for i := range rows {
		rows[i].kind = kind
	}
	return rows
}

func metadataSupport() []entry {
	return []entry{
		{path: "apiVersion", standing: honoured},
		{path: "kind", standing: honoured},
		{path: "metadata.name", standing: honoured},
		{path: "metadata.namespace", standing: honoured, note: "`default` when left out; the Namespace object need not exist"},
		{path: "metadata.labels", standing: honoured},
		{path: "metadata.annotations", standing: kept, note: "honoured are `toyproxy.dev/weight` on Pods and `toyproxy.dev/weights` on EndpointSlices: shares of traffic, 1 to 100; `toyproxy.dev/ipvs-scheduler` (or `kube-router.io/service.scheduler`) on Services: a scheduler that backend ipvs uses if the kernel has it, others do not look"},
		{path: "metadata.creationTimestamp", standing: honoured, note: "decides which of two Services keeps an address that both claim"},
		{path: "metadata.deletionTimestamp", standing: honoured, note: "makes a Pod a terminating one"},
		{path: "metadata.deletionGracePeriodSeconds", standing: kept},
		{path: "metadata.uid", standing: kept},
		{path: "metadata.resourceVersion", standing: kept},
		{path: "metadata.generation", standing: kept},
		{path: "metadata.managedFields", standing: kept},
		{path: "metadata.selfLink", standing: kept},
		{path: "metadata.generateName", standing: kept, note: "every object needs a `name`"},
		{path: "metadata.ownerReferences", standing: honoured, note: "of ReplicaSets and Pods: whose they are"},
		{path: "metadata.finalizers", standing: ignored},
	}
}

func serviceSupport() []entry {
	return []entry{
		{path: "spec.ports", standing: honoured},
		{path: "spec.ports.nodePort", standing: honoured, note: "30000 to 32767; given out where it is left out, and kept"},
		{path: "spec.ports.appProtocol", standing: honoured, note: "by `toyproxy ingress`: `kubernetes.io/h2c`, `kubernetes.io/ws`, `https`, `grpc`; nobody else looks into the traffic"},
		{path: "spec.selector", standing: honoured},
		{path: "spec.clusterIP", standing: honoured},
		{path: "spec.clusterIPs", standing: honoured},
		{path: "spec.ipFamilies", standing: honoured},
		{path: "spec.ipFamilyPolicy", standing: honoured},
		{path: "spec.sessionAffinity", standing: honoured},
		{path: "spec.sessionAffinityConfig", standing: honoured},
		{path: "spec.publishNotReadyAddresses", standing: honoured},
		{path: "spec.type", standing: honoured, note: "an `ExternalName` has no frontends, see `spec.externalName`"},
		{path: "spec.externalIPs", standing: honoured, note: "wherever such a packet reaches the node; nothing announces them"},
		{path: "spec.externalName", standing: honoured, note: "a CNAME of the cluster's DNS"},
		{path: "spec.externalTrafficPolicy", standing: honoured},
		{path: "spec.internalTrafficPolicy", standing: honoured, note: "of the cluster IP"},
		{path: "spec.trafficDistribution", standing: honoured, note: "from the zone labels of Node objects; `--node` says which of them this is"},
		{path: "spec.healthCheckNodePort", standing: honoured, note: "answered by `run`"},
		{path: "spec.allocateLoadBalancerNodePorts", standing: honoured},
		{path: "spec.loadBalancerIP", standing: ignored, note: "deprecated, and nobody here gives out such addresses; write `status.loadBalancer.ingress`"},
		{path: "spec.loadBalancerClass", standing: kept, note: "names who gives out the address"},
		{path: "spec.loadBalancerSourceRanges", standing: honoured, note: "of load-balancer addresses, for every source; node ports and external IPs stay open, as with kube-proxy"},
		{path: "status.loadBalancer", standing: honoured, note: "addresses with `ipMode: VIP` are frontends, those with `Proxy` and host names are not; ports are not read"},
		{path: "status.conditions", standing: kept},
	}
}

func sliceSupport() []entry {
	return []entry{
		{path: "addressType", standing: ignored, unless: []string{"IPv4", "IPv6"}, note: "`FQDN` slices have no endpoints"},
		{path: "ports", standing: honoured},
		{path: "ports.appProtocol", standing: ignored},
		{path: "endpoints.addresses", standing: honoured},
		{path: "endpoints.conditions", standing: honoured},
		{path: "endpoints.nodeName", standing: honoured},
		{path: "endpoints.targetRef", standing: kept},
		{path: "endpoints.hostname", standing: honoured, note: "a name of the cluster's DNS, below that of the Service"},
		{path: "endpoints.zone", standing: kept, note: "the hints decide"},
		{path: "endpoints.hints", standing: honoured, note: "`forNodes`, else `forZones` with the zone label of the Node object"},
		{path: "endpoints.deprecatedTopology", standing: ignored},
	}
}

func nodeSupport() []entry {
	return []entry{
		{path: "spec.podCIDR", standing: honoured},
		{path: "spec.podCIDRs", standing: honoured, note: "of this node's Pods; with `--all-nodes` the others' routes to them as well"},
		{path: "spec.taints", standing: ignored},
		{path: "spec.unschedulable", standing: ignored},
		{path: "spec.podPreemptionPolicy", standing: ignored},
		{path: "spec.configSource", standing: ignored},
		{path: "spec.providerID", standing: kept},
		{path: "spec.externalID", standing: kept},
		{path: "status", standing: kept},
		{path: "status.addresses", standing: honoured, note: "`--nodeport-addresses primary`, and source ranges that hold one; on the node itself the addresses of its links count; with `--all-nodes` they are its addresses"},
	}
}

func namespaceSupport() []entry {
	return []entry{
		{path: "spec.finalizers", standing: kept},
		{path: "status", standing: kept},
	}
}
