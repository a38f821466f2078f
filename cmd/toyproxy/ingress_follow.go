package main

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/cluster/follow"
	"github.com/toyproxy/toyproxy/ingress"
	"github.com/toyproxy/toyproxy/ingress/gateway"
	"github.com/toyproxy/toyproxy/ingress/proxy"
	"github.com/toyproxy/toyproxy/serve"
)

// ingressKinds are the kinds that the ingress command reads.
func ingressKinds() []cluster.Kind {
	return []cluster.Kind{
		cluster.Service, cluster.EndpointSlice, cluster.Secret, cluster.Namespace,
		cluster.Ingress, cluster.IngressClass, cluster.GatewayClass, cluster.Gateway, cluster.HTTPRoute, cluster.ReferenceGrant,
	}
}

// objectSource yields what changes; see follow.Directory, which is one.
type objectSource interface {
	Catch() ([]cluster.Event, error)
	Wait(context.Context) error
}

// frontDoor makes the proxy serve what the objects say, and the objects say where
// they are served.
type frontDoor struct {
	flags  *ingressFlags
	proxy  *proxy.Proxy
	log    *slog.Logger
	source objectSource
	status *doorStatus
	// objects are all but EndpointSlices, which go to the proxy as they come.
	objects map[cluster.Ref]metav1.Object
	// told are the messages that have been logged and still hold.
	told map[string]bool
	// again: a port could not be had, or the statuses are not written yet.
	again bool
	// pairs are the certificates that have been read.
	pairs ingress.Pairs
}

// newFrontDoor follows manifests if there are any, else the state directory.
func (f *ingressFlags) newFrontDoor(ctx context.Context, cmd *cobra.Command, p *proxy.Proxy, log *slog.Logger, helpers *sync.WaitGroup) (*frontDoor, error) {
	d := &frontDoor{flags: f, proxy: p, log: log, objects: map[cluster.Ref]metav1.Object{}, told: map[string]bool{}}
	if len(f.src.files) > 0 {
		source, err := followManifests(ctx, cmd.InOrStdin(), &f.src, helpers)
		if err != nil {
			return nil, err
		}
		d.source = source
		return d, nil
	}
	stateDir := f.nf.scope().stateDir
	source, err := follow.Open(stateDir, ingressKinds()...)
	if err != nil {
		return nil, err
	}
	d.source = source
	if f.publish != "" {
		d.status = newDoorStatus(stateDir, f.classes)
	}
	return d, nil
}

func (d *frontDoor) close() {
	if d.status != nil {
		d.status.close()
	}
}

// begin serves what there is. A port that another program has is an error now, not
// when it happens later.
func (d *frontDoor) begin() error {
	err := d.pass(true)
	d.proxy.Ready()
	var busy *serve.BusyError
	if errors.As(err, &busy) {
		return err
	}
	return nil
}

// Times of the loop.
const (
	// settleTime lets changes that come together be served together.
	settleTime = 10 * time.Millisecond
	// againAfter is how often what failed is tried again.
	againAfter = 3 * time.Second
)

// follow serves what changes until the context ends.
func (d *frontDoor) follow(ctx context.Context) {
	for ctx.Err() == nil {
		wait, cancel := ctx, context.CancelFunc(func() {})
		if d.again {
			wait, cancel = context.WithTimeout(ctx, againAfter)
		}
		err := d.source.Wait(wait)
		cancel()
		late := errors.Is(err, context.DeadlineExceeded)
		if err != nil && !late && !sleep(ctx, againAfter) {
			return
		}
		sleep(ctx, settleTime)
		_ = d.pass(late)
	}
}

// pass takes in what has changed. The error is that of ports and certificates.
func (d *frontDoor) pass(force bool) error {
	events, err := d.source.Catch()
	said := map[string]bool{}
	if err != nil {
		d.say(said, slog.LevelWarn, "objects not read", "problem", err.Error())
	}
	d.proxy.Update(events)
	if !d.take(events) && !force {
		maps.Copy(d.told, said)
		return nil
	}
	err = d.serve(said)
	d.told = said
	return err
}

// take keeps what has changed, and tells whether routes may depend on it.
func (d *frontDoor) take(events []cluster.Event) bool {
	touched := false
	for _, e := range events {
		if e.Object.Kind == cluster.EndpointSlice {
			continue
		}
		touched = true
		if e.New == nil {
			delete(d.objects, e.Object)
		} else {
			d.objects[e.Object] = e.New
		}
	}
	return touched
}

// serve makes a Config of the objects and has it served.
func (d *frontDoor) serve(said map[string]bool) error {
	var objs cluster.Objects
	for _, ref := range slices.SortedFunc(maps.Keys(d.objects), cluster.Ref.Compare) {
		objs.Add(d.objects[ref])
	}
	byPath := ingress.Compile(ingress.Input{
		Ingresses: objs.Ingresses, Classes: objs.IngressClasses, Services: objs.Services, Secrets: objs.Secrets,
		Controller: d.flags.classes.ingress, Pairs: &d.pairs,
	})
	at := addressesOf(objs.Services, d.flags.published())
	gateways := gateway.Compile(gateway.Input{
		Objects: objs, Controller: gatewayv1.GatewayController(d.flags.classes.gateway), Taken: byPath.Config.Ports,
		Addresses: texts(at), Now: metav1.NewTime(time.Now().Truncate(time.Second)),
	})
	err := d.proxy.Apply(ingress.Join(byPath.Config, gateways.Config))
	for _, port := range ingress.Conflicts(byPath.Config, gateways.Config) {
		d.say(said, slog.LevelError, "listeners of Gateways not served: give them another port, as Ingress has HTTP on 80 and HTTPS on 443", "port", strconv.Itoa(int(port.Number)))
	}
	for _, p := range byPath.Problems {
		level := slog.LevelError
		if p.Warning {
			level = slog.LevelWarn
		}
		d.say(said, level, "object", "problem", p.String())
	}
	if err != nil {
		d.say(said, slog.LevelError, "not all is served; it is tried again", "problem", err.Error())
	}
	d.again = err != nil
	if d.status != nil {
		held, err := d.status.write(byPath.Served, at, gateways.Changed(objs))
		d.again = d.again || !held
		if err != nil {
			d.say(said, slog.LevelWarn, "status not written; it is tried again", "problem", err.Error())
			d.again = true
		}
	}
	return err
}

// say logs what has not been said since it began.
func (d *frontDoor) say(said map[string]bool, level slog.Level, message string, args ...any) {
	key := message
	for _, a := range args {
		if text, ok := a.(string); ok {
			key += "\x00" + text
		}
	}
	said[key] = true
	if !d.told[key] {
		d.log.Log(context.Background(), level, message, args...)
	}
}
