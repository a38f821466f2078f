package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func describePod(w io.Writer, pod *corev1.Pod, l look) error {
	p := newPage(w, "")
	p.sayMeta(&pod.ObjectMeta)
	p.say("Node", orNone(pod.Spec.NodeName))
	if pod.Status.StartTime != nil {
		p.say("Start Time", pod.Status.StartTime.Format(time.RFC1123Z))
	}
	status := summarize(pod).status
	if pod.DeletionTimestamp != nil {
		status += fmt.Sprintf(" (by %s)", pod.DeletionTimestamp.Format(time.RFC1123Z))
	}
	p.say("Status", status)
	if pod.Status.Message != "" {
		p.say("Message", pod.Status.Message)
	}
	p.say("IP", orNone(pod.Status.PodIP))
	var ips []string
	for _, ip := range pod.Status.PodIPs {
		ips = append(ips, ip.IP)
	}
	p.say("IPs", orNone(strings.Join(ips, ", ")))
	p.say("Network Namespace", orNone(podNamespaceName(l.Desired, pod)))
	if err := p.flush(); err != nil {
		return err
	}
	states := map[string]*corev1.ContainerStatus{}
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range list {
			states[list[i].Name] = &list[i]
		}
	}
	if err := describeContainers(w, "", &pod.Spec, states); err != nil {
		return err
	}
	var rows [][]string
	for _, c := range pod.Status.Conditions {
		rows = append(rows, []string{string(c.Type), string(c.Status)})
	}
	if err := describeConditions(w, []string{"Type", "Status"}, rows); err != nil {
		return err
	}
	return describeVolumes(w, "", pod.Spec.Volumes)
}

// describeTemplate prints the template of a workload's Pods.
func describeTemplate(w io.Writer, t *corev1.PodTemplateSpec) error {
	fmt.Fprintln(w, "Pod Template:")
	p := newPage(w, "  ")
	p.sayMap("Labels", t.Labels, "=")
	if len(t.Annotations) > 0 {
		p.sayMap("Annotations", t.Annotations, ": ")
	}
	if err := p.flush(); err != nil {
		return err
	}
	if err := describeContainers(w, "  ", &t.Spec, nil); err != nil {
		return err
	}
	return describeVolumes(w, "  ", t.Spec.Volumes)
}

// describeContainers prints the containers of a Pod, with what is known of them.
func describeContainers(w io.Writer, indent string, spec *corev1.PodSpec, states map[string]*corev1.ContainerStatus) error {
	for _, list := range []struct {
		heading    string
		containers []corev1.Container
	}{{"Init Containers", spec.InitContainers}, {"Containers", spec.Containers}} {
		if len(list.containers) == 0 {
			continue
		}
		fmt.Fprintf(w, "%s%s:\n", indent, list.heading)
		for i := range list.containers {
			c := &list.containers[i]
			fmt.Fprintf(w, "%s  %s:\n", indent, printable(c.Name))
			if err := describeContainer(newPage(w, indent+"    "), c, states[c.Name]); err != nil {
				return err
			}
		}
	}
	return nil
}

func describeContainer(p page, c *corev1.Container, s *corev1.ContainerStatus) error {
	image := c.Image
	if len(c.Command) == 0 {
		image += " (nothing is pulled: the built-in stand-in serves its ports)"
	}
	p.say("Image", image)
	var ports []string
	for _, port := range c.Ports {
		ports = append(ports, fmt.Sprintf("%d/%s", port.ContainerPort, port.Protocol))
	}
	p.say("Ports", orNone(strings.Join(ports, ", ")))
	if len(c.Command) > 0 {
		p.say("Command", strings.Join(c.Command, " "))
	}
	if len(c.Args) > 0 {
		p.say("Args", strings.Join(c.Args, " "))
	}
	if s != nil {
		describeState(p, "State", s.State)
		if s.LastTerminationState.Terminated != nil {
			describeState(p, "Last State", s.LastTerminationState)
		}
		p.say("Ready", strconv.FormatBool(s.Ready))
		p.say("Restart Count", number(s.RestartCount))
	}
	for _, probe := range []struct {
		name  string
		probe *corev1.Probe
	}{{"Liveness", c.LivenessProbe}, {"Readiness", c.ReadinessProbe}, {"Startup", c.StartupProbe}} {
		if probe.probe != nil {
			p.say(probe.name, probeText(probe.probe))
		}
	}
	var env, mounts []string
	for _, from := range c.EnvFrom {
		env = append(env, envFromText(from))
	}
	for _, v := range c.Env {
		env = append(env, envText(v))
	}
	for _, m := range c.VolumeMounts {
		mode := "rw"
		if m.ReadOnly {
			mode = "ro"
		}
		mounts = append(mounts, fmt.Sprintf("%s from %s (%s)", m.MountPath, m.Name, mode))
	}
	p.list(p.indent+"Environment:", env)
	p.list(p.indent+"Mounts:", mounts)
	return p.flush()
}

