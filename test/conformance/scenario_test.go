package conformance

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/toyproxy/toyproxy/dataplane"
)

// scenario is one file of testdata.
type scenario struct {
	name string
	// shows is the first line of the file.
	shows string
	// rows are those of rows.txt that the scenario is for.
	rows      []string
	pods      int
	second    bool
	sctp      bool
	oneFamily bool
	addrs     []ownAddr
	servers   []server
	steps     []step
}

// server is an echo server that runs through the whole scenario.
type server struct {
	host     string
	protocol dataplane.Protocol
	port     uint16
}

// step is a complete set of objects, and what has to hold with it.
type step struct {
	name string
	// pods is in the suite's own notation, objects is YAML.
	pods, objects string
	facts         facts
	// problems are what has to be wrong with the objects: each a part of one
	// problem's text, of as many as there are.
	problems []string
	flows    []flow
}

// loadScenarios reads every scenario of a directory, by name.
func loadScenarios(dir string) ([]scenario, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil {
		return nil, err
	}
	var out []scenario
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		s, err := parseScenario(strings.TrimSuffix(filepath.Base(f), ".txtar"), b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		out = append(out, s)
	}
	return out, nil
}

func parseScenario(name string, b []byte) (scenario, error) {
	archive := txtar.Parse(b)
	shows, _, _ := strings.Cut(string(archive.Comment), "\n")
	s := scenario{name: name, shows: shows, pods: 3}
	for _, f := range archive.Files {
		var err error
		switch f.Name {
		case "options":
			err = s.parseOptions(string(f.Data))
		case "servers":
			err = s.parseServers(string(f.Data))
		default:
			err = s.parsePart(f.Name, string(f.Data))
		}
		if err != nil {
			return s, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return s, nil
}

func (s *scenario) parseOptions(text string) error {
	for _, line := range lines(text) {
		key, value, _ := strings.Cut(line, " ")
		var err error
		switch {
		case line == "second node":
			s.second = true
		case line == "needs sctp":
			s.sctp = true
		case line == "one family":
			s.oneFamily = true
		case key == "rows":
			s.rows = append(s.rows, strings.Fields(value)...)
		case key == "pods":
			s.pods, err = strconv.Atoi(value)
		case key == "address":
			var a ownAddr
			a, err = parseOwnAddr(value)
			s.addrs = append(s.addrs, a)
		default:
			err = errors.New("unknown")
		}
		if err != nil {
			return fmt.Errorf("option %q: %w", line, err)
		}
	}
	return nil
}

func (s *scenario) parseServers(text string) error {
	for _, line := range lines(text) {
		var hosts []string
		var p dataplane.Protocol
		for _, word := range strings.Fields(line) {
			if proto, ok := protocolOf(word); ok {
				p = proto
				continue
			}
			if p == 0 {
				hosts = append(hosts, word)
				continue
			}
			port, err := strconv.ParseUint(word, 10, 16)
			if err != nil {
				return fmt.Errorf("server %q: %w", line, err)
			}
			for _, h := range hosts {
				s.servers = append(s.servers, server{h, p, uint16(port)})
			}
		}
	}
	return nil
}

// parsePart adds one part of a step, NAME.pods, NAME.yaml or NAME.flows.
func (s *scenario) parsePart(file, text string) error {
	name, part, _ := strings.Cut(file, ".")
	if len(s.steps) == 0 || s.steps[len(s.steps)-1].name != name {
		next := step{facts: usualFacts()}
		if n := len(s.steps); n > 0 {
			next = s.steps[n-1]
		}
		next.name = name
		s.steps = append(s.steps, next)
	}
	now := &s.steps[len(s.steps)-1]
	switch part {
	case "pods":
		now.pods = text
	case "yaml":
		now.objects = text
	case "problems":
		now.problems = lines(text)
	case "node":
		var err error
		if now.facts, err = parseFacts(text); err != nil {
			return err
		}
	case "flows":
		now.flows = nil
		for _, line := range lines(text) {
			f, err := parseFlow(line)
			if err != nil {
				return fmt.Errorf("flow %q: %w", line, err)
			}
			now.flows = append(now.flows, f)
		}
	default:
		return fmt.Errorf("unknown part %q", part)
	}
	return nil
}

// lines returns the lines that say something, without comments.
func lines(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return out
}

func protocolOf(s string) (dataplane.Protocol, bool) {
	for _, p := range []dataplane.Protocol{dataplane.TCP, dataplane.UDP, dataplane.SCTP} {
		if p.String() == s {
			return p, true
		}
	}
	return 0, false
}
