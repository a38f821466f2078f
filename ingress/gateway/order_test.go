package gateway

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/ingress"
)

// requireOrderless shuffles the objects twenty times: nothing may come out otherwise.
func requireOrderless(t *testing.T, in Input, want Output) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		o := in.Objects
		o.Gateways, o.HTTPRoutes = shuffled(random, o.Gateways), shuffled(random, o.HTTPRoutes)
		o.ReferenceGrants, o.Services, o.Secrets = shuffled(random, o.ReferenceGrants), shuffled(random, o.Services), shuffled(random, o.Secrets)
		o.GatewayClasses, o.Namespaces = shuffled(random, o.GatewayClasses), shuffled(random, o.Namespaces)
		other := in
		other.Objects = o
		if diff := cmp.Diff(want, Compile(other), regexText()); diff != "" {
			t.Fatalf("in another order of objects (-first +then):\n%s", diff)
		}
	}
}

func shuffled[T any](random *rand.Rand, list []T) []T {
	out := make([]T, len(list))
	for i, j := range random.Perm(len(list)) {
		out[i] = list[j]
	}
	return out
}

// requireSettled writes the statuses back and compiles an hour later: nothing changes,
// no time of a condition either.
func requireSettled(t *testing.T, in Input, out Output) {
	t.Helper()
	in.Objects = written(in.Objects, out)
	in.Now = at(time.Hour)
	again := Compile(in)
	if diff := cmp.Diff(out, again, regexText()); diff != "" {
		t.Errorf("an hour later (-first +then):\n%s", diff)
	}
	if changed := again.Changed(in.Objects); len(changed) > 0 {
		t.Errorf("%d objects would be written again: %v", len(changed), changed)
	}
}

// written returns the objects with their new statuses.
func written(objs cluster.Objects, out Output) cluster.Objects {
	for _, obj := range out.Changed(objs) {
		switch obj := obj.(type) {
		case *gatewayv1.GatewayClass:
			objs.GatewayClasses = replaced(objs.GatewayClasses, obj)
		case *gatewayv1.Gateway:
			objs.Gateways = replaced(objs.Gateways, obj)
		case *gatewayv1.HTTPRoute:
			objs.HTTPRoutes = replaced(objs.HTTPRoutes, obj)
		}
	}
	return objs
}

type named interface {
	GetNamespace() string
	GetName() string
}

func replaced[T named](list []T, with T) []T {
	out := make([]T, len(list))
	for i, obj := range list {
		out[i] = obj
		if (types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}) == (types.NamespacedName{Namespace: with.GetNamespace(), Name: with.GetName()}) {
			out[i] = with
		}
	}
	return out
}

// regexText compares regular expressions by their text.
func regexText() cmp.Option {
	return cmp.Transformer("match", func(m ingress.Match) []any {
		text := ""
		if m.Regex != nil {
			text = m.Regex.String()
		}
		pairs := func(list []ingress.Pair) (out [][3]string) {
			for _, p := range list {
				next := [3]string{p.Name, p.Value}
				if p.Regex != nil {
					next[2] = p.Regex.String()
				}
				out = append(out, next)
			}
			return out
		}
		return []any{m.Kind, m.Path, text, m.Method, pairs(m.Headers), pairs(m.Queries)}
	})
}
