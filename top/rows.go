package top

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/toyproxy/toyproxy/dataplane/meter"
)

// Sample is what Service ports have carried in an interval.
type Sample struct {
	// Lines are what each has carried in the interval, sorted; Active is as of its end.
	Lines []meter.Line
	Took  time.Duration
	// Notes are what people have to know to read it rightly.
	Notes []string
}

// Row is one Service port in a table: per second what came in an interval.
type Row struct {
	// Namespace and Service are the Service's, Port is the port's name, if it has one.
	Namespace string `json:"namespace"`
	Service   string `json:"service"`
	Port      string `json:"port,omitempty"`
	Protocol  string `json:"protocol"`
	Rates
	Endpoints []Share `json:"endpoints"`
}

// Rates are what was carried, by second. In came from clients, Out from endpoints.
type Rates struct {
	Connections float64 `json:"connectionsPerSecond"`
	Active      int     `json:"activeConnections"`
	PacketsIn   float64 `json:"packetsInPerSecond"`
	PacketsOut  float64 `json:"packetsOutPerSecond"`
	BytesIn     float64 `json:"bytesInPerSecond"`
	BytesOut    float64 `json:"bytesOutPerSecond"`
}

// Share is the part of one endpoint in a row.
type Share struct {
	Address netip.AddrPort `json:"address"`
	// Pod is "namespace/name"; empty when it is not known.
	Pod string `json:"pod,omitempty"`
	Rates
	// Part is its part of the connections of the interval, of 1; when there were none,
	// of those that are open.
	Part float64 `json:"share"`
}

// Name is how the row is called: "default/web:http".
func (r Row) Name() string {
	name := r.Namespace + "/" + r.Service
	if r.Port != "" {
		name += ":" + r.Port
	}
	return name
}

// bytes is what rows are ordered by when traffic counts.
func (r Rates) bytes() float64 { return r.BytesIn + r.BytesOut }

// Rows turns a sample into rows.
func Rows(s Sample) []Row {
	out := make([]Row, 0, len(s.Lines))
	for _, l := range s.Lines {
		service, port, _ := strings.Cut(l.Service, ":")
		namespace, name, _ := strings.Cut(service, "/")
		r := Row{Namespace: namespace, Service: name, Port: port, Protocol: l.Protocol.String(), Rates: rates(l.Count, s.Took)}
		r.Endpoints = make([]Share, 0, len(l.Endpoints))
		for _, e := range l.Endpoints {
			r.Endpoints = append(r.Endpoints, Share{Address: e.Addr, Pod: e.Name, Rates: rates(e.Count, s.Took), Part: part(e.Count, l.Count)})
		}
		out = append(out, r)
	}
	return out
}

func rates(c meter.Count, took time.Duration) Rates {
	by := max(took.Seconds(), 1e-9)
	return Rates{
		Connections: float64(c.Connections) / by, Active: c.Active,
		PacketsIn: float64(c.In.Packets) / by, PacketsOut: float64(c.Out.Packets) / by,
		BytesIn: float64(c.In.Bytes) / by, BytesOut: float64(c.Out.Bytes) / by,
	}
}

func part(of, all meter.Count) float64 {
	switch {
	case all.Connections > 0:
		return float64(of.Connections) / float64(all.Connections)
	case all.Active > 0:
		return float64(of.Active) / float64(all.Active)
	}
	return 0
}

// Order is what rows are sorted by: the most first, or names from a to z.
type Order string

// The orders.
const (
	ByConnections Order = "connections"
	ByBytes       Order = "bytes"
	ByActive      Order = "active"
	ByName        Order = "name"
)

// Orders lists them.
func Orders() []string {
	return []string{string(ByConnections), string(ByBytes), string(ByActive), string(ByName)}
}

// Sort puts rows in an order; where that does not decide, by name.
func Sort(rows []Row, o Order) {
	slices.SortStableFunc(rows, func(a, b Row) int {
		first := 0
		switch o {
		case ByConnections:
			first = cmp.Compare(b.Connections, a.Connections)
		case ByBytes:
			first = cmp.Compare(b.bytes(), a.bytes())
		case ByActive:
			first = cmp.Compare(b.Active, a.Active)
		}
		return cmp.Or(first, cmp.Compare(a.Name(), b.Name()), cmp.Compare(a.Protocol, b.Protocol))
	})
}

// Filter returns the rows that have a text in their name, protocol, or one of their
// Pods' names, whatever its case.
func Filter(rows []Row, text string) []Row {
	if text == "" {
		return rows
	}
	text = strings.ToLower(text)
	return slices.DeleteFunc(slices.Clone(rows), func(r Row) bool {
		named := strings.Contains(strings.ToLower(r.Name()+" "+r.Protocol), text)
		return !named && !slices.ContainsFunc(r.Endpoints, func(s Share) bool { return strings.Contains(strings.ToLower(s.Pod), text) })
	})
}
