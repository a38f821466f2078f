package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/pods"
	"github.com/toyproxy/toyproxy/rollout"
)

// validateJSON is the stable form of what validate found.
type validateJSON struct {
	Manifests string `json:"manifests"`
	Services  int    `json:"services"`
	Pods      int    `json:"pods"`
	Slices    int    `json:"endpointSlices"`
	// Others counts the objects of the other kinds by their kind: "Deployment".
	Others   map[cluster.Kind]int `json:"others"`
	Problems []problemJSON        `json:"problems"`
}

func validateCommand() *cobra.Command {
	var src sourceFlags
	var out outputFlag
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Decode, default and check manifests",
		Long: `Prints one line a problem, file:line:column: object: field: message, and exits with
65 when a manifest is wrong. Needs no root and touches nothing.`,
		Example: `  toyproxy validate -f examples/nodeport`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := src.source(cmd.InOrStdin(), nil)
			if err != nil {
				return err
			}
			in, err := s.loadServed(cmd.Context(), "")
			if err != nil {
				return err
			}
			in.Problems = append(in.Problems, located(uncomfortable(in.Objects), in)...)
			d := agent.Resolve(in, agent.Node{PodRanges: src.clusterCIDRs.set, ServiceRanges: src.serviceCIDRs.set}, in.Objects.Pods)
			w := cmd.OutOrStdout()
			if out.isJSON() {
				err = printJSON(w, validateJSON{s.description, len(in.Objects.Services), len(in.Objects.Pods),
					len(in.Objects.EndpointSlices), others(in.Objects), problemsJSON(d.Problems)})
				if err != nil {
					return err
				}
			} else {
				printValidation(cmd, s, in, d.Problems)
			}
			if len(d.Errors()) > 0 {
				return exit(exitBadManifest, nil)
			}
			return nil
		},
	}
	src.register(cmd)
	out.register(cmd, "json")
	return cmd
}

// printValidation writes problems to standard output, where compilers' users
// expect them of a checker, and the closing count to standard error.
func printValidation(cmd *cobra.Command, s source, in agent.Input, problems []cluster.Problem) {
	errors := 0
	for _, p := range problems {
		mark := "warning: "
		if !p.Warning {
			errors++
			mark = ""
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s%s\n", mark, printable(p.String()))
	}
	o := in.Objects
	good := []string{count(len(o.Services), "Service"), count(len(o.Pods), "Pod"), count(len(o.EndpointSlices), "EndpointSlice")}
	more := others(o)
	for _, kind := range slices.Sorted(maps.Keys(more)) {
		good = append(good, count(more[kind], string(kind)))
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: good: %s; %s, %s\n", s.description, strings.Join(good, ", "),
		count(errors, "error"), count(len(problems)-errors, "warning"))
}

// others counts the objects that are no Services, Pods or EndpointSlices.
func others(o cluster.Objects) map[cluster.Kind]int {
	out := map[cluster.Kind]int{}
	for _, e := range cluster.NewStore().Replace(o) {
		switch e.Object.Kind {
		case cluster.Service, cluster.Pod, cluster.EndpointSlice:
		default:
			out[e.Object.Kind]++
		}
	}
	return out
}

// uncomfortable is what of the Pods, and of the templates of Pods, a node cannot do.
func uncomfortable(o cluster.Objects) []cluster.Problem {
	var out []cluster.Problem
	for _, p := range o.Pods {
		out = append(out, pods.Check(p)...)
	}
	for _, e := range cluster.NewStore().Replace(o) {
		t := rollout.Template(e.New)
		if t == nil {
			continue
		}
		for _, p := range pods.Check(&corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}) {
			p.Object, p.Field = e.Object, "spec.template."+p.Field
			out = append(out, p)
		}
	}
	return out
}
