package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/cluster"
)

func describeCommand() *cobra.Command {
	var src sourceFlags
	var nf nodeFlags
	var g getFlags
	cmd := &cobra.Command{
		Use:   "describe KIND [NAME...]",
		Short: "Show objects in full, with what happened to them",
		Long: `Shows the objects that live on this node in full: addresses, ports, endpoints and
policies of Services, the state of Pods and of what makes them, and the events of the
last hour. With -f those of the manifests instead.`,
		Example: `  toyproxy describe svc web
  toyproxy describe deploy/web
  toyproxy describe pods -l app=web`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			req, err := g.request(args)
			if err == nil && slices.ContainsFunc(req.views, func(v view) bool { return !describable(v) }) {
				err = fmt.Errorf("this kind cannot be described; see it with: toyproxy get %s -o yaml", args[0])
			}
			if err != nil {
				return exit(exitUsage, err)
			}
			if err := req.readable(&src, &nf); err != nil {
				return err
			}
			d, err := readLook(cmd, &src, &nf)
			if err != nil {
				return err
			}
			printProblems(cmd.ErrOrStderr(), d.Problems)
			return g.describe(cmd, req, d)
		},
	}
	src.register(cmd)
	nf.registerScope(cmd)
	g.registerChoice(cmd)
	return cmd
}

// describable tells whether objects of a kind have more to tell than get does.
func describable(v view) bool {
	return slices.Contains([]string{"services", "ingresses", "gatewayclasses", "gateways", "httproutes", "pods", "deployments", "replicasets",
		"statefulsets", "daemonsets", "configmaps", "secrets"}, v.plural)
}

// describe prints the objects that a request asks for, with two empty lines between.
func (g *getFlags) describe(cmd *cobra.Command, req request, d look) error {
	var missing []error
	printed := 0
	for _, v := range req.views {
		rows, err := g.pick(req, v, d)
		missing = append(missing, err)
		for _, r := range rows {
			if printed++; printed > 1 {
				fmt.Fprintf(cmd.OutOrStdout(), "\n\n")
			}
			if err := describeObject(cmd.OutOrStdout(), r.object, d); err != nil {
				return err
			}
		}
	}
	if err := errors.Join(missing...); err != nil || len(d.Errors()) == 0 {
		return err
	}
	return exit(exitBadManifest, nil)
}

// describeObject prints one object, and below it what happened to it.
func describeObject(w io.Writer, object any, d look) error {
	var err error
	var kind cluster.Kind
	switch o := object.(type) {
	case *corev1.Service:
		err, kind = describeService(w, o, d.Desired), cluster.Service
		if err == nil && d.live {
			err = describeTraffic(w, o)
		}
	case *corev1.Pod:
		err, kind = describePod(w, o, d), cluster.Pod
	case *appsv1.Deployment:
		err, kind = describeDeployment(w, o, d), cluster.Deployment
	case *appsv1.ReplicaSet:
		err, kind = describeReplicaSet(w, o, d), cluster.ReplicaSet
	case *appsv1.StatefulSet:
		err, kind = describeStatefulSet(w, o, d), cluster.StatefulSet
	case *appsv1.DaemonSet:
		err, kind = describeDaemonSet(w, o, d), cluster.DaemonSet
	case *corev1.ConfigMap:
		return describeConfigMap(w, o)
	case *corev1.Secret:
		return describeSecret(w, o)
	case *networkingv1.Ingress:
		err, kind = describeIngress(w, o, d), cluster.Ingress
	default:
		return describeDoor(w, o, d)
	}
	if meta, ok := object.(metav1.Object); ok && err == nil && d.live {
		err = describeEvents(w, d, cluster.MakeRef(kind, meta.GetNamespace(), meta.GetName()))
	}
	return err
}