// envFromText names what a container has all of in its environment.
func envFromText(from corev1.EnvFromSource) string {
	prefix := ""
	if from.Prefix != "" {
		prefix = ", each named " + from.Prefix + "…"
	}
	switch {
	case from.ConfigMapRef != nil:
		return "all of ConfigMap " + from.ConfigMapRef.Name + prefix
	case from.SecretRef != nil:
		return "all of Secret " + from.SecretRef.Name + prefix
	}
	return "<none>"
}

func describeState(p page, name string, s corev1.ContainerState) {
	switch {
	case s.Running != nil:
		p.say(name, "Running since "+s.Running.StartedAt.Format(time.RFC1123Z))
	case s.Terminated != nil:
		t := s.Terminated
		p.say(name, fmt.Sprintf("Terminated: %s, exit code %d, %s", endReason(t), t.ExitCode, t.FinishedAt.Format(time.RFC1123Z)))
		if t.Message != "" {
			p.say("  Message", t.Message)
		}
	case s.Waiting != nil:
		p.say(name, "Waiting: "+s.Waiting.Reason)
		if s.Waiting.Message != "" {
			p.say("  Message", s.Waiting.Message)
		}
	}
}

// probeText is a probe in one line, as kubectl has it.
func probeText(p *corev1.Probe) string {
	what := "unknown"
	switch {
	case p.Exec != nil:
		what = "exec " + fmt.Sprint(p.Exec.Command)
	case p.HTTPGet != nil:
		what = fmt.Sprintf("http-get %s://%s:%s%s", strings.ToLower(string(p.HTTPGet.Scheme)), p.HTTPGet.Host, p.HTTPGet.Port.String(), p.HTTPGet.Path)
	case p.TCPSocket != nil:
		what = fmt.Sprintf("tcp-socket %s:%s", p.TCPSocket.Host, p.TCPSocket.Port.String())
	case p.GRPC != nil:
		what = fmt.Sprintf("grpc <pod>:%d", p.GRPC.Port)
	}
	return fmt.Sprintf("%s delay=%ds timeout=%ds period=%ds #success=%d #failure=%d", what, p.InitialDelaySeconds, p.TimeoutSeconds,
		p.PeriodSeconds, p.SuccessThreshold, p.FailureThreshold)
}

// envText never shows what a Secret holds.
func envText(v corev1.EnvVar) string {
	from := v.ValueFrom
	switch {
	case from == nil:
		return v.Name + ": " + v.Value
	case from.FieldRef != nil:
		return fmt.Sprintf("%s: (%s:%s)", v.Name, from.FieldRef.APIVersion, from.FieldRef.FieldPath)
	case from.ConfigMapKeyRef != nil:
		return fmt.Sprintf("%s: <set to the key '%s' of config map '%s'>", v.Name, from.ConfigMapKeyRef.Key, from.ConfigMapKeyRef.Name)
	case from.SecretKeyRef != nil:
		return fmt.Sprintf("%s: <set to the key '%s' in secret '%s'>", v.Name, from.SecretKeyRef.Key, from.SecretKeyRef.Name)
	}
	return v.Name + ": <set from elsewhere>"
}

func describeVolumes(w io.Writer, indent string, volumes []corev1.Volume) error {
	p := newPage(w, indent)
	var lines []string
	for _, v := range volumes {
		lines = append(lines, v.Name+": "+volumeText(&v.VolumeSource))
	}
	p.list(indent+"Volumes:", lines)
	return p.flush()
}

func volumeText(v *corev1.VolumeSource) string {
	switch {
	case v.EmptyDir != nil:
		return "EmptyDir (shares the Pod's lifetime)"
	case v.HostPath != nil:
		return "HostPath " + v.HostPath.Path
	case v.ConfigMap != nil:
		return "ConfigMap " + v.ConfigMap.Name
	case v.Secret != nil:
		return "Secret " + v.Secret.SecretName
	}
	return "of another type"
}
