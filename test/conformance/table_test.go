package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// step takes a step of a scenario, and returns the table of its node.
func (p *pipeline) step(s scenario, st step) (t dataplane.Table, err error) {
	text, err := st.manifest(s.oneFamily)
	if err != nil {
		return t, err
	}
	if p.node, err = st.facts.node(s.ownAddrs()); err != nil {
		return t, err
	}
	return p.resolve(text, st.problems)
}

// table takes objects with which nothing is wrong.
func (p *pipeline) table(text string) (dataplane.Table, error) { return p.resolve(text, nil) }

// resolve takes the complete input of a step. It is an error when other things
// are wrong with it than expected.
func (p *pipeline) resolve(text string, expected []string) (dataplane.Table, error) {
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
		if problem.Warning {
			continue
		}
		i := slices.IndexFunc(expected, func(part string) bool { return strings.Contains(problem.String(), part) })
		if i < 0 {
			err = errors.Join(err, fmt.Errorf("problem: %s", problem))
			continue
		}
		expected = slices.Concat(expected[:i], expected[i+1:])
	}
	if len(expected) > 0 {
		err = errors.Join(err, fmt.Errorf("no problems such as %q", expected))
	}
	return table, err
}

// earlier returns the Service as it was in the step before.
func (p *pipeline) earlier(name types.NamespacedName) *corev1.Service {
	svc, _ := p.store.Get(cluster.MakeRef(cluster.Service, name.Namespace, name.Name)).(*corev1.Service)
	return svc
}