// describeService prints what kubectl prints of a Service, in its order.
func describeService(w io.Writer, s *corev1.Service, d agent.Desired) error {
	c := newColumns(w)
	say := func(name, value string) { c.row(name+":", value) }
	optional := func(name, value string) {
		if value != "" {
			say(name, value)
		}
	}
	spec := &s.Spec
	say("Name", s.Name)
	say("Namespace", s.Namespace)
	c.list("Labels:", pairs(s.Labels, "="))
	c.list("Annotations:", pairs(s.Annotations, ": "))
	say("Selector", orNone(joinLabels(spec.Selector)))
	say("Type", string(spec.Type))
	optional("IP Family Policy", valueOf(spec.IPFamilyPolicy))
	optional("IP Families", joinAs(spec.IPFamilies))
	say("IP", spec.ClusterIP)
	optional("IPs", strings.Join(spec.ClusterIPs, ","))
	optional("External IPs", strings.Join(spec.ExternalIPs, ","))
	optional("Desired LoadBalancer IP", spec.LoadBalancerIP)
	optional("LoadBalancer Ingress", strings.Join(ingressTexts(s), ", "))
	optional("External Name", spec.ExternalName)
	for _, p := range spec.Ports {
		describePort(c, p, endpointsOf(d, s, p))
	}
	say("Session Affinity", string(spec.SessionAffinity))
	optional("External Traffic Policy", string(spec.ExternalTrafficPolicy))
	optional("Internal Traffic Policy", valueOf(spec.InternalTrafficPolicy))
	optional("Traffic Distribution", valueOf(spec.TrafficDistribution))
	if spec.HealthCheckNodePort != 0 {
		say("HealthCheck NodePort", fmt.Sprint(spec.HealthCheckNodePort))
	}
	optional("LoadBalancer Source Ranges", strings.Join(spec.LoadBalancerSourceRanges, ","))
	return c.flush()
}

func describePort(c columns, p corev1.ServicePort, endpoints []string) {
	name := p.Name
	if name == "" {
		name = "<unset>"
	}
	c.row("Port:", fmt.Sprintf("%s  %d/%s", name, p.Port, p.Protocol))
	c.row("TargetPort:", fmt.Sprintf("%s/%s", p.TargetPort.String(), p.Protocol))
	if p.NodePort != 0 {
		c.row("NodePort:", fmt.Sprintf("%s  %d/%s", name, p.NodePort, p.Protocol))
	}
	c.row("Endpoints:", strings.Join(firstThree(endpoints), ","))
}

// ingressTexts are the addresses of a load balancer, with what they mean.
func ingressTexts(s *corev1.Service) []string {
	var out []string
	for _, in := range s.Status.LoadBalancer.Ingress {
		text := in.Hostname
		if in.IP != "" {
			text = in.IP
		}
		if in.IPMode != nil {
			text += fmt.Sprintf(" (%s)", *in.IPMode)
		}
		out = append(out, text)
	}
	return out
}

// endpointsOf are the ready endpoints of one port of a Service.
func endpointsOf(d agent.Desired, s *corev1.Service, p corev1.ServicePort) []string {
	var out []string
	for _, sl := range d.Slices {
		if sl.Namespace != s.Namespace || sl.Labels[discoveryv1.LabelServiceName] != s.Name {
			continue
		}
		one := *sl
		one.Ports = slices.DeleteFunc(slices.Clone(sl.Ports), func(have discoveryv1.EndpointPort) bool {
			return have.Name == nil || *have.Name != p.Name || have.Protocol == nil || *have.Protocol != p.Protocol
		})
		out = append(out, readyAddresses(&one)...)
	}
	return out
}

// firstThree is a list as far as a line takes it.
func firstThree(list []string) []string {
	if len(list) <= 3 {
		return list
	}
	return append(slices.Clone(list[:3]), fmt.Sprintf("+ %d more...", len(list)-3))
}

func pairs(m map[string]string, between string) []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k+between+m[k])
	}
	return out
}

func joinLabels(m map[string]string) string {
	if len(m) == 0 {
		return ""
	}
	return labels.FormatLabels(m)
}

// valueOf is the value of an optional field, empty when it is not set.
func valueOf[T ~string](p *T) string {
	if p == nil {
		return ""
	}
	return string(*p)
}

func joinAs[T ~string](list []T) string {
	parts := make([]string, len(list))
	for i, v := range list {
		parts[i] = string(v)
	}
	return strings.Join(parts, ",")
}
