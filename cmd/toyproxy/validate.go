package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/toyproxy/toyproxy/agent"
	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/pods"
)

// validateJSON is the stable form of what validate found.
type validateJSON struct {
	Manifests string        `json:"manifests"`
	Services  int           `json:"services"`
	Pods      int           `json:"pods"`
	Slices    int           `json:"endpointSlices"`
	Problems  []problemJSON `json:"problems"`
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
			in, err := s.load(cmd.Context())
			if err != nil {
				return err
			}
			for _, p := range in.Objects.Pods {
				in.Problems = append(in.Problems, located(pods.Check(p), in)...)
			}
			d := agent.Resolve(in, agent.Node{PodRanges: src.clusterCIDRs.set, ServiceRanges: src.serviceCIDRs.set}, in.Objects.Pods)
			w := cmd.OutOrStdout()
			if out.isJSON() {
				err = printJSON(w, validateJSON{s.description, len(in.Objects.Services), len(in.Objects.Pods),
					len(in.Objects.EndpointSlices), problemsJSON(d.Problems)})
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
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: good: %s, %s, %s; %s, %s\n", s.description,
		count(len(o.Services), "Service"), count(len(o.Pods), "Pod"), count(len(o.EndpointSlices), "EndpointSlice"),
		count(errors, "error"), count(len(problems)-errors, "warning"))
}
