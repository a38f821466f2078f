package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/balance"
	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/cluster/manifest"
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
	node  balance.Node
}

func newPipeline() *pipeline {
	return &pipeline{cluster.NewStore(), endpoints.New(), node()}
}

// newPipeline is the pipeline of the scenario's node.
func (s scenario) newPipeline() *pipeline {
	p := newPipeline()
	if s.doors {
		p.node = doorsNode()
	}
	return p
}

// table takes the complete input of a step.
func (p *pipeline) table(text string) (dataplane.Table, error) {
	opts := manifest.Options{Stdin: strings.NewReader(text), ServiceCIDRs: lab.ServiceRanges(), Earlier: p.earlier}
	if text != "" { // no objects is no file, not an empty one
		opts.Paths = []string{"-"}
	}
	loaded, err := manifest.Load(context.Background(), opts)
	if err != nil {
		return dataplane.Table{}, err
	}
	p.index.Apply(p.store.Replace(loaded.Objects))
	table, problems := balance.Build(p.node, loaded.Objects.Services, p.index.Resolve)
	for _, problem := range append(loaded.Problems, problems...) {
		if !problem.Warning {
			err = errors.Join(err, fmt.Errorf("problem: %s", problem))
		}
	}
	return table, err
}

// earlier returns the Service as it was in the step before.
func (p *pipeline) earlier(name types.NamespacedName) *corev1.Service {
	svc, _ := p.store.Get(cluster.MakeRef(cluster.Service, name.Namespace, name.Name)).(*corev1.Service)
	return svc
}
