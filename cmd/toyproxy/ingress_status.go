package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/toyproxy/toyproxy/cluster/state"
)

// doorStatus writes the status of front doors into the state directory. Of several
// proxies one does; another takes over when it goes.
type doorStatus struct {
	doors state.Doors
	path  string
	lock  *os.File
}

func newDoorStatus(stateDir string, classes controllers) *doorStatus {
	return &doorStatus{doors: state.OpenDoors(stateDir), path: filepath.Join(stateDir, "ingress", classes.lockName())}
}

func (s *doorStatus) close() {
	if s.lock != nil {
		_ = s.lock.Close()
	}
}

// hold tells whether this process is the one that writes.
func (s *doorStatus) hold() (bool, error) {
	if s.lock != nil {
		return true, nil
	}
	if err := os.MkdirAll(filepath.Dir(s.path), 0o755); err != nil {
		return false, fmt.Errorf("directory of the status lock: %w", err)
	}
	f, err := os.OpenFile(s.path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return false, fmt.Errorf("status lock: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return false, nil
		}
		return false, fmt.Errorf("status lock %s: %w", s.path, err)
	}
	s.lock = f
	return true, nil
}

// write makes the served Ingresses say where the proxy is, and gives the others the
// status that they carry. It changes no file that says so already. It returns false
// when another process is the one that writes.
func (s *doorStatus) write(served []types.NamespacedName, at []networkingv1.IngressLoadBalancerIngress, changed []metav1.Object) (bool, error) {
	held, err := s.hold()
	if !held || err != nil {
		return held, err
	}
	var errs []error
	for _, name := range served {
		errs = append(errs, s.doors.Ingresses.Update(name, func(old *networkingv1.Ingress, exists bool) (*networkingv1.Ingress, bool) {
			if !exists || equality.Semantic.DeepEqual(old.Status.LoadBalancer.Ingress, at) {
				return old, false
			}
			next := old.DeepCopy()
			next.Status.LoadBalancer.Ingress = at
			return next, true
		}))
	}
	for _, obj := range changed {
		errs = append(errs, s.writeOne(obj))
	}
	return true, errors.Join(errs...)
}

// writeOne writes the status of an object of the Gateway API, unless the object has
// changed meanwhile: then there will be another.
func (s *doorStatus) writeOne(obj metav1.Object) error {
	name := types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	switch obj := obj.(type) {
	case *gatewayv1.GatewayClass:
		return updateStatus(s.doors.GatewayClasses, name, obj, func(to *gatewayv1.GatewayClass) { to.Status = obj.Status })
	case *gatewayv1.Gateway:
		return updateStatus(s.doors.Gateways, name, obj, func(to *gatewayv1.Gateway) { to.Status = obj.Status })
	case *gatewayv1.HTTPRoute:
		return updateStatus(s.doors.HTTPRoutes, name, obj, func(to *gatewayv1.HTTPRoute) { to.Status = obj.Status })
	}
	return nil
}

func updateStatus[T interface {
	metav1.Object
	DeepCopy() T
}](d state.Dir[T], name types.NamespacedName, from T, set func(T)) error {
	return d.Update(name, func(old T, exists bool) (T, bool) {
		if !exists || old.GetGeneration() != from.GetGeneration() || old.GetUID() != from.GetUID() {
			return old, false
		}
		next := old.DeepCopy()
		set(next)
		return next, true
	})
}

// addressesOf lists where clients reach a Service: at its load balancer, else at
// its external addresses, else at its cluster addresses.
func addressesOf(services []*corev1.Service, name types.NamespacedName) []networkingv1.IngressLoadBalancerIngress {
	i := slices.IndexFunc(services, func(s *corev1.Service) bool { return s.Namespace == name.Namespace && s.Name == name.Name })
	if i < 0 {
		return nil
	}
	var out []networkingv1.IngressLoadBalancerIngress
	for _, in := range services[i].Status.LoadBalancer.Ingress {
		out = append(out, networkingv1.IngressLoadBalancerIngress{IP: in.IP, Hostname: in.Hostname})
	}
	if len(out) > 0 {
		return out
	}
	spec := services[i].Spec
	addresses := spec.ExternalIPs
	if len(addresses) == 0 {
		addresses = spec.ClusterIPs
	}
	if len(addresses) == 0 && spec.ClusterIP != "" {
		addresses = []string{spec.ClusterIP}
	}
	for _, a := range addresses {
		if _, err := netip.ParseAddr(a); err == nil {
			out = append(out, networkingv1.IngressLoadBalancerIngress{IP: a})
		}
	}
	return out
}

// texts are the addresses as Gateways have them.
func texts(at []networkingv1.IngressLoadBalancerIngress) []string {
	var out []string
	for _, a := range at {
		out = append(out, a.IP+a.Hostname)
	}
	return out
}
