package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/toyproxy/toyproxy/cluster"
	"github.com/toyproxy/toyproxy/cluster/manifest"
)

// page is a description of one object: lines of a name and a value, indented.
type page struct {
	columns
	indent string
}

func newPage(w io.Writer, indent string) page { return page{newColumns(w), indent} }

func (p page) say(name, value string) { p.row(p.indent+name+":", value) }

func (p page) sayMap(name string, m map[string]string, between string) {
	p.list(p.indent+name+":", pairs(m, between))
}

// sayMeta prints what all objects have.
func (p page) sayMeta(m *metav1.ObjectMeta) {
	p.say("Name", m.Name)
	p.say("Namespace", m.Namespace)
	if !m.CreationTimestamp.IsZero() {
		p.say("CreationTimestamp", m.CreationTimestamp.Format(time.RFC1123Z))
	}
	p.sayMap("Labels", m.Labels, "=")
	shown := map[string]string{}
	for k, v := range m.Annotations {
		if k != manifest.LastApplied {
			shown[k] = v
		}
	}
	p.sayMap("Annotations", shown, ": ")
	if c := metav1.GetControllerOf(m); c != nil {
		p.say("Controlled By", c.Kind+"/"+c.Name)
	}
}

func describeDeployment(w io.Writer, d *appsv1.Deployment, l look) error {
	p := newPage(w, "")
	p.sayMeta(&d.ObjectMeta)
	p.say("Selector", selectorText(d.Spec.Selector))
	s := &d.Status
	p.say("Replicas", fmt.Sprintf("%d desired | %d updated | %d total | %d available | %d unavailable",
		wanted(d.Spec.Replicas), s.UpdatedReplicas, s.Replicas, s.AvailableReplicas, s.UnavailableReplicas))
	p.say("StrategyType", string(d.Spec.Strategy.Type))
	p.say("MinReadySeconds", number(d.Spec.MinReadySeconds))
	if r := d.Spec.Strategy.RollingUpdate; r != nil {
		p.say("RollingUpdateStrategy", fmt.Sprintf("%s max unavailable, %s max surge", r.MaxUnavailable, r.MaxSurge))
	}
	if d.Spec.Paused {
		p.say("Paused", "true")
	}
	if err := p.flush(); err != nil {
		return err
	}
	if err := describeTemplate(w, &d.Spec.Template); err != nil {
		return err
	}
	var rows [][]string
	for _, c := range s.Conditions {
		rows = append(rows, []string{string(c.Type), string(c.Status), c.Reason})
	}
	if err := describeConditions(w, []string{"Type", "Status", "Reason"}, rows); err != nil {
		return err
	}
	return describeSets(w, d, l)
}

// describeSets prints which ReplicaSets a Deployment has.
func describeSets(w io.Writer, d *appsv1.Deployment, l look) error {
	var old, current []string
	for _, rs := range l.Objects.ReplicaSets {
		if !metav1.IsControlledBy(rs, d) {
			continue
		}
		text := fmt.Sprintf("%s (%d/%d replicas created)", rs.Name, rs.Status.Replicas, wanted(rs.Spec.Replicas))
		if rs.Annotations["deployment.kubernetes.io/revision"] == d.Annotations["deployment.kubernetes.io/revision"] {
			current = append(current, text)
		} else {
			old = append(old, text)
		}
	}
	p := newPage(w, "")
	p.say("OldReplicaSets", joinSpaced(old))
	p.say("NewReplicaSet", joinSpaced(current))
	return p.flush()
}

func joinSpaced(parts []string) string { return orNone(strings.Join(parts, ", ")) }

func describeReplicaSet(w io.Writer, rs *appsv1.ReplicaSet, l look) error {
	p := newPage(w, "")
	p.sayMeta(&rs.ObjectMeta)
	p.say("Selector", selectorText(rs.Spec.Selector))
	p.say("Replicas", fmt.Sprintf("%d current / %d desired", rs.Status.Replicas, wanted(rs.Spec.Replicas)))
	p.say("Pods Status", podsStatus(rs, l))
	return flushThen(p, func() error { return describeTemplate(w, &rs.Spec.Template) })
}

