package controller

import (
	"fmt"
	"math"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/toyproxy/toyproxy/cluster"
)

// bounds are how many Pods a Deployment has during a rollout: from want-down that
// serve to want+surge in all.
type bounds struct {
	want, surge, down int32
}

// defaultShare is maxSurge and maxUnavailable of a Deployment that says neither.
var defaultShare = intstr.FromString("25%")

// boundsOf resolves the bounds of a Deployment. Shares that cannot be read count as
// the default, and are reported.
func (p *pass) boundsOf(d *appsv1.Deployment) bounds {
	b := bounds{want: orOne(d.Spec.Replicas)}
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return b
	}
	ref := cluster.MakeRef(cluster.Deployment, d.Namespace, d.Name)
	surge, down := &defaultShare, &defaultShare
	if ru := d.Spec.Strategy.RollingUpdate; ru != nil {
		surge, down = orShare(ru.MaxSurge, defaultShare), orShare(ru.MaxUnavailable, defaultShare)
	}
	const field = "spec.strategy.rollingUpdate."
	b.surge = min(p.scaled(ref, field+"maxSurge", surge, b.want, true), math.MaxInt32-b.want)
	b.down = min(p.scaled(ref, field+"maxUnavailable", down, b.want, false), b.want)
	if b.surge == 0 && b.down == 0 {
		b.down = min(1, b.want) // else it would stand still: a share of few is rounded to none
	}
	return b
}

func orShare(v *intstr.IntOrString, otherwise intstr.IntOrString) *intstr.IntOrString {
	if v == nil {
		return &otherwise
	}
	return v
}

// scaled is a number, or a percentage of total, which is rounded up or down.
func (p *pass) scaled(ref cluster.Ref, field string, v *intstr.IntOrString, total int32, up bool) int32 {
	n, err := intstr.GetScaledValueFromIntOrPercent(v, int(total), up)
	if err != nil || n < 0 {
		p.refuse(ref, field, fmt.Sprintf("%q is neither a count nor a percentage; %s is used instead", v.String(), defaultShare.StrVal))
		n, _ = intstr.GetScaledValueFromIntOrPercent(&defaultShare, int(total), up)
	}
	return int32(n)
}
