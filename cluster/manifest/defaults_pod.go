package manifest

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

func defaultPod(p *corev1.Pod) {
	spec := &p.Spec
	if grace := spec.TerminationGracePeriodSeconds; grace != nil && *grace < 0 {
		*grace = 1
	}
	orPointer(&spec.EnableServiceLinks, corev1.DefaultEnableServiceLinks)
	defaultPodSpec(spec)
	// A template does not get these: its Pods do.
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			defaultRequests(&list[i].Resources)
			for j := range list[i].Ports {
				if port := &list[i].Ports[j]; spec.HostNetwork {
					orDefault(&port.HostPort, port.ContainerPort)
				}
			}
		}
	}
	defaultPodAddresses(&p.Status)
}

// defaultPodSpec is for Pods and for the templates of Pods alike.
func defaultPodSpec(spec *corev1.PodSpec) {
	orDefault(&spec.DNSPolicy, corev1.DNSClusterFirst)
	orDefault(&spec.RestartPolicy, corev1.RestartPolicyAlways)
	orDefault(&spec.SchedulerName, corev1.DefaultSchedulerName)
	orPointer(&spec.SecurityContext, corev1.PodSecurityContext{})
	orPointer(&spec.TerminationGracePeriodSeconds, int64(corev1.DefaultTerminationGracePeriodSeconds))
	orDefault(&spec.ServiceAccountName, spec.DeprecatedServiceAccount)
	spec.DeprecatedServiceAccount = spec.ServiceAccountName
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			defaultContainer(&list[i])
		}
	}
	for i := range spec.Volumes {
		defaultVolume(&spec.Volumes[i].VolumeSource)
	}
	roundUp(spec.Overhead)
}

// defaultPodAddresses keeps the old singular podIP and the list in step; the
// singular wins where the two differ.
func defaultPodAddresses(s *corev1.PodStatus) {
	switch {
	case s.PodIP == "" && len(s.PodIPs) > 0:
		s.PodIP = s.PodIPs[0].IP
	case s.PodIP != "" && (len(s.PodIPs) == 0 || s.PodIPs[0].IP != s.PodIP):
		s.PodIPs = []corev1.PodIP{{IP: s.PodIP}}
	}
}

func defaultContainer(c *corev1.Container) {
	orDefault(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	orDefault(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	orDefault(&c.ImagePullPolicy, pullPolicy(c.Image))
	for i := range c.Ports {
		orDefault(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil {
			defaultFieldRef(from.FieldRef)
			if from.FileKeyRef != nil {
				orPointer(&from.FileKeyRef.Optional, false)
			}
		}
	}
	roundUp(c.Resources.Limits)
	roundUp(c.Resources.Requests)
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		defaultProbe(probe)
	}
	if c.Lifecycle != nil {
		for _, h := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if h != nil {
				defaultHTTPGet(h.HTTPGet)
			}
		}
	}
}

// pullPolicy pulls an image without a fixed version each time.
func pullPolicy(image string) corev1.PullPolicy {
	name, _, pinned := strings.Cut(image, "@")
	tag := ""
	if colon := strings.LastIndexByte(name, ':'); colon > strings.LastIndexByte(name, '/') {
		tag = name[colon+1:]
	}
	if image != "" && (tag == "latest" || tag == "" && !pinned) {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

// defaultRequests asks for what is allowed, where nothing is asked for.
func defaultRequests(r *corev1.ResourceRequirements) {
	if r.Limits != nil && r.Requests == nil {
		r.Requests = corev1.ResourceList{}
	}
	for name, q := range r.Limits {
		if _, set := r.Requests[name]; !set {
			r.Requests[name] = q.DeepCopy()
		}
	}
}

func defaultProbe(p *corev1.Probe) {
	if p == nil {
		return
	}
	orDefault(&p.TimeoutSeconds, 1)
	orDefault(&p.PeriodSeconds, 10)
	orDefault(&p.SuccessThreshold, 1)
	orDefault(&p.FailureThreshold, 3)
	defaultHTTPGet(p.HTTPGet)
	if p.GRPC != nil {
		orPointer(&p.GRPC.Service, "")
	}
}

func defaultHTTPGet(h *corev1.HTTPGetAction) {
	if h != nil {
		orDefault(&h.Path, "/")
		orDefault(&h.Scheme, corev1.URISchemeHTTP)
	}
}

func defaultFieldRef(f *corev1.ObjectFieldSelector) {
	if f != nil {
		orDefault(&f.APIVersion, "v1")
	}
}

// defaultVolume covers the volume sources that ordinary manifests use; the
// cloud disks' own defaults are left alone, as nothing here mounts them.
func defaultVolume(v *corev1.VolumeSource) {
	switch {
	case *v == corev1.VolumeSource{}:
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
	case v.HostPath != nil:
		orPointer(&v.HostPath.Type, corev1.HostPathUnset)
	case v.Secret != nil:
		orPointer(&v.Secret.DefaultMode, corev1.SecretVolumeSourceDefaultMode)
	case v.ConfigMap != nil:
		orPointer(&v.ConfigMap.DefaultMode, corev1.ConfigMapVolumeSourceDefaultMode)
	case v.DownwardAPI != nil:
		orPointer(&v.DownwardAPI.DefaultMode, corev1.DownwardAPIVolumeSourceDefaultMode)
		defaultDownward(v.DownwardAPI.Items)
	case v.Projected != nil:
		defaultProjected(v.Projected)
	case v.Image != nil:
		orDefault(&v.Image.PullPolicy, pullPolicy(v.Image.Reference))
	}
}

func defaultProjected(v *corev1.ProjectedVolumeSource) {
	orPointer(&v.DefaultMode, corev1.ProjectedVolumeSourceDefaultMode)
	for i := range v.Sources {
		if d := v.Sources[i].DownwardAPI; d != nil {
			defaultDownward(d.Items)
		}
		if t := v.Sources[i].ServiceAccountToken; t != nil {
			orPointer(&t.ExpirationSeconds, int64(3600))
		}
	}
}

func defaultDownward(files []corev1.DownwardAPIVolumeFile) {
	for i := range files {
		defaultFieldRef(files[i].FieldRef)
	}
}
