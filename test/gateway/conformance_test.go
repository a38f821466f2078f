package gateway

import (
	"context"
	"io/fs"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/conformance"
	"sigs.k8s.io/gateway-api/conformance/tests"
	"sigs.k8s.io/gateway-api/conformance/utils/config"
	"sigs.k8s.io/gateway-api/conformance/utils/suite"
	"sigs.k8s.io/gateway-api/pkg/features"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/ingress/gateway"
)

// TestConformance runs every test of the suite whose features ingress/gateway claims,
// by the name it has there, with a proxy for each Gateway.
func TestConformance(t *testing.T) {
	s, whole := run(t, false)
	if whole && !t.Failed() {
		checkDocument(t, document(s))
	}
}

// TestConformanceOfOneProxy runs them with one proxy for all Gateways, which is what
// the command does: all pass but one.
func TestConformanceOfOneProxy(t *testing.T) {
	run(t, true, tests.HTTPRouteMultipleGateways.ShortName) // two Gateways with the same hosts and paths, at two addresses
}

// run returns the suite, and whether all of it was run.
func run(t *testing.T, shared bool, without ...string) (*suite.ConformanceTestSuite, bool) {
	t.Helper()
	a := newAPI(t)
	p := &pods{api: a, logs: map[string][]line{}, known: map[string]bool{}}
	c := &controller{t: t, api: a, pods: p, store: cluster.NewStore(), proxies: map[types.NamespacedName]*served{}, shared: shared}
	class := &gatewayv1.GatewayClass{ObjectMeta: metav1.ObjectMeta{Name: "toyproxy"}, Spec: gatewayv1.GatewayClassSpec{ControllerName: gateway.ControllerName}}
	if err := a.Create(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { c.run(ctx) })
	t.Cleanup(running.Wait)
	t.Cleanup(stop)

	s := newSuite(t, a, p.logServer(t))
	s.Setup(t, tests.ConformanceTests)
	whole := true // -run chooses some tests: they say nothing of the others
	for _, test := range tests.ConformanceTests {
		if !s.SupportedFeatures.HasAll(test.Features...) || slices.Contains(without, test.ShortName) {
			continue
		}
		ran := false
		t.Run(test.ShortName, func(t *testing.T) {
			ran = true
			test.Run(t, s)
		})
		whole = whole && ran
	}
	return s, whole
}

func newSuite(t *testing.T, a *api, logs string) *suite.ConformanceTestSuite {
	t.Helper()
	clients, err := kubernetes.NewForConfig(&rest.Config{Host: logs})
	if err != nil {
		t.Fatal(err)
	}
	options := suite.ConformanceOptions{Client: a, Clientset: clients, ManifestFS: []fs.FS{&conformance.Manifests}}
	options.GatewayClassName = "toyproxy"
	options.ConformanceProfiles = []suite.ConformanceProfileName{suite.GatewayHTTPConformanceProfileName}
	options.CleanupTestResources = true
	options.DisableParallelTests = true
	options.TimeoutConfig = timeouts()
	for _, name := range gateway.Features() {
		options.SupportedFeatures = append(options.SupportedFeatures, features.FeatureName(name))
	}
	s, err := suite.NewConformanceTestSuite(options)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// timeouts are long enough for a machine that is busy with other tests; polls are short, as
// there is no cluster to wait for.
func timeouts() config.TimeoutConfig {
	out := config.DefaultTimeoutConfig()
	out.TestIsolation = 0
	out.DefaultPollInterval = 20 * time.Millisecond
	for _, d := range []*time.Duration{
		&out.GatewayMustHaveAddress, &out.GatewayMustHaveCondition, &out.GatewayStatusMustHaveListeners,
		&out.GatewayListenersMustHaveConditions, &out.GWCMustBeAccepted, &out.HTTPRouteMustNotHaveParents,
		&out.HTTPRouteMustHaveCondition, &out.RouteMustHaveParents, &out.MaxTimeToConsistency,
		&out.NamespacesMustBeReady, &out.LatestObservedGenerationSet,
	} {
		*d = 20 * time.Second
	}
	return out
}
