package controllers

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// state is all objects of one side.
type state struct {
	deployments []*appsv1.Deployment
	sets        []*appsv1.ReplicaSet
	stateful    []*appsv1.StatefulSet
	daemons     []*appsv1.DaemonSet
	revisions   []*appsv1.ControllerRevision
	pods        []*corev1.Pod
}

// view tells a state in sorted lines, without what differs between two runs: hashes,
// random endings of names, times.
func (s state) view() []string {
	var out []string
	names := s.names()
	for _, d := range s.deployments {
		out = append(out, fmt.Sprintf("Deployment %s: revision %s, observed %v, %s", d.Name, d.Annotations["deployment.kubernetes.io/revision"],
			d.Status.ObservedGeneration == d.Generation, deploymentStatus(d.Status, names)))
	}
	for _, rs := range s.sets {
		a, st := rs.Annotations, rs.Status
		out = append(out, fmt.Sprintf("%s of %s: size %d; revision %q after %q, for %q up to %q, cause %q; %d Pods, %d labeled, %d ready, %d available; min ready %d; %s",
			names[rs.Name], ownerName(rs), *rs.Spec.Replicas, a["deployment.kubernetes.io/revision"], a["deployment.kubernetes.io/revision-history"],
			a["deployment.kubernetes.io/desired-replicas"], a["deployment.kubernetes.io/max-replicas"], a["kubernetes.io/change-cause"],
			st.Replicas, st.FullyLabeledReplicas, st.ReadyReplicas, st.AvailableReplicas, rs.Spec.MinReadySeconds, labelsOf(rs, names)))
	}
	for _, st := range s.stateful {
		x := st.Status
		out = append(out, fmt.Sprintf("StatefulSet %s: %d Pods, %d ready, %d available, %d of current %s, %d of update %s", st.Name,
			x.Replicas, x.ReadyReplicas, x.AvailableReplicas, x.CurrentReplicas, names[x.CurrentRevision], x.UpdatedReplicas, names[x.UpdateRevision]))
	}
	for _, d := range s.daemons {
		x := d.Status
		out = append(out, fmt.Sprintf("DaemonSet %s: desired %d, current %d, ready %d, updated %d, available %d, unavailable %d, astray %d", d.Name,
			x.DesiredNumberScheduled, x.CurrentNumberScheduled, x.NumberReady, x.UpdatedNumberScheduled, x.NumberAvailable, x.NumberUnavailable, x.NumberMisscheduled))
	}
	for _, rev := range s.revisions {
		out = append(out, fmt.Sprintf("revision %d of %s: %s", rev.Revision, ownerName(rev), names[rev.Name]))
	}
	for _, pod := range s.pods {
		out = append(out, podView(pod, names))
	}
	slices.Sort(out)
	return out
}

// names gives ReplicaSets and revisions the version of their template for a name.
func (s state) names() map[string]string {
	out := map[string]string{}
	for _, rs := range s.sets {
		out[rs.Name] = "set " + versionOf(rs.Spec.Template)
	}
	for _, rev := range s.revisions {
		var patch struct {
			Spec struct {
				Template corev1.PodTemplateSpec `json:"template"`
			} `json:"spec"`
		}
		if json.Unmarshal(rev.Data.Raw, &patch) == nil {
			out[rev.Name] = "template " + versionOf(patch.Spec.Template)
		}
	}
	return out
}

func versionOf(t corev1.PodTemplateSpec) string {
	_, version, _ := strings.Cut(t.Spec.Containers[0].Image, ":")
	return version
}

func deploymentStatus(s appsv1.DeploymentStatus, names map[string]string) string {
	var conditions []string
	for _, c := range s.Conditions {
		text := fmt.Sprintf("%s %s %s %q", c.Type, c.Status, c.Reason, c.Message)
		if c.Reason == "NewReplicaSetCreated" || c.Reason == "ReplicaSetUpdated" {
			// Upstream notices progress or not, by how its own caches are timed.
			text = fmt.Sprintf("%s %s under way", c.Type, c.Status)
		}
		for name, version := range names {
			text = strings.ReplaceAll(text, name, version)
		}
		conditions = append(conditions, text)
	}
	slices.Sort(conditions)
	return fmt.Sprintf("%d Pods, %d updated, %d ready, %d available, %d unavailable; %s",
		s.Replicas, s.UpdatedReplicas, s.ReadyReplicas, s.AvailableReplicas, s.UnavailableReplicas, strings.Join(conditions, "; "))
}

// podView leaves out the names that are random.
func podView(pod *corev1.Pod, names map[string]string) string {
	owner := metav1.GetControllerOf(pod)
	name := "Pod"
	if owner != nil && owner.Kind == "StatefulSet" {
		name = fmt.Sprintf("Pod %s (host %q in %q)", pod.Name, pod.Spec.Hostname, pod.Spec.Subdomain)
	}
	_, version, _ := strings.Cut(pod.Spec.Containers[0].Image, ":")
	return fmt.Sprintf("%s of %s at %s; %s", name, ownerName(pod), version, labelsOf(pod, names))
}

func ownerName(obj metav1.Object) string {
	owner := metav1.GetControllerOf(obj)
	if owner == nil {
		return "nobody"
	}
	if owner.Kind == "ReplicaSet" {
		return "a ReplicaSet"
	}
	return owner.Kind + " " + owner.Name
}

// labelsOf tells labels: of a hash only that it is there.
func labelsOf(obj metav1.Object, names map[string]string) string {
	labels := maps.Clone(obj.GetLabels())
	for key := range labels {
		if strings.HasSuffix(key, "hash") {
			labels[key] = names[labels[key]]
		}
	}
	// An old way of counting DaemonSet templates that nothing reads any more.
	delete(labels, "pod-template-generation")
	return fmt.Sprint(labels)
}
