package conformance

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v3"

	"github.com/toyproxy/toyproxy/test/lab"
)

// tree is one YAML document, not of any type yet.
type tree = map[string]any

// manifest is the step's whole input as a user would write it: the Pods in YAML
// and the objects, with their IPv6 half.
func (s step) manifest(oneFamily bool) (string, error) {
	docs, err := podDocuments(s.pods, oneFamily)
	if err != nil {
		return "", err
	}
	decoder := yaml.NewDecoder(strings.NewReader(s.objects))
	for {
		var doc tree
		err := decoder.Decode(&doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", err
		}
		docs = append(docs, doc)
		if !oneFamily {
			more, err := widen(doc)
			if err != nil {
				return "", err
			}
			docs = append(docs, more...)
		}
	}
	var out strings.Builder
	for _, d := range docs {
		b, err := yaml.Marshal(d)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&out, "---\n%s", b)
	}
	return out.String(), nil
}

// podDocuments reads lines such as "p2 app=web port=http:8080 notready". A Pod
// of the name q… lives on the second node.
func podDocuments(text string, oneFamily bool) ([]tree, error) {
	var out []tree
	for _, line := range lines(text) {
		words := strings.Fields(line)
		addrs, node, err := podAddrs(words[0])
		if err != nil {
			return nil, fmt.Errorf("pod %q: %w", line, err)
		}
		if oneFamily {
			addrs = addrs[:1]
		}
		labels, ports, ready := tree{}, []any{}, "True"
		for _, w := range words[1:] {
			key, value, _ := strings.Cut(w, "=")
			switch key {
			case "notready":
				ready = "False"
			case "port":
				port, err := containerPort(value)
				if err != nil {
					return nil, fmt.Errorf("pod %q: %w", line, err)
				}
				ports = append(ports, port)
			default:
				labels[key] = value
			}
		}
		out = append(out, tree{
			"apiVersion": "v1", "kind": "Pod",
			"metadata": tree{"name": words[0], "namespace": "default", "labels": labels},
			"spec":     tree{"nodeName": node, "containers": []any{tree{"name": "server", "image": "server", "ports": ports}}},
			"status": tree{
				"phase": "Running", "podIP": addrs[0].String(), "podIPs": podIPs(addrs),
				"conditions": []any{tree{"type": "Ready", "status": ready}},
			},
		})
	}
	return out, nil
}

// podAddrs returns the lab's addresses of pN or qN, IPv4 first, and its node.
func podAddrs(pod string) ([]netip.Addr, string, error) {
	n, err := strconv.Atoi(pod[1:])
	if err != nil {
		return nil, "", err
	}
	node, third := nodeName, byte(0)
	if pod[0] == 'q' {
		node, third = "m", 1
	}
	v4 := netip.AddrFrom4([4]byte{10, 244, third, byte(10 + n)})
	v6, _ := lab.Twin(v4)
	return []netip.Addr{v4, v6}, node, nil
}

// containerPort reads "http:8080", or "dns:5353/UDP".
func containerPort(text string) (tree, error) {
	name, rest, _ := strings.Cut(text, ":")
	number, protocol, _ := strings.Cut(rest, "/")
	n, err := strconv.Atoi(number)
	if err != nil {
		return nil, err
	}
	port := tree{"name": name, "containerPort": n}
	if protocol != "" {
		port["protocol"] = protocol
	}
	return port, nil
}

func podIPs(addrs []netip.Addr) []any {
	var out []any
	for _, a := range addrs {
		out = append(out, tree{"ip": a.String()})
	}
	return out
}

// widen makes an object count for IPv6 as well: a Service with a ClusterIP
// becomes dual stack in place, of an EndpointSlice it returns the sister.
func widen(doc tree) ([]tree, error) {
	switch doc["kind"] {
	case "Service":
		widenService(doc["spec"].(tree))
		if err := widenDoors(doc); err != nil {
			return nil, err
		}
	case "EndpointSlice":
		return []tree{sister(doc)}, nil
	}
	return nil, nil
}

func widenService(spec tree) {
	vip, _ := spec["clusterIP"].(string)
	v4, err := netip.ParseAddr(vip)
	if err != nil || spec["clusterIPs"] != nil {
		return
	}
	v6, _ := lab.Twin(v4)
	spec["clusterIPs"] = []any{v4.String(), v6.String()}
	spec["ipFamilies"] = []any{"IPv4", "IPv6"}
	spec["ipFamilyPolicy"] = "RequireDualStack"
}

// sister is the IPv6 slice beside an IPv4 slice.
func sister(doc tree) tree {
	out := maps.Clone(doc)
	meta := maps.Clone(doc["metadata"].(tree))
	meta["name"] = fmt.Sprint(meta["name"], "-v6")
	out["metadata"], out["addressType"] = meta, "IPv6"
	endpoints := slices.Clone(doc["endpoints"].([]any))
	for i, e := range endpoints {
		endpoint := maps.Clone(e.(tree))
		var addrs []any
		for _, a := range endpoint["addresses"].([]any) {
			v6, _ := lab.Twin(netip.MustParseAddr(a.(string)))
			addrs = append(addrs, v6.String())
		}
		endpoint["addresses"] = addrs
		endpoints[i] = endpoint
	}
	out["endpoints"] = endpoints
	return out
}
