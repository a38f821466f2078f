package conformance

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/toyproxy/toyproxy/balance"
	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/endpoints"
	"github.com/toyproxy/toyproxy/test/lab"
)

// nodeName is the name of the lab's node N in objects.
const nodeName = "n"

// node is the lab's node N as the policy sees it.
func node() balance.Node {
	return balance.Node{Name: nodeName, PodRanges: lab.PodRanges(), ServiceRanges: lab.ServiceRanges()}
}

// pipeline turns manifests into tables as the product does, step after step.
type pipeline struct {
	store *cluster.Store
	index *endpoints.Index
}

func newPipeline() *pipeline {
	return &pipeline{cluster.NewStore(), endpoints.New()}
}

// table takes the complete input of a step.
func (p *pipeline) table(manifest string) (dataplane.Table, error) {
	objects, err := decode(manifest)
	if err != nil {
		return dataplane.Table{}, err
	}
	p.index.Apply(p.store.Replace(objects))
	table, problems := balance.Build(node(), objects.Services, p.index.Resolve)
	for _, problem := range problems {
		if !problem.Warning {
			return table, fmt.Errorf("problem: %s", problem)
		}
	}
	return table, nil
}

func decode(manifest string) (cluster.Objects, error) {
	var out cluster.Objects
	for _, doc := range strings.Split(manifest, "---\n") {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(doc), &kind); err != nil {
			return out, err
		}
		var err error
		switch kind.Kind {
		case "Service":
			out.Services, err = add(out.Services, new(corev1.Service), doc)
		case "Pod":
			out.Pods, err = add(out.Pods, new(corev1.Pod), doc)
		case "EndpointSlice":
			out.EndpointSlices, err = add(out.EndpointSlices, new(discoveryv1.EndpointSlice), doc)
		}
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

func add[T metav1.Object](list []T, obj T, doc string) ([]T, error) {
	err := yaml.UnmarshalStrict([]byte(doc), obj)
	if obj.GetNamespace() == "" {
		obj.SetNamespace("default")
	}
	if svc, ok := any(obj).(*corev1.Service); ok {
		for i := range svc.Spec.Ports {
			if svc.Spec.Ports[i].Protocol == "" {
				svc.Spec.Ports[i].Protocol = corev1.ProtocolTCP
			}
			if svc.Spec.Ports[i].TargetPort.String() == "0" {
				svc.Spec.Ports[i].TargetPort.IntVal = svc.Spec.Ports[i].Port
			}
		}
	}
	return append(list, obj), err
}
