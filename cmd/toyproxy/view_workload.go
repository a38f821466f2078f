package main

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// workloadViews are those of the kinds that make Pods, and of what Pods read.
func workloadViews() []view {
	images := []string{"CONTAINERS", "IMAGES", "SELECTOR"}
	return []view{
		{[]string{"deployments", "deployment", "deploy"}, "deployments",
			[]string{"NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"}, images, deploymentRows},
		{[]string{"replicasets", "replicaset", "rs"}, "replicasets",
			[]string{"NAME", "DESIRED", "CURRENT", "READY", "AGE"}, images, replicaSetRows},
		{[]string{"statefulsets", "statefulset", "sts"}, "statefulsets",
			[]string{"NAME", "READY", "AGE"}, images[:2], statefulSetRows},
		{[]string{"daemonsets", "daemonset", "ds"}, "daemonsets",
			[]string{"NAME", "DESIRED", "CURRENT", "READY", "UP-TO-DATE", "AVAILABLE", "NODE SELECTOR", "AGE"}, images, daemonSetRows},
		{[]string{"configmaps", "configmap", "cm"}, "configmaps", []string{"NAME", "DATA", "AGE"}, nil, configMapRows},
		{[]string{"secrets", "secret"}, "secrets", []string{"NAME", "TYPE", "DATA", "AGE"}, nil, secretRows},
		{[]string{"controllerrevisions", "controllerrevision"}, "controllerrevisions",
			[]string{"NAME", "CONTROLLER", "REVISION", "AGE"}, nil, revisionRows},
		{[]string{"nodes", "node", "no"}, "nodes", []string{"NAME", "STATUS", "AGE"}, []string{"INTERNAL-IP", "EXTERNAL-IP", "POD-CIDRS"}, nodeRows},
		{[]string{"namespaces", "namespace", "ns"}, "namespaces", []string{"NAME", "STATUS", "AGE"}, nil, namespaceRows},
	}
}

func number(n int32) string { return strconv.Itoa(int(n)) }

// wanted is a number of replicas, 1 when it is not said.
func wanted(p *int32) int32 {
	if p == nil {
		return 1
	}
	return *p
}

func outOf(n, of int32) string { return fmt.Sprintf("%d/%d", n, of) }

// containersAndImages are the wide columns of workloads.
func containersAndImages(spec corev1.PodSpec) (names, images string) {
	var ns, is []string
	for _, c := range spec.Containers {
		ns, is = append(ns, c.Name), append(is, c.Image)
	}
	return strings.Join(ns, ","), strings.Join(is, ",")
}

func deploymentRows(d look) []row {
	var rows []row
	for _, o := range d.Objects.Deployments {
		names, images := containersAndImages(o.Spec.Template.Spec)
		rows = append(rows, row{"deployment.apps", o.Namespace, o.Name, o.Labels,
			[]string{o.Name, outOf(o.Status.ReadyReplicas, wanted(o.Spec.Replicas)), number(o.Status.UpdatedReplicas), number(o.Status.AvailableReplicas), age(o.CreationTimestamp)},
			[]string{names, images, selectorText(o.Spec.Selector)}, typed(o, "apps/v1", "Deployment")})
	}
	return rows
}

func replicaSetRows(d look) []row {
	var rows []row
	for _, o := range d.Objects.ReplicaSets {
		names, images := containersAndImages(o.Spec.Template.Spec)
		rows = append(rows, row{"replicaset.apps", o.Namespace, o.Name, o.Labels,
			[]string{o.Name, number(wanted(o.Spec.Replicas)), number(o.Status.Replicas), number(o.Status.ReadyReplicas), age(o.CreationTimestamp)},
			[]string{names, images, selectorText(o.Spec.Selector)}, typed(o, "apps/v1", "ReplicaSet")})
	}
	return rows
}

