package gateway

import (
	"context"
	"fmt"
	"reflect"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/pkg/consts"
)

// api keeps objects in memory, counts generations as an API server does, and tells
// when anything but a status has changed.
type api struct {
	client.Client
	changed chan struct{}
}

func newAPI(t *testing.T) *api {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, gatewayv1.Install, apiextensionsv1.AddToScheme} {
		utilruntime.Must(add(scheme))
	}
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{
		Name:        "httproutes.gateway.networking.k8s.io",
		Annotations: map[string]string{consts.BundleVersionAnnotation: consts.BundleVersion, consts.ChannelAnnotation: "standard"},
	}}
	kept := fake.NewClientBuilder().WithScheme(scheme).WithObjects(crd).
		WithStatusSubresource(&gatewayv1.GatewayClass{}, &gatewayv1.Gateway{}, &gatewayv1.HTTPRoute{}).Build()
	return &api{Client: kept, changed: make(chan struct{}, 1)}
}

// wake tells the controller that there is something to see.
func (a *api) wake() {
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

func (a *api) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	defer a.wake()
	if err := a.setDefaults(obj); err != nil {
		return err
	}
	obj.SetGeneration(1)
	obj.SetCreationTimestamp(metav1.Now())
	return a.Client.Create(ctx, obj, opts...)
}

func (a *api) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	defer a.wake()
	return a.Client.Delete(ctx, obj, opts...)
}

func (a *api) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	defer a.wake()
	was, err := a.raw(ctx, obj)
	if err != nil {
		return err
	}
	now, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return fmt.Errorf("object %s: %w", obj.GetName(), err)
	}
	obj.SetGeneration(was.GetGeneration())
	if !reflect.DeepEqual(was.Object["spec"], now["spec"]) {
		obj.SetGeneration(was.GetGeneration() + 1)
	}
	obj.SetCreationTimestamp(was.GetCreationTimestamp())
	return a.Client.Update(ctx, obj, opts...)
}

func (a *api) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	defer a.wake()
	was, err := a.raw(ctx, obj)
	if err != nil {
		return err
	}
	if err := a.Client.Patch(ctx, obj, patch, opts...); err != nil {
		return err
	}
	now, err := a.raw(ctx, obj)
	if err != nil || reflect.DeepEqual(was.Object["spec"], now.Object["spec"]) {
		return err
	}
	now.SetGeneration(was.GetGeneration() + 1)
	if err := a.Client.Update(ctx, now); err != nil {
		return err
	}
	return a.Client.Get(ctx, client.ObjectKeyFromObject(obj), obj)
}

// setDefaults writes what an API server writes where manifests leave it out, as far as
// the suite compares it.
func (a *api) setDefaults(obj client.Object) error {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok || u.GetKind() != "HTTPRoute" {
		return nil
	}
	refs, _, err := unstructured.NestedSlice(u.Object, "spec", "parentRefs")
	if err != nil {
		return fmt.Errorf("parents of %s: %w", obj.GetName(), err)
	}
	for _, ref := range refs {
		for field, value := range map[string]string{"group": gatewayv1.GroupName, "kind": "Gateway"} {
			if fields := ref.(map[string]any); fields[field] == nil {
				fields[field] = value
			}
		}
	}
	return unstructured.SetNestedSlice(u.Object, refs, "spec", "parentRefs")
}

// raw returns an object as it is kept.
func (a *api) raw(ctx context.Context, obj client.Object) (*unstructured.Unstructured, error) {
	kind, err := a.GroupVersionKindFor(obj)
	if err != nil {
		return nil, err
	}
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(kind)
	return out, a.Client.Get(ctx, client.ObjectKeyFromObject(obj), out)
}
