package manifest

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/toyproxy/toyproxy/cluster"
)

// The node ports that Kubernetes gives out unless told otherwise.
const (
	firstNodePort = 30000
	lastNodePort  = 32767
	// dynamicNodePort leaves 86 ports below it to people who choose one
	// (KEP-3668: size/32, between 16 and 128).
	dynamicNodePort = firstNodePort + (lastNodePort-firstNodePort+1)/32
)

// nodePorts says who has which node port. TCP and UDP of one number are two
// ports: kube-apiserver confuses them and refuses what the kernel can do.
type nodePorts map[portKey]cluster.Ref

// healthPort is the port on which load balancers ask a Service's health.
func healthPort(number int32) portKey { return portKey{corev1.ProtocolTCP, number} }

// refuse says why a Service may not have the node ports it asks for.
func (n nodePorts) refuse(spec *corev1.ServiceSpec) (errs field.ErrorList) {
	own := map[portKey]bool{}
	for i, p := range spec.Ports {
		if p.NodePort != 0 {
			own[portKey{p.Protocol, p.NodePort}] = true
			errs = append(errs, n.refuseOne(portKey{p.Protocol, p.NodePort}, field.NewPath("spec", "ports").Index(i).Child("nodePort"))...)
		}
	}
	if h := spec.HealthCheckNodePort; h != 0 {
		path := field.NewPath("spec", "healthCheckNodePort")
		errs = append(errs, n.refuseOne(healthPort(h), path)...)
		if own[healthPort(h)] {
			errs = append(errs, field.Duplicate(path, h))
		}
	}
	return errs
}

func (n nodePorts) refuseOne(key portKey, path *field.Path) field.ErrorList {
	if key.number < firstNodePort || key.number > lastNodePort {
		return field.ErrorList{field.Invalid(path, key.number, fmt.Sprintf("not a node port; choose one between %d and %d, or leave the field out", firstNodePort, lastNodePort))}
	}
	if owner, taken := n[key]; taken {
		return field.ErrorList{field.Invalid(path, key.number, fmt.Sprintf("%s has this %s node port; choose another, or leave the field out", owner, key.protocol))}
	}
	return nil
}

func (n nodePorts) claim(spec *corev1.ServiceSpec, owner cluster.Ref) {
	for _, p := range spec.Ports {
		if p.NodePort != 0 {
			n[portKey{p.Protocol, p.NodePort}] = owner
		}
	}
	if spec.HealthCheckNodePort != 0 {
		n[healthPort(spec.HealthCheckNodePort)] = owner
	}
}

// wantsNodePorts reports whether ports without a node port are given one.
func wantsNodePorts(spec *corev1.ServiceSpec) bool {
	return spec.Type == corev1.ServiceTypeNodePort ||
		spec.Type == corev1.ServiceTypeLoadBalancer && *spec.AllocateLoadBalancerNodePorts
}

// take sets *port to number when it is unset and the number is free.
func (n nodePorts) take(port *int32, key portKey, owner cluster.Ref) {
	if _, taken := n[key]; *port == 0 && !taken && key.number >= firstNodePort && key.number <= lastNodePort {
		n[key] = owner
		*port = key.number
	}
}

// keep gives a Service the node ports that its ports had, known again by name
// or, when that changed, by protocol and number.
func (n nodePorts) keep(spec *corev1.ServiceSpec, owner cluster.Ref, earlier *corev1.ServiceSpec) {
	if earlier == nil {
		return
	}
	for i := range spec.Ports {
		p := &spec.Ports[i]
		for _, old := range earlier.Ports {
			same := old.Name == p.Name || old.Port == p.Port
			if wantsNodePorts(spec) && old.Protocol == p.Protocol && same {
				n.take(&p.NodePort, portKey{p.Protocol, old.NodePort}, owner)
			}
		}
	}
	if needsHealthCheck(spec) {
		n.take(&spec.HealthCheckNodePort, healthPort(earlier.HealthCheckNodePort), owner)
	}
}

// fill gives a Service the node ports that it still lacks. One number serves
// several protocols of the same port, as DNS servers want it.
func (n nodePorts) fill(spec *corev1.ServiceSpec, owner cluster.Ref) field.ErrorList {
	if wantsNodePorts(spec) {
		shared := map[int32]int32{}
		for _, p := range spec.Ports {
			if p.NodePort != 0 {
				shared[p.Port] = p.NodePort
			}
		}
		for i := range spec.Ports {
			p := &spec.Ports[i]
			n.take(&p.NodePort, portKey{p.Protocol, shared[p.Port]}, owner)
			if !n.dynamic(&p.NodePort, p.Protocol, owner) {
				return field.ErrorList{noneLeft(field.NewPath("spec", "ports").Index(i).Child("nodePort"))}
			}
			shared[p.Port] = p.NodePort
		}
	}
	if needsHealthCheck(spec) && !n.dynamic(&spec.HealthCheckNodePort, corev1.ProtocolTCP, owner) {
		return field.ErrorList{noneLeft(field.NewPath("spec", "healthCheckNodePort"))}
	}
	return nil
}

func noneLeft(path *field.Path) *field.Error {
	return field.Invalid(path, 0, fmt.Sprintf("all node ports from %d to %d are taken; remove some Services of type NodePort or LoadBalancer", firstNodePort, lastNodePort))
}

// dynamic sets *port, when unset, to the lowest free number above the band
// that is left to people, else within it. It reports false when none is left.
func (n nodePorts) dynamic(port *int32, protocol corev1.Protocol, owner cluster.Ref) bool {
	for i := int32(0); *port == 0 && i <= lastNodePort-dynamicNodePort; i++ {
		n.take(port, portKey{protocol, dynamicNodePort + i}, owner)
	}
	for i := int32(firstNodePort); *port == 0 && i < dynamicNodePort; i++ {
		n.take(port, portKey{protocol, i}, owner)
	}
	return *port != 0
}