func statefulSetRows(d look) []row {
	var rows []row
	for _, o := range d.Objects.StatefulSets {
		names, images := containersAndImages(o.Spec.Template.Spec)
		rows = append(rows, row{"statefulset.apps", o.Namespace, o.Name, o.Labels,
			[]string{o.Name, outOf(o.Status.ReadyReplicas, wanted(o.Spec.Replicas)), age(o.CreationTimestamp)},
			[]string{names, images}, typed(o, "apps/v1", "StatefulSet")})
	}
	return rows
}

func daemonSetRows(d look) []row {
	var rows []row
	for _, o := range d.Objects.DaemonSets {
		names, images := containersAndImages(o.Spec.Template.Spec)
		s := o.Status
		rows = append(rows, row{"daemonset.apps", o.Namespace, o.Name, o.Labels,
			[]string{o.Name, number(s.DesiredNumberScheduled), number(s.CurrentNumberScheduled), number(s.NumberReady), number(s.UpdatedNumberScheduled),
				number(s.NumberAvailable), orNone(joinLabels(o.Spec.Template.Spec.NodeSelector)), age(o.CreationTimestamp)},
			[]string{names, images, selectorText(o.Spec.Selector)}, typed(o, "apps/v1", "DaemonSet")})
	}
	return rows
}

func selectorText(s *metav1.LabelSelector) string {
	if s == nil {
		return "<none>"
	}
	return metav1.FormatLabelSelector(s)
}

func configMapRows(d look) []row {
	var rows []row
	for _, o := range d.Objects.ConfigMaps {
		rows = append(rows, row{"configmap", o.Namespace, o.Name, o.Labels,
			[]string{o.Name, strconv.Itoa(len(o.Data) + len(o.BinaryData)), age(o.CreationTimestamp)}, nil, typed(o, "v1", "ConfigMap")})
	}
	return rows
}

func secretRows(d look) []row {
	var rows []row
	for _, o := range d.Objects.Secrets {
		rows = append(rows, row{"secret", o.Namespace, o.Name, o.Labels,
			[]string{o.Name, string(o.Type), strconv.Itoa(len(o.Data)), age(o.CreationTimestamp)}, nil, typed(o, "v1", "Secret")})
	}
	return rows
}

func revisionRows(d look) []row {
	var rows []row
	for _, o := range d.revisions {
		owner := "<none>"
		if c := metav1.GetControllerOf(o); c != nil {
			owner = strings.ToLower(c.Kind) + ".apps/" + c.Name
		}
		rows = append(rows, row{"controllerrevision.apps", o.Namespace, o.Name, o.Labels,
			[]string{o.Name, owner, strconv.FormatInt(o.Revision, 10), age(o.CreationTimestamp)}, nil, typed(o, "apps/v1", "ControllerRevision")})
	}
	return rows
}

func nodeRows(d look) []row {
	var rows []row
	for _, o := range d.Objects.Nodes {
		addrs := map[corev1.NodeAddressType][]string{}
		for _, a := range o.Status.Addresses {
			addrs[a.Type] = append(addrs[a.Type], a.Address)
		}
		rows = append(rows, row{"node", "", o.Name, o.Labels, []string{o.Name, nodeStatus(o), age(o.CreationTimestamp)},
			[]string{joinOr("<none>", addrs[corev1.NodeInternalIP]), joinOr("<none>", addrs[corev1.NodeExternalIP]), joinOr("<none>", o.Spec.PodCIDRs)},
			typed(o, "v1", "Node")})
	}
	return rows
}

// nodeStatus is what a Node's conditions say of it, as far as anybody has set them.
func nodeStatus(n *corev1.Node) string {
	status := "Unknown"
	for _, c := range n.Status.Conditions {
		switch {
		case c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue:
			status = "Ready"
		case c.Type == corev1.NodeReady:
			status = "NotReady"
		}
	}
	if n.Spec.Unschedulable {
		status += ",SchedulingDisabled"
	}
	return status
}

func namespaceRows(d look) []row {
	var rows []row
	for _, o := range d.Objects.Namespaces {
		rows = append(rows, row{"namespace", "", o.Name, o.Labels,
			[]string{o.Name, string(o.Status.Phase), age(o.CreationTimestamp)}, nil, typed(o, "v1", "Namespace")})
	}
	return rows
}
