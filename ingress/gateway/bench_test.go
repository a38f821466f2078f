package gateway

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/toyproxy/toyproxy/cluster"
)

// BenchmarkCompile compiles 2,000 HTTPRoutes of one Gateway, each with a host and three
// paths: what a change of any object but an endpoint costs.
func BenchmarkCompile(b *testing.B) {
	objs := cluster.Objects{
		GatewayClasses: []*gatewayv1.GatewayClass{{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: gatewayv1.GatewayClassSpec{ControllerName: ControllerName}}},
		Gateways: []*gatewayv1.Gateway{{ObjectMeta: metav1.ObjectMeta{Name: "gw"}, Spec: gatewayv1.GatewaySpec{
			GatewayClassName: "c", Listeners: []gatewayv1.Listener{{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType}},
		}}},
	}
	for i := range 2000 {
		name := fmt.Sprintf("r%d", i)
		r := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Name: name}}
		r.Spec.ParentRefs = []gatewayv1.ParentReference{{Name: "gw"}}
		r.Spec.Hostnames = []gatewayv1.Hostname{gatewayv1.Hostname(name + ".example")}
		for _, path := range []string{"/", "/a", "/b"} {
			r.Spec.Rules = append(r.Spec.Rules, gatewayv1.HTTPRouteRule{
				Matches: []gatewayv1.HTTPRouteMatch{{Path: &gatewayv1.HTTPPathMatch{Value: &path}}},
				BackendRefs: []gatewayv1.HTTPBackendRef{{BackendRef: gatewayv1.BackendRef{
					BackendObjectReference: gatewayv1.BackendObjectReference{Name: gatewayv1.ObjectName(name), Port: new(gatewayv1.PortNumber(80))},
				}}},
			})
		}
		objs.HTTPRoutes = append(objs.HTTPRoutes, r)
		objs.Services = append(objs.Services, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}})
	}
	for b.Loop() {
		Compile(Input{Objects: objs})
	}
}
