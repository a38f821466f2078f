package manifest

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checkLife validates what a container's life depends on: probes, lifecycle
// handlers and its own restartPolicy. An init container that is no sidecar ends
// before the next begins, so it has none of them.
func checkLife(c *corev1.Container, spec *corev1.PodSpec, init bool, path *field.Path) field.ErrorList {
	errs := checkRestarts(c, path)
	if init && (c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways) {
		const why = "may not be set for init containers without restartPolicy=Always"
		for name, set := range map[string]bool{"lifecycle": c.Lifecycle != nil, "livenessProbe": c.LivenessProbe != nil,
			"readinessProbe": c.ReadinessProbe != nil, "startupProbe": c.StartupProbe != nil} {
			if set {
				errs = append(errs, field.Forbidden(path.Child(name), why))
			}
		}
		return errs
	}
	return lists(errs,
		checkProbe(c.LivenessProbe, path.Child("livenessProbe"), true),
		checkProbe(c.ReadinessProbe, path.Child("readinessProbe"), false),
		checkProbe(c.StartupProbe, path.Child("startupProbe"), true),
		checkLifecycle(c.Lifecycle, spec, path.Child("lifecycle")))
}

func checkRestarts(c *corev1.Container, path *field.Path) (errs field.ErrorList) {
	if c.RestartPolicy != nil {
		errs = oneOf(path.Child("restartPolicy"), *c.RestartPolicy,
			corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyOnFailure, corev1.ContainerRestartPolicyNever)
	}
	at := path.Child("restartPolicyRules")
	if len(c.RestartPolicyRules) > 0 && c.RestartPolicy == nil {
		errs = append(errs, field.Required(path.Child("restartPolicy"), "must specify restartPolicy when restart rules are used"))
	}
	for i, rule := range c.RestartPolicyRules {
		errs = append(errs, oneOf(at.Index(i).Child("action"), rule.Action, corev1.ContainerRestartRuleActionRestart)...)
		if rule.ExitCodes == nil {
			errs = append(errs, field.Required(at.Index(i).Child("exitCodes"), "must be specified"))
			continue
		}
		errs = append(errs, oneOf(at.Index(i).Child("exitCodes", "operator"), rule.ExitCodes.Operator,
			corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn)...)
	}
	return errs
}

// checkProbe validates a probe. One that ends its container succeeds at once, and
// may have a grace period of its own.
func checkProbe(p *corev1.Probe, path *field.Path, ends bool) (errs field.ErrorList) {
	if p == nil {
		return nil
	}
	for _, f := range []struct {
		name  string
		value int32
	}{
		{"initialDelaySeconds", p.InitialDelaySeconds}, {"timeoutSeconds", p.TimeoutSeconds}, {"periodSeconds", p.PeriodSeconds},
		{"successThreshold", p.SuccessThreshold}, {"failureThreshold", p.FailureThreshold},
	} {
		if f.value < 0 {
			errs = append(errs, field.Invalid(path.Child(f.name), f.value, "must be greater than or equal to 0"))
		}
	}
	if ends && p.SuccessThreshold > 1 {
		errs = append(errs, field.Invalid(path.Child("successThreshold"), p.SuccessThreshold, "must be 1"))
	}
	switch grace := p.TerminationGracePeriodSeconds; {
	case grace == nil:
	case !ends:
		errs = append(errs, field.Invalid(path.Child("terminationGracePeriodSeconds"), *grace, "must not be set for readinessProbes"))
	case *grace <= 0:
		errs = append(errs, field.Invalid(path.Child("terminationGracePeriodSeconds"), *grace, "must be greater than 0"))
	}
	h := handler{exec: p.Exec, http: p.HTTPGet, tcp: p.TCPSocket, grpc: p.GRPC}
	return append(errs, h.check(path)...)
}

func checkLifecycle(l *corev1.Lifecycle, spec *corev1.PodSpec, path *field.Path) (errs field.ErrorList) {
	if l == nil {
		return nil
	}
	grace := *spec.TerminationGracePeriodSeconds
	for name, h := range map[string]*corev1.LifecycleHandler{"postStart": l.PostStart, "preStop": l.PreStop} {
		if h == nil {
			continue
		}
		at := path.Child(name)
		errs = append(errs, handler{exec: h.Exec, http: h.HTTPGet, tcp: h.TCPSocket, sleep: h.Sleep}.check(at)...)
		if s := h.Sleep; s != nil && (s.Seconds < 0 || s.Seconds > grace) {
			errs = append(errs, field.Invalid(at.Child("sleep", "seconds"), s.Seconds,
				fmt.Sprintf("must be non-negative and less than terminationGracePeriodSeconds (%d)", grace)))
		}
	}
	if l.StopSignal != nil {
		if spec.OS == nil || spec.OS.Name == "" {
			errs = append(errs, field.Forbidden(path.Child("stopSignal"), "may not be set for containers with empty `spec.os.name`"))
		}
		if !strings.HasPrefix(string(*l.StopSignal), "SIG") {
			errs = append(errs, field.Invalid(path.Child("stopSignal"), *l.StopSignal, "is no signal's name: SIGQUIT, SIGRTMIN+1"))
		}
	}
	return errs
}

// handler is what a probe or a lifecycle hook does: one of these.
type handler struct {
	exec  *corev1.ExecAction
	http  *corev1.HTTPGetAction
	tcp   *corev1.TCPSocketAction
	grpc  *corev1.GRPCAction
	sleep *corev1.SleepAction
}

func (h handler) check(path *field.Path) (errs field.ErrorList) {
	kinds := 0
	for _, set := range []bool{h.exec != nil, h.http != nil, h.tcp != nil, h.grpc != nil, h.sleep != nil} {
		if set {
			kinds++
		}
	}
	switch {
	case kinds == 0:
		return field.ErrorList{field.Required(path, "must specify a handler type")}
	case kinds > 1:
		errs = append(errs, field.Forbidden(path, "may not specify more than 1 handler type"))
	}
	switch {
	case h.exec != nil && len(h.exec.Command) == 0:
		errs = append(errs, field.Required(path.Child("exec", "command"), ""))
	case h.http != nil:
		errs = append(errs, checkHTTPGet(h.http, path.Child("httpGet"))...)
	case h.tcp != nil:
		errs = append(errs, checkPortNameOrNumber(h.tcp.Port, path.Child("tcpSocket", "port"))...)
	case h.grpc != nil:
		errs = append(errs, checkPortNumber(path.Child("grpc", "port"), h.grpc.Port)...)
	}
	return errs
}

func checkHTTPGet(h *corev1.HTTPGetAction, path *field.Path) field.ErrorList {
	errs := checkPortNameOrNumber(h.Port, path.Child("port"))
	errs = append(errs, oneOf(path.Child("scheme"), h.Scheme, corev1.URISchemeHTTP, corev1.URISchemeHTTPS)...)
	for i, header := range h.HTTPHeaders {
		errs = append(errs, invalid(path.Child("httpHeaders").Index(i).Child("name"), header.Name, validation.IsHTTPHeaderName(header.Name))...)
	}
	return errs
}

func checkPortNameOrNumber(p intstr.IntOrString, path *field.Path) field.ErrorList {
	if p.Type == intstr.String {
		return invalid(path, p.StrVal, validation.IsValidPortName(p.StrVal))
	}
	return checkPortNumber(path, p.IntVal)
}
