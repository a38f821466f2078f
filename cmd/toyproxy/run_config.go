package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// readConfig sets flags from a file: YAML whose keys are their names. What the
// command line says counts more.
func readConfig(path string, fl *pflag.FlagSet) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	var doc yaml.Node
	if err := yaml.NewDecoder(bytes.NewReader(text)).Decode(&doc); err != nil {
		return fmt.Errorf("configuration %s: %w", path, err)
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return fmt.Errorf("configuration %s: must be a mapping of flags' names to their values", path)
	}
	given := map[string]bool{}
	fl.Visit(func(f *pflag.Flag) { given[f.Name] = true })
	pairs := doc.Content[0].Content
	seen := map[string]bool{}
	for i := 0; i+1 < len(pairs); i += 2 {
		key, value := pairs[i], pairs[i+1]
		fault := func(format string, args ...any) error {
			return fmt.Errorf("%s:%d: %s: %s", path, key.Line, key.Value, fmt.Sprintf(format, args...))
		}
		switch f := fl.Lookup(key.Value); {
		case f == nil || key.Value == "config" || key.Value == "help":
			return fault("there is no such flag of run")
		case seen[key.Value]:
			return fault("stands here twice; keep one")
		case given[key.Value]:
			seen[key.Value] = true
			continue
		}
		seen[key.Value] = true
		for _, text := range scalars(value) {
			if err := fl.Set(key.Value, text); err != nil {
				return fault("%v", err)
			}
		}
	}
	return nil
}

// scalars are the values of a scalar or of a list of such.
func scalars(n *yaml.Node) []string {
	if n.Kind == yaml.ScalarNode {
		return []string{n.Value}
	}
	var out []string
	for _, c := range n.Content {
		out = append(out, c.Value)
	}
	return out
}
