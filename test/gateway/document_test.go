package gateway

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/gateway-api/conformance/tests"
	"sigs.k8s.io/gateway-api/conformance/utils/suite"
	"sigs.k8s.io/gateway-api/pkg/consts"
	"sigs.k8s.io/gateway-api/pkg/features"
)

var update = flag.Bool("update", false, "write passes.md anew")

// passes holds the section of docs/support.md that says what passes.
const passes = "passes.md"

// checkDocument requires passes.md to say what has just been seen.
func checkDocument(t *testing.T, text string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(passes, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(passes)
	if err != nil || string(have) != text {
		t.Errorf("%s does not list the tests that pass (%v): run go test -update here, then go test ./cluster/manifest -update", passes, err)
	}
}

// document lists the tests that have passed, and those of the profile that are not run,
// by the feature that is missing.
func document(s *suite.ConformanceTestSuite) string {
	profile := suite.GatewayHTTPConformanceProfile
	known := profile.CoreFeatures.Union(profile.ExtendedFeatures)
	var core, extended, left []string
	for _, test := range tests.ConformanceTests {
		var beyond, missing []string
		for _, name := range test.Features {
			if !profile.CoreFeatures.Has(name) {
				beyond = append(beyond, string(name))
			}
			if !s.SupportedFeatures.Has(name) {
				missing = append(missing, string(name))
			}
		}
		switch {
		case len(missing) > 0 && known.HasAll(test.Features...):
			left = append(left, row(test.ShortName, missing))
		case len(missing) > 0:
		case len(beyond) > 0:
			extended = append(extended, row(test.ShortName, beyond))
		default:
			core = append(core, "| `"+test.ShortName+"` |")
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n## Gateway API: the conformance tests that pass\n\n"+
		"<!-- Generated: go test -update in test/gateway, then go test ./cluster/manifest -update -->\n\n"+
		"The suite of the Gateway API itself, %s, profile GATEWAY-HTTP, run from its Go module against\n"+
		"ingress/gateway and ingress/proxy (`test/gateway`): every test of the core features passes, and every one of the\n"+
		"extended features that a GatewayClass lists in its status. Each Gateway has a proxy of its own there; with one proxy\n"+
		"for all, as `toyproxy ingress` is, all pass but `HTTPRouteMultipleGateways`, which wants two Gateways with the same hosts apart.\n", consts.BundleVersion)
	table(&b, fmt.Sprintf("### Core (%d)\n\n| test |\n|---|\n", len(core)), core)
	table(&b, fmt.Sprintf("### Extended (%d)\n\n| test | features |\n|---|---|\n", len(extended)), extended)
	table(&b, fmt.Sprintf("### Not run (%d)\n\nThese features of the profile are not served.\n\n| test | missing |\n|---|---|\n", len(left)), left)
	fmt.Fprintf(&b, "\nFeatures of the profile that are not claimed: %s.\n", unclaimed(s, known))
	return b.String()
}

func row(name string, names []string) string {
	return fmt.Sprintf("| `%s` | %s |", name, strings.Join(names, ", "))
}

func table(b *strings.Builder, head string, rows []string) {
	slices.SortFunc(rows, func(x, y string) int { return cmp.Compare(strings.ToLower(x), strings.ToLower(y)) })
	fmt.Fprintf(b, "\n%s%s\n", head, strings.Join(rows, "\n"))
}

func unclaimed(s *suite.ConformanceTestSuite, known suite.FeaturesSet) string {
	var names []string
	for name := range known.Difference(s.SupportedFeatures) {
		names = append(names, string(features.FeatureName(name)))
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
