package gateway

import (
	"bytes"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/cluster/manifest"
	"github.com/toyproxy/toyproxy/ingress"
)

var update = flag.Bool("update", false, "write what the cases come to into their archives")

// TestCases compiles the objects of each archive, sends its requests through the
// Config, and compares where they go and the statuses of all objects with what is written
// there. Then the order of objects must not matter, and a second compilation, later, must
// find nothing to change.
func TestCases(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "cases", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			in := input(t, string(section(archive, "objects.yaml")))
			requests := strings.Fields(string(section(archive, "input")))
			readInput(t, &in, requests)
			out := Compile(in)
			got := answers(t, out.Config, string(section(archive, "requests"))) + statuses(in.Objects, out)
			if *update {
				setSection(archive, "want", got)
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(section(archive, "want")), got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			requireOrderless(t, in, out)
			requireSettled(t, in, out)
		})
	}
}

func section(a *txtar.Archive, name string) []byte {
	for _, f := range a.Files {
		if f.Name == name {
			return f.Data
		}
	}
	return nil
}

func setSection(a *txtar.Archive, name, text string) {
	for i := range a.Files {
		if a.Files[i].Name == name {
			a.Files[i].Data = []byte(text)
			return
		}
	}
	a.Files = append(a.Files, txtar.File{Name: name, Data: []byte(text)})
}

// input loads objects, with those of prelude.yaml and two Secrets with certificates.
func input(t *testing.T, text string) Input {
	t.Helper()
	prelude, err := os.ReadFile(filepath.Join("testdata", "prelude.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := manifest.Load(t.Context(), manifest.Options{Paths: []string{"-"}, Stdin: bytes.NewReader(append(prelude, text...))})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range r.Problems {
		if !p.Warning {
			t.Errorf("object of the case: %s", p)
		}
	}
	for _, namespace := range []string{"infra", "web"} {
		r.Objects.Secrets = append(r.Objects.Secrets, certificate(t, namespace))
	}
	return Input{Objects: r.Objects, Addresses: []string{"192.0.2.80"}, Now: at(time.Minute)}
}

// at is a time some while after the tests' midnight.
func at(after time.Duration) metav1.Time {
	return metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(after))
}

// readInput reads "ports=80,443", "taken=80,443" and "addresses=a,b".
func readInput(t *testing.T, in *Input, words []string) {
	t.Helper()
	for _, word := range words {
		name, list, _ := strings.Cut(word, "=")
		values := strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
		switch name {
		case "addresses":
			in.Addresses = values
		case "ports":
			for _, v := range values {
				in.Ports = append(in.Ports, number(t, v))
			}
		case "taken": // HTTP, then HTTPS
			for i, v := range values {
				in.Taken = append(in.Taken, ingress.Port{Number: number(t, v), TLS: i == 1})
			}
		default:
			t.Fatalf("input %q is not known", word)
		}
	}
}

func number(t *testing.T, text string) uint16 {
	t.Helper()
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	return uint16(n)
}

// answers returns each request with what becomes of it.
func answers(t *testing.T, c ingress.Config, requests string) string {
	t.Helper()
	router := ingress.NewRouter(c)
	var b strings.Builder
	for line := range strings.Lines(requests) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		port, req := request(t, line)
		fmt.Fprintf(&b, "%-60s %s\n", line, describe(router.Lookup(port, req)))
	}
	return b.String()
}

// request reads "GET http://a.example:8080/x?y=1 Name=value".
func request(t *testing.T, line string) (uint16, ingress.Request) {
	t.Helper()
	words := strings.Fields(line)
	u, err := url.Parse(words[1])
	if err != nil {
		t.Fatal(err)
	}
	path, err := ingress.ParsePath(u.EscapedPath())
	if err != nil {
		t.Fatal(err)
	}
	port := uint64(map[string]int{"http": 80, "https": 443}[u.Scheme])
	if u.Port() != "" {
		if port, err = strconv.ParseUint(u.Port(), 10, 16); err != nil {
			t.Fatal(err)
		}
	}
	req := ingress.Request{Method: words[0], Host: u.Host, Path: path, Query: u.RawQuery, Headers: http.Header{}}
	for _, pair := range words[2:] {
		name, value, _ := strings.Cut(pair, "=")
		http.Header(req.Headers).Add(name, value)
	}
	return uint16(port), req
}

