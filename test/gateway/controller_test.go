package gateway

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/ingress/gateway"
	"github.com/toyproxy/toyproxy/ingress/proxy"
)

// controller does what the command does, from the api: compile, serve, write back.
type controller struct {
	t     *testing.T
	api   *api
	pods  *pods
	store *cluster.Store
	// proxies are by the name of their Gateway, or one of no name serves all.
	proxies map[types.NamespacedName]*served
	shared  bool
}

// served is a proxy with the address of its Gateways.
type served struct {
	*proxy.Proxy
	address string
	stop    context.CancelFunc
}

// run works until the context ends.
func (c *controller) run(ctx context.Context) {
	var running sync.WaitGroup
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-c.api.changed:
			c.sync(ctx, &running)
		}
	}
	for _, p := range c.proxies {
		p.stop()
	}
	running.Wait()
}

func (c *controller) sync(ctx context.Context, running *sync.WaitGroup) {
	objs := c.objects(ctx)
	events := c.store.Replace(objs)
	// Where each Gateway has a proxy, classes are looked after when there is none yet too.
	names := []types.NamespacedName{{Name: "none"}}
	if c.shared {
		names = []types.NamespacedName{{}}
	}
	for _, gw := range objs.Gateways {
		if !c.shared {
			names = append(names, client.ObjectKeyFromObject(gw))
		}
	}
	for _, name := range names {
		if c.proxies[name] == nil {
			c.proxies[name] = c.newProxy(ctx, running)
			c.proxies[name].Update(cluster.NewStore().Replace(objs))
		}
		c.proxies[name].Update(events)
		c.compile(ctx, &objs, name)
	}
}

// compile serves the Gateways of a proxy and writes statuses back.
func (c *controller) compile(ctx context.Context, objs *cluster.Objects, name types.NamespacedName) {
	p := c.proxies[name]
	in := gateway.Input{Objects: *objs, Addresses: []string{p.address}, Now: metav1.Now()}
	if !c.shared {
		in.Gateways = []types.NamespacedName{name}
	}
	out := gateway.Compile(in)
	if err := p.Apply(out.Config); err != nil {
		c.t.Logf("proxy %s: %v", p.address, err)
	}
	for _, obj := range out.Changed(*objs) {
		err := c.api.Status().Update(ctx, obj.(client.Object))
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			c.api.wake()
		} else if err != nil && ctx.Err() == nil {
			c.t.Logf("status of %s: %v", obj.GetName(), err)
		}
		replace(objs.Gateways, obj)
		replace(objs.HTTPRoutes, obj)
		replace(objs.GatewayClasses, obj)
	}
}

// replace puts an object in the place of the one of its name.
func replace[T metav1.Object](list []T, obj metav1.Object) {
	next, ok := obj.(T)
	if !ok {
		return
	}
	i := slices.IndexFunc(list, func(o T) bool { return o.GetNamespace() == obj.GetNamespace() && o.GetName() == obj.GetName() })
	list[i] = next
}

func (c *controller) newProxy(ctx context.Context, running *sync.WaitGroup) *served {
	out := &served{address: fmt.Sprintf("127.10.0.%d", len(c.proxies)+1)}
	p, err := proxy.New(proxy.Options{Listen: func(ctx context.Context, port uint16) (net.Listener, error) {
		var lc net.ListenConfig
		return lc.Listen(ctx, "tcp", net.JoinHostPort(out.address, strconv.Itoa(int(port))))
	}})
	if err != nil {
		c.t.Fatal(err)
	}
	out.Proxy = p
	ctx, out.stop = context.WithCancel(ctx)
	running.Go(func() { p.Run(ctx, 0) })
	return out
}

// objects reads everything, makes Pods of Deployments, and endpoints of Pods.
func (c *controller) objects(ctx context.Context) cluster.Objects {
	var (
		deployments appsv1.DeploymentList
		pods        corev1.PodList
		out         cluster.Objects
	)
	c.list(ctx, &deployments)
	for i := range deployments.Items {
		c.pods.run(c.t, &deployments.Items[i])
	}
	c.list(ctx, &pods)
	add[gatewayv1.GatewayClassList](ctx, c, &out, func(l *gatewayv1.GatewayClassList) []gatewayv1.GatewayClass { return l.Items })
	add[gatewayv1.GatewayList](ctx, c, &out, func(l *gatewayv1.GatewayList) []gatewayv1.Gateway { return l.Items })
	add[gatewayv1.HTTPRouteList](ctx, c, &out, func(l *gatewayv1.HTTPRouteList) []gatewayv1.HTTPRoute { return l.Items })
	add[gatewayv1.ReferenceGrantList](ctx, c, &out, func(l *gatewayv1.ReferenceGrantList) []gatewayv1.ReferenceGrant { return l.Items })
	add[corev1.NamespaceList](ctx, c, &out, func(l *corev1.NamespaceList) []corev1.Namespace { return l.Items })
	add[corev1.SecretList](ctx, c, &out, func(l *corev1.SecretList) []corev1.Secret { return l.Items })
	add[corev1.ServiceList](ctx, c, &out, func(l *corev1.ServiceList) []corev1.Service { return l.Items })
	add[discoveryv1.EndpointSliceList](ctx, c, &out, func(l *discoveryv1.EndpointSliceList) []discoveryv1.EndpointSlice { return l.Items })
	for _, svc := range out.Services {
		if len(svc.Spec.Selector) > 0 {
			out.EndpointSlices = append(out.EndpointSlices, endpoints(svc, pods.Items))
		}
	}
	return out
}

func (c *controller) list(ctx context.Context, list client.ObjectList) {
	if err := c.api.List(ctx, list); err != nil && ctx.Err() == nil {
		c.t.Errorf("%T: %v", list, err)
	}
}

// add lists the objects of one kind.
func add[L any, T any, PL interface {
	*L
	client.ObjectList
}](ctx context.Context, c *controller, out *cluster.Objects, items func(PL) []T) {
	list := PL(new(L))
	c.list(ctx, list)
	for _, item := range items(list) {
		out.Add(any(&item).(metav1.Object))
	}
}

// endpoints are the Pods that a Service selects.
func endpoints(svc *corev1.Service, pods []corev1.Pod) *discoveryv1.EndpointSlice {
	out := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: svc.Namespace, Name: "of-" + svc.Name,
			Labels: map[string]string{discoveryv1.LabelServiceName: svc.Name},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	for _, p := range svc.Spec.Ports {
		out.Ports = append(out.Ports, discoveryv1.EndpointPort{Name: &p.Name, Port: &p.TargetPort.IntVal, AppProtocol: p.AppProtocol})
	}
	selector := labels.SelectorFromSet(svc.Spec.Selector)
	for _, pod := range pods {
		if pod.Namespace == svc.Namespace && selector.Matches(labels.Set(pod.Labels)) {
			out.Endpoints = append(out.Endpoints, discoveryv1.Endpoint{
				Addresses: []string{pod.Status.PodIP},
				TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name},
			})
		}
	}
	return out
}
