package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The API versions of the kinds below.
const (
	ingressVersion = "networking.k8s.io/v1"
	gatewayVersion = "gateway.networking.k8s.io/v1"
)

// doorViews are those of Ingress and of the Gateway API.
func doorViews() []view {
	return []view{
		{[]string{"ingresses", "ingress", "ing"}, "ingresses",
			[]string{"NAME", "CLASS", "HOSTS", "ADDRESS", "PORTS", "AGE"}, nil, ingressRows},
		{[]string{"ingressclasses", "ingressclass"}, "ingressclasses", []string{"NAME", "CONTROLLER", "PARAMETERS", "AGE"}, nil, ingressClassRows},
		{[]string{"gatewayclasses", "gatewayclass", "gc"}, "gatewayclasses",
			[]string{"NAME", "CONTROLLER", "ACCEPTED", "AGE"}, []string{"DESCRIPTION"}, gatewayClassRows},
		{[]string{"gateways", "gateway", "gtw"}, "gateways", []string{"NAME", "CLASS", "ADDRESS", "PROGRAMMED", "AGE"}, nil, gatewayRows},
		{[]string{"httproutes", "httproute"}, "httproutes", []string{"NAME", "HOSTNAMES", "AGE"}, nil, routeRows},
		{[]string{"referencegrants", "referencegrant", "refgrant"}, "referencegrants", []string{"NAME", "AGE"}, nil, grantRows},
	}
}

func ingressRows(d look) []row {
	var rows []row
	for _, o := range d.Objects.Ingresses {
		ports := "80"
		if len(o.Spec.TLS) > 0 {
			ports = "80, 443"
		}
		rows = append(rows, row{"ingress.networking.k8s.io", o.Namespace, o.Name, o.Labels,
			[]string{o.Name, orNone(valueOf(o.Spec.IngressClassName)), hostsText(o.Spec.Rules), strings.Join(ingressAddresses(o), ","), ports, age(o.CreationTimestamp)},
			nil, typed(o, ingressVersion, "Ingress")})
	}
	return rows
}

// hostsText are the hosts of an Ingress as kubectl shows them: three of them.
func hostsText(rules []networkingv1.IngressRule) string {
	const most = 3
	var hosts []string
	for _, r := range rules {
		if len(hosts) == most {
			return fmt.Sprintf("%s + %d more...", strings.Join(hosts, ","), len(rules)-most)
		}
		if r.Host != "" {
			hosts = append(hosts, r.Host)
		}
	}
	return joinOr("*", hosts)
}

// ingressAddresses are the addresses at which an Ingress is served.
func ingressAddresses(i *networkingv1.Ingress) []string {
	var out []string
	for _, in := range i.Status.LoadBalancer.Ingress {
		out = append(out, cmp.Or(in.IP, in.Hostname))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func ingressClassRows(d look) []row {
	var rows []row
	for _, o := range d.Objects.IngressClasses {
		rows = append(rows, row{"ingressclass.networking.k8s.io", "", o.Name, o.Labels,
			[]string{o.Name, o.Spec.Controller, orNone(parametersText(o.Spec.Parameters)), age(o.CreationTimestamp)},
			nil, typed(o, ingressVersion, "IngressClass")})
	}
	return rows
}

func parametersText(p *networkingv1.IngressClassParametersReference) string {
	if p == nil {
		return ""
	}
	kind := p.Kind
	if p.APIGroup != nil {
		kind += "." + *p.APIGroup
	}
	return kind + "/" + p.Name
}

func gatewayClassRows(d look) []row {
	var rows []row
	for _, o := range d.Objects.GatewayClasses {
		rows = append(rows, row{"gatewayclass.gateway.networking.k8s.io", "", o.Name, o.Labels,
			[]string{o.Name, string(o.Spec.ControllerName), conditionStatus(o.Status.Conditions, "Accepted"), age(o.CreationTimestamp)},
			[]string{valueOf(o.Spec.Description)}, typed(o, gatewayVersion, "GatewayClass")})
	}
	return rows
}

// conditionStatus is the status of one condition; "" when nobody has set it.
func conditionStatus(conditions []metav1.Condition, kind string) string {
	if c := apimeta.FindStatusCondition(conditions, kind); c != nil {
		return string(c.Status)
	}
	return ""
}

func gatewayRows(d look) []row {
	var rows []row
	for _, o := range d.Objects.Gateways {
		address := ""
		if len(o.Status.Addresses) > 0 {
			address = o.Status.Addresses[0].Value
		}
		rows = append(rows, row{"gateway.gateway.networking.k8s.io", o.Namespace, o.Name, o.Labels,
			[]string{o.Name, string(o.Spec.GatewayClassName), address, conditionStatus(o.Status.Conditions, "Programmed"), age(o.CreationTimestamp)},
			nil, typed(o, gatewayVersion, "Gateway")})
	}
	return rows
}

func routeRows(d look) []row {
	var rows []row
	for _, o := range d.Objects.HTTPRoutes {
		hosts := ""
		if len(o.Spec.Hostnames) > 0 {
			text, _ := json.Marshal(o.Spec.Hostnames) // strings always marshal
			hosts = string(text)
		}
		rows = append(rows, row{"httproute.gateway.networking.k8s.io", o.Namespace, o.Name, o.Labels,
			[]string{o.Name, hosts, age(o.CreationTimestamp)}, nil, typed(o, gatewayVersion, "HTTPRoute")})
	}
	return rows
}

func grantRows(d look) []row {
	var rows []row
	for _, o := range d.Objects.ReferenceGrants {
		rows = append(rows, row{"referencegrant.gateway.networking.k8s.io", o.Namespace, o.Name, o.Labels,
			[]string{o.Name, age(o.CreationTimestamp)}, nil, typed(o, gatewayVersion, "ReferenceGrant")})
	}
	return rows
}