func describe(f ingress.Found) string {
	if f.Route == nil {
		return "404"
	}
	var words []string
	for _, filter := range f.Route.Filters {
		words = append(words, describeFilter(filter))
	}
	for _, share := range f.Route.Split {
		text := fmt.Sprintf("%s:%d", share.Backend.Service, share.Backend.Port)
		if share.Backend.Refused != "" {
			text += " (500)"
		}
		if len(f.Route.Split) > 1 {
			text += fmt.Sprintf(" x%d", share.Weight)
		}
		for _, filter := range share.Filters {
			text += " " + describeFilter(filter)
		}
		words = append(words, text)
	}
	if s := f.Route.Settings; s != (ingress.Settings{}) {
		words = append(words, fmt.Sprintf("timeouts %s %s", s.RequestTimeout, s.BackendTimeout))
	}
	if len(words) == 0 {
		words = append(words, "500")
	}
	return strings.Join(words, ", ")
}

func describeFilter(f ingress.Filter) string {
	switch f.Kind {
	case ingress.RequestHeaders:
		return fmt.Sprintf("request headers set %v add %v remove %v", f.Set, f.Add, f.Remove)
	case ingress.ResponseHeaders:
		return fmt.Sprintf("response headers set %v add %v remove %v", f.Set, f.Add, f.Remove)
	case ingress.Mirror:
		return fmt.Sprintf("mirror %g%% to %s:%d", f.MirrorPercent, f.Mirror.Service, f.Mirror.Port)
	}
	return fmt.Sprintf("%s %+v", map[ingress.FilterKind]string{ingress.Redirect: "redirect", ingress.Rewrite: "rewrite"}[f.Kind], f.URL)
}

// statuses returns what all objects are told, in order of name.
func statuses(objs cluster.Objects, out Output) string {
	var b strings.Builder
	for _, class := range objs.GatewayClasses {
		if s, ok := out.Classes[class.Name]; ok {
			fmt.Fprintf(&b, "GatewayClass %s:%s\n", class.Name, told(s.Conditions))
		}
	}
	for _, gw := range objs.Gateways {
		s, ok := out.Gateways[key(gw)]
		if !ok {
			fmt.Fprintf(&b, "Gateway %s: not ours\n", gw.Name)
			continue
		}
		fmt.Fprintf(&b, "Gateway %s", gw.Name)
		for _, a := range s.Addresses {
			fmt.Fprintf(&b, " %s %s", *a.Type, a.Value)
		}
		fmt.Fprintf(&b, ":%s\n", told(s.Conditions))
		for _, l := range s.Listeners {
			fmt.Fprintf(&b, "Gateway %s, %s, %d kinds, %d routes:%s\n", gw.Name, l.Name, len(l.SupportedKinds), l.AttachedRoutes, told(l.Conditions))
		}
	}
	for _, r := range objs.HTTPRoutes {
		for _, p := range out.Routes[key(r)].Parents {
			fmt.Fprintf(&b, "HTTPRoute %s/%s at %s:%s\n", r.Namespace, r.Name, parentText(p.ParentRef), told(p.Conditions))
		}
	}
	return b.String()
}

func parentText(ref gatewayv1.ParentReference) string {
	out := string(ref.Name)
	if ref.SectionName != nil {
		out += "/" + string(*ref.SectionName)
	}
	if ref.Port != nil {
		out += fmt.Sprintf(":%d", *ref.Port)
	}
	return out
}

// told prints conditions: those that are as they should be by their names alone.
func told(list []metav1.Condition) string {
	var good string
	var bad strings.Builder
	for _, c := range list {
		fine := c.Status == metav1.ConditionTrue
		if c.Type == string(gatewayv1.ListenerConditionConflicted) {
			fine = !fine
		}
		if fine && (c.Reason == c.Type || c.Reason == "NoConflicts") {
			good += " " + strings.Replace(c.Type, "Conflicted", "Unconflicted", 1)
			continue
		}
		fmt.Fprintf(&bad, "\n\t%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
	}
	return good + bad.String()
}
