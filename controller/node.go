package controller

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// node is what a Pod may ask of the node it runs on.
type node struct {
	name   string
	labels map[string]string
}

// node is the one that new Pods go to. The labels that every node has are there
// without a Node object.
func (p *pass) node() node {
	labels := map[string]string{
		corev1.LabelHostname: p.in.Node, corev1.LabelOSStable: runtime.GOOS, corev1.LabelArchStable: runtime.GOARCH,
	}
	for key, value := range p.in.NodeLabels {
		labels[key] = value
	}
	return node{p.in.Node, labels}
}

// wants tells whether a Pod of that spec may run on the node: its nodeName, its
// nodeSelector and the required part of its node affinity. The error is an operator
// that there is not.
func (n node) wants(s *corev1.PodSpec) (bool, error) {
	if s.NodeName != "" && s.NodeName != n.name {
		return false, nil
	}
	for key, value := range s.NodeSelector {
		if n.labels[key] != value {
			return false, nil
		}
	}
	if s.Affinity == nil || s.Affinity.NodeAffinity == nil || s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return true, nil
	}
	for _, term := range s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		if ok, err := n.matches(term); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// matches tells whether the node is as a term says. An empty term is nobody.
func (n node) matches(term corev1.NodeSelectorTerm) (bool, error) {
	for _, req := range term.MatchExpressions {
		value, has := n.labels[req.Key]
		if ok, err := meets(req, value, has); !ok || err != nil {
			return false, err
		}
	}
	for _, req := range term.MatchFields {
		if ok, err := meets(req, n.name, req.Key == "metadata.name"); !ok || err != nil {
			return false, err
		}
	}
	return len(term.MatchExpressions)+len(term.MatchFields) > 0, nil
}

// meets tells whether a value is as required.
func meets(req corev1.NodeSelectorRequirement, value string, has bool) (bool, error) {
	switch req.Operator {
	case corev1.NodeSelectorOpIn:
		return has && slices.Contains(req.Values, value), nil
	case corev1.NodeSelectorOpNotIn:
		return !has || !slices.Contains(req.Values, value), nil
	case corev1.NodeSelectorOpExists:
		return has, nil
	case corev1.NodeSelectorOpDoesNotExist:
		return !has, nil
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if len(req.Values) != 1 {
			return false, fmt.Errorf("operator %s of %q takes one value", req.Operator, req.Key)
		}
		have, err1 := strconv.ParseInt(value, 10, 64)
		bound, err2 := strconv.ParseInt(req.Values[0], 10, 64)
		if !has || err1 != nil || err2 != nil {
			return false, nil
		}
		return req.Operator == corev1.NodeSelectorOpGt && have > bound || req.Operator == corev1.NodeSelectorOpLt && have < bound, nil
	}
	return false, fmt.Errorf("operator %q of %q is unknown; use In, NotIn, Exists, DoesNotExist, Gt or Lt", req.Operator, req.Key)
}
