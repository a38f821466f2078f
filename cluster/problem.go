package cluster

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Kind is the kind of an object this product reads.
type Kind string

// The kinds a source may yield.
const (
	Service       Kind = "Service"
	Pod           Kind = "Pod"
	EndpointSlice Kind = "EndpointSlice"
	Node          Kind = "Node"
	Namespace     Kind = "Namespace"
	ConfigMap     Kind = "ConfigMap"
	Secret        Kind = "Secret"
	Deployment    Kind = "Deployment"
	ReplicaSet    Kind = "ReplicaSet"
	StatefulSet   Kind = "StatefulSet"
	DaemonSet     Kind = "DaemonSet"

	Ingress        Kind = "Ingress"
	IngressClass   Kind = "IngressClass"
	GatewayClass   Kind = "GatewayClass"
	Gateway        Kind = "Gateway"
	HTTPRoute      Kind = "HTTPRoute"
	ReferenceGrant Kind = "ReferenceGrant"
)

// Ref names one object.
type Ref struct {
	Kind Kind
	types.NamespacedName
}

// MakeRef names an object; namespace is empty for Nodes and Namespaces.
func MakeRef(kind Kind, namespace, name string) Ref {
	return Ref{kind, types.NamespacedName{Namespace: namespace, Name: name}}
}

// String returns "Service default/web", or "Node n1" without a namespace.
func (r Ref) String() string {
	if r.Kind == "" {
		return ""
	}
	if r.Namespace == "" {
		return string(r.Kind) + " " + r.Name
	}
	return string(r.Kind) + " " + r.Namespace + "/" + r.Name
}

// Compare orders by kind, namespace and name.
func (r Ref) Compare(o Ref) int {
	return cmp.Or(cmp.Compare(r.Kind, o.Kind), cmp.Compare(r.Namespace, o.Namespace), cmp.Compare(r.Name, o.Name))
}

// Position is a place in a manifest. Lines and columns count from 1; 0 means
// not known. File is empty for objects that come from no file.
type Position struct {
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
}

// String returns "file:line:column", leaving out what is not known.
func (p Position) String() string {
	switch {
	case p.File == "":
		return ""
	case p.Line == 0:
		return p.File
	case p.Column == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Problem is something wrong with the input: data, not an error that stops.
type Problem struct {
	Position
	// Object is the object concerned; zero when none could be decoded.
	Object Ref
	// Field is the path within the object, as in kubectl: spec.ports[0].port.
	Field string
	// Message says what is wrong, why, and how to mend it.
	Message string
	// Warning: the object is used all the same (a field that is ignored, say).
	// Without it the object, or the part named by Field, is left out.
	Warning bool
}

// String returns "file:line:column: Service default/web: field: message".
func (p Problem) String() string {
	var parts []string
	for _, s := range []string{p.Position.String(), p.Object.String(), p.Field} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(append(parts, p.Message), ": ")
}