func describeStatefulSet(w io.Writer, s *appsv1.StatefulSet, l look) error {
	p := newPage(w, "")
	p.sayMeta(&s.ObjectMeta)
	p.say("Selector", selectorText(s.Spec.Selector))
	p.say("Service Name", orNone(s.Spec.ServiceName))
	p.say("Replicas", fmt.Sprintf("%d desired | %d total", wanted(s.Spec.Replicas), s.Status.Replicas))
	p.say("Pod Management Policy", string(s.Spec.PodManagementPolicy))
	p.say("Update Strategy", string(s.Spec.UpdateStrategy.Type))
	if r := s.Spec.UpdateStrategy.RollingUpdate; r != nil && r.Partition != nil {
		p.say("  Partition", number(*r.Partition))
	}
	p.say("Pods Status", podsStatus(s, l))
	return flushThen(p, func() error { return describeTemplate(w, &s.Spec.Template) })
}

func describeDaemonSet(w io.Writer, d *appsv1.DaemonSet, l look) error {
	p := newPage(w, "")
	p.sayMeta(&d.ObjectMeta)
	p.say("Selector", selectorText(d.Spec.Selector))
	p.say("Node-Selector", orNone(joinLabels(d.Spec.Template.Spec.NodeSelector)))
	s := &d.Status
	p.say("Desired Number of Nodes Scheduled", number(s.DesiredNumberScheduled))
	p.say("Current Number of Nodes Scheduled", number(s.CurrentNumberScheduled))
	p.say("Number of Nodes Scheduled with Up-to-date Pods", number(s.UpdatedNumberScheduled))
	p.say("Number of Nodes Scheduled with Available Pods", number(s.NumberAvailable))
	p.say("Number of Nodes Misscheduled", number(s.NumberMisscheduled))
	p.say("Pods Status", podsStatus(d, l))
	return flushThen(p, func() error { return describeTemplate(w, &d.Spec.Template) })
}

func flushThen(p page, next func() error) error {
	if err := p.flush(); err != nil {
		return err
	}
	return next()
}

// podsStatus counts the phases of the Pods of a workload.
func podsStatus(owner metav1.Object, l look) string {
	phases := map[string]int{}
	for _, pod := range l.Pods {
		if metav1.IsControlledBy(pod, owner) {
			phases[phaseOf(pod)]++
		}
	}
	return fmt.Sprintf("%d Running / %d Waiting / %d Succeeded / %d Failed", phases["Running"], phases["Pending"], phases["Succeeded"], phases["Failed"])
}

// describeConditions prints a small table below the heading Conditions.
func describeConditions(w io.Writer, header []string, rows [][]string) error {
	if len(rows) == 0 {
		return nil
	}
	fmt.Fprintln(w, "Conditions:")
	c := newColumns(w)
	line := func(cells []string) {
		cells = slices.Clone(cells)
		cells[0] = "  " + cells[0]
		c.row(cells...)
	}
	line(header)
	dashes := make([]string, len(header))
	for i, h := range header {
		dashes[i] = strings.Repeat("-", len(h))
	}
	line(dashes)
	for _, r := range rows {
		line(r)
	}
	return c.flush()
}

// describeEvents prints what happened to an object.
func describeEvents(w io.Writer, l look, object cluster.Ref) error {
	var about []*corev1.Event
	for _, e := range l.events {
		if e.InvolvedObject.Name == object.Name && e.InvolvedObject.Kind == string(object.Kind) && e.InvolvedObject.Namespace == object.Namespace {
			about = append(about, e)
		}
	}
	if len(about) == 0 {
		fmt.Fprintln(w, "Events:  <none>")
		return nil
	}
	fmt.Fprintln(w, "Events:")
	c := newColumns(w)
	c.row("  Type", "Reason", "Age", "From", "Message")
	c.row("  ----", "------", "---", "----", "-------")
	for _, e := range about {
		c.row("  "+e.Type, e.Reason, lastSeen(e), e.Source.Component, strings.TrimSpace(e.Message))
	}
	return c.flush()
}
