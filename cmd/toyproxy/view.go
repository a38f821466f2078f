package main

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/dataplane"
)

// view is one kind as get prints it, in kubectl's columns.
type view struct {
	names  []string
	plural string
	header []string
	wide   []string
	rows   func(look) []row
}

// row is one object of a view.
type row struct {
	resource, namespace, name string
	labels                    map[string]string
	cells, wide               []string
	object                    any
}

func views() []view {
	return slices.Concat(trafficViews(), doorViews(), workloadViews(), noteViews())
}

// allKinds is what "all" means, as for kubectl.
var allKinds = [...]string{"pods", "services", "daemonsets", "deployments", "replicasets", "statefulsets"}

// trafficViews are those of Services and what they lead to.
func trafficViews() []view {
	return []view{
		{[]string{"services", "service", "svc"}, "services",
			[]string{"NAME", "TYPE", "CLUSTER-IP", "EXTERNAL-IP", "PORT(S)", "AGE"}, []string{"SELECTOR"}, serviceRows},
		{[]string{"endpoints", "endpoint", "ep"}, "endpoints",
			[]string{"NAME", "ENDPOINTS", "AGE"}, nil, endpointRows},
		{[]string{"endpointslices", "endpointslice"}, "endpointslices",
			[]string{"NAME", "ADDRESSTYPE", "PORTS", "ENDPOINTS", "AGE"}, nil, sliceRows},
		{[]string{"pods", "pod", "po"}, "pods",
			[]string{"NAME", "READY", "STATUS", "RESTARTS", "AGE"}, []string{"IP", "NODE", "NETNS"}, podRows},
		{[]string{"frontends", "frontend", "fe"}, "frontends",
			[]string{"FRONTEND", "SERVICE", "KIND", "ENDPOINTS", "POD", "NODE", "OUTSIDE"}, []string{"AFFINITY"}, frontendRows},
	}
}

func viewOf(kind string) (view, bool) {
	for _, v := range views() {
		if slices.Contains(v.names, strings.ToLower(kind)) {
			return v, true
		}
	}
	return view{}, false
}

// kindNames are the names of all kinds, in the plural.
func kindNames() []string {
	var out []string
	for _, v := range views() {
		out = append(out, v.plural)
	}
	return out
}

func age(t metav1.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(time.Since(t.Time))
}

func joinOr(none string, parts []string) string {
	if len(parts) == 0 {
		return none
	}
	return strings.Join(parts, ",")
}

func serviceRows(d look) []row {
	var rows []row
	for _, s := range d.Objects.Services {
		ports := make([]string, len(s.Spec.Ports))
		for i, p := range s.Spec.Ports {
			ports[i] = strconv.Itoa(int(p.Port))
			if p.NodePort != 0 {
				ports[i] += ":" + strconv.Itoa(int(p.NodePort))
			}
			ports[i] += "/" + string(p.Protocol)
		}
		rows = append(rows, row{"service", s.Namespace, s.Name, s.Labels,
			[]string{s.Name, string(s.Spec.Type), orNone(s.Spec.ClusterIP), externalOf(s), joinOr("<none>", ports), age(s.CreationTimestamp)},
			[]string{joinOr("<none>", []string{labels.FormatLabels(s.Spec.Selector)})}, typed(s, "v1", "Service")})
	}
	return rows
}

func orNone(s string) string {
	if s == "" {
		return "<none>"
	}
	return s
}

func externalOf(s *corev1.Service) string {
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		return s.Spec.ExternalName
	}
	var ips []string
	for _, in := range s.Status.LoadBalancer.Ingress {
		ips = append(ips, cmp.Or(in.IP, in.Hostname))
	}
	ips = append(ips, s.Spec.ExternalIPs...)
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer {
		return joinOr("<pending>", ips)
	}
	return joinOr("<none>", ips)
}

