package oracle

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/apps"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	appsvalidation "k8s.io/kubernetes/pkg/apis/apps/validation"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/discovery"
	_ "k8s.io/kubernetes/pkg/apis/discovery/install"
	discoveryvalidation "k8s.io/kubernetes/pkg/apis/discovery/validation"
	"k8s.io/kubernetes/pkg/apis/networking"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	networkingvalidation "k8s.io/kubernetes/pkg/apis/networking/validation"
)

// upstream decodes, defaults and validates an object as kube-apiserver does at
// creation. The error says why it refuses.
func upstream(data []byte) (runtime.Object, error) {
	if kind, ok := customKind(data); ok {
		return custom(data, kind)
	}
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, legacyscheme.Scheme, legacyscheme.Scheme, json.SerializerOptions{Strict: true})
	obj, _, err := strict.Decode(data, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	legacyscheme.Scheme.Default(obj)
	if svc, ok := obj.(*corev1.Service); ok {
		prepareService(svc)
	}
	errs, err := validate(obj)
	if err != nil {
		return nil, err
	}
	return obj, errs.ToAggregate()
}

// prepareService does what the registry does between defaulting and
// validation: it makes the plural of clusterIP and a health-check node port.
func prepareService(svc *corev1.Service) {
	if svc.Spec.ClusterIP != "" && len(svc.Spec.ClusterIPs) == 0 {
		svc.Spec.ClusterIPs = []string{svc.Spec.ClusterIP}
	}
	local := svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	if svc.Spec.Type == corev1.ServiceTypeLoadBalancer && local && svc.Spec.HealthCheckNodePort == 0 {
		svc.Spec.HealthCheckNodePort = allocated
	}
}

// allocated stands for any node port that an allocator chose.
const allocated = 30086

func validate(obj runtime.Object) (field.ErrorList, error) {
	switch obj := obj.(type) {
	case *corev1.Service:
		var in core.Service
		err := legacyscheme.Scheme.Convert(obj, &in, nil)
		// The status is checked where it is written: through an endpoint of its own.
		status := validation.ValidateLoadBalancerStatus(&in.Status.LoadBalancer, nil, field.NewPath("status", "loadBalancer"), &in.Spec)
		return append(validation.ValidateServiceCreate(&in), status...), err
	case *discoveryv1.EndpointSlice:
		var in discovery.EndpointSlice
		err := legacyscheme.Scheme.Convert(obj, &in, nil)
		return discoveryvalidation.ValidateEndpointSliceCreate(&in), err
	case *corev1.Pod:
		var in core.Pod
		err := legacyscheme.Scheme.Convert(obj, &in, nil)
		opts := podutil.GetValidationOptionsFromPodSpecAndMeta(&in.Spec, nil, &in.ObjectMeta, nil)
		opts.ResourceIsPod = true
		return validation.ValidatePodCreate(&in, opts), err
	case *corev1.Node:
		var in core.Node
		if err := legacyscheme.Scheme.Convert(obj, &in, nil); err != nil {
			return nil, err
		}
		// The way there and back keeps podCIDR and podCIDRs in step.
		err := legacyscheme.Scheme.Convert(&in, obj, nil)
		return validation.ValidateNode(&in), err
	case *corev1.Namespace:
		var in core.Namespace
		err := legacyscheme.Scheme.Convert(obj, &in, nil)
		return validation.ValidateNamespace(&in), err
	case *corev1.ConfigMap:
		var in core.ConfigMap
		err := legacyscheme.Scheme.Convert(obj, &in, nil)
		return validation.ValidateConfigMap(&in), err
	case *corev1.Secret:
		var in core.Secret
		err := legacyscheme.Scheme.Convert(obj, &in, nil)
		return validation.ValidateSecret(&in), err
	}
	if errs, known, err := validateDoor(obj); known {
		return errs, err
	}
	return validateWorkload(obj)
}

func validateDoor(obj runtime.Object) (errs field.ErrorList, known bool, err error) {
	switch obj := obj.(type) {
	case *networkingv1.Ingress:
		var in networking.Ingress
		err := legacyscheme.Scheme.Convert(obj, &in, nil)
		return networkingvalidation.ValidateIngressCreate(&in), true, err
	case *networkingv1.IngressClass:
		var in networking.IngressClass
		err := legacyscheme.Scheme.Convert(obj, &in, nil)
		return networkingvalidation.ValidateIngressClass(&in), true, err
	}
	return nil, false, nil
}

func validateWorkload(obj runtime.Object) (field.ErrorList, error) {
	options := func(t *core.PodTemplateSpec) validation.PodValidationOptions {
		return podutil.GetValidationOptionsFromPodTemplate(t, nil)
	}
	switch obj := obj.(type) {
	case *appsv1.Deployment:
		var in apps.Deployment
		err := legacyscheme.Scheme.Convert(obj, &in, nil)
		return appsvalidation.ValidateDeployment(&in, options(&in.Spec.Template)), err
	case *appsv1.ReplicaSet:
		var in apps.ReplicaSet
		err := legacyscheme.Scheme.Convert(obj, &in, nil)
		return appsvalidation.ValidateReplicaSet(&in, options(&in.Spec.Template)), err
	case *appsv1.StatefulSet:
		var in apps.StatefulSet
		err := legacyscheme.Scheme.Convert(obj, &in, nil)
		return appsvalidation.ValidateStatefulSet(&in, appsvalidation.StatefulSetValidationOptions{}, options(&in.Spec.Template)), err
	case *appsv1.DaemonSet:
		var in apps.DaemonSet
		err := legacyscheme.Scheme.Convert(obj, &in, nil)
		if in.Spec.Selector == nil {
			return field.ErrorList{field.Required(field.NewPath("spec", "selector"), "")}, err // by a declaration
		}
		return appsvalidation.ValidateDaemonSet(&in, options(&in.Spec.Template)), err
	}
	return nil, fmt.Errorf("no validation for %T", obj)
}
