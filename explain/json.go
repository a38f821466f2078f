package explain

import (
	"github.com/toyproxy/toyproxy/cluster"
)

// Document is the stable form of an explanation, as docs/json.md describes it.
type Document struct {
	Target      string         `json:"target"`
	Frontend    string         `json:"frontend,omitempty"`
	Kind        string         `json:"kind,omitempty"`
	Service     string         `json:"service,omitempty"`
	From        fromJSON       `json:"from"`
	Backend     string         `json:"backend"`
	Live        bool           `json:"live"`
	Verdict     Verdict        `json:"verdict"`
	Answer      string         `json:"answer"`
	Because     []causeJSON    `json:"because"`
	Affinity    bool           `json:"affinity"`
	Rules       int            `json:"rules"`
	Steps       []stepJSON     `json:"steps"`
	Endpoints   []endpointJSON `json:"endpoints"`
	Unused      []unusedJSON   `json:"unused"`
	Differences []string       `json:"differences"`
	Probe       *probeJSON     `json:"probe,omitempty"`
	Notes       []string       `json:"notes"`
}

type probeJSON struct {
	Verdict Verdict `json:"verdict"`
	Agrees  bool    `json:"agrees"`
}

type fromJSON struct {
	Pod     string `json:"pod,omitempty"`
	Address string `json:"address,omitempty"`
	Class   string `json:"class"`
	Chosen  bool   `json:"chosen"`
}

type causeJSON struct {
	cluster.Position
	Object string   `json:"object,omitempty"`
	Fields []string `json:"fields"`
	Value  string   `json:"value,omitempty"`
	Text   string   `json:"text,omitempty"`
}

type stepJSON struct {
	Hook    string      `json:"hook"`
	Chain   string      `json:"chain"`
	Rule    string      `json:"rule"`
	Why     string      `json:"why"`
	Subject string      `json:"subject"`
	Share   float64     `json:"share"`
	Causes  []causeJSON `json:"causes"`
}

type endpointJSON struct {
	Endpoint   string  `json:"endpoint"`
	Share      float64 `json:"share"`
	Masquerade bool    `json:"masquerade"`
	Pod        string  `json:"pod,omitempty"`
	Node       string  `json:"node,omitempty"`
}

type unusedJSON struct {
	Endpoint string `json:"endpoint"`
	Pod      string `json:"pod,omitempty"`
	Reason   string `json:"reason"`
}

// Document puts an explanation into its stable form.
func (e Explanation) Document(backend string, live bool) Document {
	d := Document{Target: e.Target.String(), Service: e.Frontend.Service, Backend: backend, Live: live, Verdict: e.Verdict, Answer: e.Answer(),
		Because: causesJSON(e.Because), Affinity: e.Affinity, Rules: e.Rules, Steps: []stepJSON{}, Endpoints: []endpointJSON{}, Unused: []unusedJSON{},
		Differences: append([]string{}, e.Differences...), Notes: append([]string{}, e.Notes...)}
	if e.Frontend.Service != "" {
		d.Frontend, d.Kind = e.Frontend.Key.String(), e.Frontend.Kind.String()
	}
	if e.Probe != "" {
		d.Probe = &probeJSON{e.Probe, e.Agrees()}
	}
	d.From = fromJSON{Class: e.Class.String(), Chosen: e.From.Chosen}
	if e.From.Addr.IsValid() {
		d.From.Address = e.From.Addr.String()
	}
	if p := e.From.Pod; p != nil {
		d.From.Pod = p.Namespace + "/" + p.Name
	}
	for _, s := range e.Steps {
		d.Steps = append(d.Steps, stepJSON{s.Hook, s.Chain, s.Rule, s.Why, s.Subject.String(), s.Share, causesJSON(s.Causes)})
	}
	for _, ep := range e.Endpoints {
		d.Endpoints = append(d.Endpoints, endpointJSON{ep.Addr.String(), ep.Share, ep.Masquerade, ep.Pod, ep.Node})
	}
	for _, u := range e.Unused {
		d.Unused = append(d.Unused, unusedJSON{u.Addr.String(), u.Pod, u.Reason})
	}
	return d
}

func causesJSON(list []Cause) []causeJSON {
	out := make([]causeJSON, 0, len(list))
	for _, c := range list {
		out = append(out, causeJSON{c.Position, c.Object.String(), append([]string{}, c.Fields...), c.Value, c.Text})
	}
	return out
}