// endpointRows joins the slices of each Service, as the old Endpoints view did.
func endpointRows(d look) []row {
	var rows []row
	for _, s := range d.Objects.Services {
		var addrs []string
		for _, sl := range d.Slices {
			if sl.Namespace != s.Namespace || sl.Labels[discoveryv1.LabelServiceName] != s.Name {
				continue
			}
			addrs = append(addrs, readyAddresses(sl)...)
		}
		shown := firstThree(addrs)
		rows = append(rows, row{"endpoints", s.Namespace, s.Name, s.Labels,
			[]string{s.Name, joinOr("<none>", shown), age(s.CreationTimestamp)}, nil,
			map[string]any{"service": s.Namespace + "/" + s.Name, "endpoints": nonNil(addrs)}})
	}
	return rows
}

func readyAddresses(sl *discoveryv1.EndpointSlice) []string {
	var out []string
	for _, ep := range sl.Endpoints {
		if ep.Conditions.Ready != nil && !*ep.Conditions.Ready || len(ep.Addresses) == 0 {
			continue
		}
		for _, p := range sl.Ports {
			if p.Port != nil {
				out = append(out, hostPort(ep.Addresses[0], int(*p.Port)))
			}
		}
	}
	return out
}

func hostPort(addr string, port int) string {
	if strings.Contains(addr, ":") {
		addr = "[" + addr + "]"
	}
	return addr + ":" + strconv.Itoa(port)
}

func sliceRows(d look) []row {
	var rows []row
	for _, sl := range d.Slices {
		var ports, addrs []string
		for _, p := range sl.Ports {
			if p.Port != nil {
				ports = append(ports, strconv.Itoa(int(*p.Port)))
			}
		}
		for _, ep := range sl.Endpoints {
			addrs = append(addrs, ep.Addresses...)
		}
		addrs = firstThree(addrs)
		rows = append(rows, row{"endpointslice.discovery.k8s.io", sl.Namespace, sl.Name, sl.Labels,
			[]string{sl.Name, string(sl.AddressType), joinOr("<unset>", ports), joinOr("<unset>", addrs), age(sl.CreationTimestamp)},
			nil, typed(sl, "discovery.k8s.io/v1", "EndpointSlice")})
	}
	return rows
}

func frontendRows(d look) []row {
	var rows []row
	for _, fe := range d.Table.Frontends {
		ns, _, _ := strings.Cut(agent.ServiceName(fe.Service), "/")
		var addrs []string
		var affinity time.Duration
		if set, ok := d.Table.Set(fe.Routes[dataplane.FromPod].Set); ok {
			affinity = set.Affinity
			for _, e := range set.Endpoints {
				addrs = append(addrs, e.Addr.String())
			}
		}
		shown := firstThree(addrs)
		cells := []string{fe.Key.String(), fe.Service, fe.Kind.String(), joinOr("<none>", shown)}
		routes := map[string]string{}
		for s := dataplane.FromPod; s < dataplane.Sources; s++ {
			cells = append(cells, routeText(fe.Routes[s]))
			routes[s.String()] = routeText(fe.Routes[s])
		}
		rows = append(rows, row{"frontend", ns, fe.Key.String(), nil, cells, []string{affinity.String()}, map[string]any{
			"frontend": fe.Key.String(), "service": fe.Service, "kind": fe.Kind.String(),
			"endpoints": nonNil(addrs), "routes": routes, "affinitySeconds": int(affinity.Seconds())}})
	}
	return rows
}

func routeText(r dataplane.Route) string {
	if r.Masquerade {
		return r.Verdict.String() + "+masquerade"
	}
	return r.Verdict.String()
}

// typed returns a copy that says its kind, as every printed object must.
func typed[T interface {
	GetObjectKind() schema.ObjectKind
	DeepCopy() T
}](obj T, apiVersion, kind string) T {
	out := obj.DeepCopy()
	out.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(apiVersion, kind))
	return out
}
