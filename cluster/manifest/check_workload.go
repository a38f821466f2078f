package manifest

import (
	"fmt"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func checkDeployment(d *appsv1.Deployment) field.ErrorList {
	spec, path := &d.Spec, field.NewPath("spec")
	errs := lists(
		checkMeta(&d.ObjectMeta, true, apivalidation.NameIsDNSSubdomain),
		notNegative(path.Child("replicas"), spec.Replicas),
		checkTemplate(spec.Selector, &spec.Template, "Deployment", path),
		checkDeploymentStrategy(&spec.Strategy, path.Child("strategy")),
		notNegative(path.Child("minReadySeconds"), &spec.MinReadySeconds),
		notNegative(path.Child("revisionHistoryLimit"), spec.RevisionHistoryLimit),
		notNegative(path.Child("progressDeadlineSeconds"), spec.ProgressDeadlineSeconds),
	)
	if deadline := *spec.ProgressDeadlineSeconds; deadline <= spec.MinReadySeconds {
		errs = append(errs, field.Invalid(path.Child("progressDeadlineSeconds"), deadline, "must be greater than minReadySeconds"))
	}
	return errs
}

func checkReplicaSet(s *appsv1.ReplicaSet) field.ErrorList {
	spec, path := &s.Spec, field.NewPath("spec")
	return lists(
		checkMeta(&s.ObjectMeta, true, apivalidation.NameIsDNSSubdomain),
		notNegative(path.Child("replicas"), spec.Replicas),
		notNegative(path.Child("minReadySeconds"), &spec.MinReadySeconds),
		checkTemplate(spec.Selector, &spec.Template, "ReplicaSet", path),
	)
}

func checkStatefulSet(s *appsv1.StatefulSet) field.ErrorList {
	spec, path := &s.Spec, field.NewPath("spec")
	errs := lists(
		checkMeta(&s.ObjectMeta, true, apivalidation.NameIsDNSLabel),
		oneOf(path.Child("podManagementPolicy"), spec.PodManagementPolicy, appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement),
		checkStatefulStrategy(&spec.UpdateStrategy, path.Child("updateStrategy")),
		checkRetention(spec.PersistentVolumeClaimRetentionPolicy, path.Child("persistentVolumeClaimRetentionPolicy")),
		notNegative(path.Child("replicas"), spec.Replicas),
		notNegative(path.Child("minReadySeconds"), &spec.MinReadySeconds),
		notNegative(path.Child("revisionHistoryLimit"), spec.RevisionHistoryLimit),
	)
	if spec.Ordinals != nil {
		errs = append(errs, notNegative(path.Child("ordinals", "start"), &spec.Ordinals.Start)...)
	}
	if spec.ServiceName != "" {
		errs = append(errs, invalid(path.Child("serviceName"), spec.ServiceName, validation.IsDNS1123Label(spec.ServiceName))...)
	}
	return append(errs, checkTemplate(spec.Selector, statefulTemplate(spec), "StatefulSet", path)...)
}

// statefulTemplate is the template as its Pods get it: each has a volume of every
// claim, and its own host name and subdomain.
func statefulTemplate(spec *appsv1.StatefulSetSpec) *corev1.PodTemplateSpec {
	t := spec.Template.DeepCopy()
	t.Spec.Hostname, t.Spec.Subdomain = "", ""
	claimed := map[string]bool{}
	for _, c := range spec.VolumeClaimTemplates {
		claimed[c.Name] = true
	}
	var volumes []corev1.Volume
	for _, v := range t.Spec.Volumes {
		if !claimed[v.Name] {
			volumes = append(volumes, v)
		}
	}
	// Behind the others, so that these keep the numbers they are written with.
	for _, c := range spec.VolumeClaimTemplates {
		volumes = append(volumes, corev1.Volume{Name: c.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c.Name}}})
	}
	t.Spec.Volumes = volumes
	return t
}

func checkDaemonSet(s *appsv1.DaemonSet) field.ErrorList {
	spec, path := &s.Spec, field.NewPath("spec")
	return lists(
		checkMeta(&s.ObjectMeta, true, apivalidation.NameIsDNSSubdomain),
		checkTemplate(spec.Selector, &spec.Template, "DaemonSet", path),
		notNegative(path.Child("minReadySeconds"), &spec.MinReadySeconds),
		checkDaemonStrategy(&spec.UpdateStrategy, path.Child("updateStrategy")),
		notNegative(path.Child("revisionHistoryLimit"), spec.RevisionHistoryLimit),
	)
}

// checkTemplate validates a workload's selector and its template of a Pod, and
// that the one selects the other.
func checkTemplate(s *metav1.LabelSelector, t *corev1.PodTemplateSpec, kind string, path *field.Path) (errs field.ErrorList) {
	at, template := path.Child("selector"), path.Child("template")
	switch {
	case s == nil:
		errs = append(errs, field.Required(at, "says by their labels which Pods are its own; write matchLabels with the labels of the template"))
	case len(s.MatchLabels)+len(s.MatchExpressions) == 0:
		errs = append(errs, field.Invalid(at, s, "empty selector is invalid for "+strings.ToLower(kind)))
	default:
		errs = append(errs, metavalidation.ValidateLabelSelector(s, metavalidation.LabelSelectorValidationOptions{}, at)...)
		if selector, err := metav1.LabelSelectorAsSelector(s); err == nil && !selector.Matches(labels.Set(t.Labels)) {
			errs = append(errs, field.Invalid(template.Child("metadata", "labels"), t.Labels, "`selector` does not match template `labels`"))
		}
	}
	errs = append(errs, metavalidation.ValidateLabels(t.Labels, template.Child("metadata", "labels"))...)
	errs = append(errs, apivalidation.ValidateAnnotations(t.Annotations, template.Child("metadata", "annotations"))...)
	pod := template.Child("spec")
	errs = append(errs, checkPodSpec(&t.Spec, pod)...)
	if t.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		errs = append(errs, field.NotSupported(pod.Child("restartPolicy"), t.Spec.RestartPolicy, []corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	if t.Spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(pod.Child("activeDeadlineSeconds"), fmt.Sprintf("activeDeadlineSeconds in %s is not Supported", kind)))
	}
	return errs
}

func checkDeploymentStrategy(s *appsv1.DeploymentStrategy, path *field.Path) field.ErrorList {
	at := path.Child("rollingUpdate")
	switch {
	case s.Type == appsv1.RollingUpdateDeploymentStrategyType:
		return checkDeploymentUpdate(s.RollingUpdate, at)
	case s.Type != appsv1.RecreateDeploymentStrategyType:
		return oneOf(path.Child("type"), s.Type, appsv1.RecreateDeploymentStrategyType, appsv1.RollingUpdateDeploymentStrategyType)
	case s.RollingUpdate != nil:
		return field.ErrorList{field.Forbidden(at, "may not be specified when strategy `type` is 'Recreate'")}
	}
	return nil
}

func checkDeploymentUpdate(u *appsv1.RollingUpdateDeployment, path *field.Path) field.ErrorList {
	unavailable := path.Child("maxUnavailable")
	errs := append(checkShare(u.MaxUnavailable, unavailable), checkShare(u.MaxSurge, path.Child("maxSurge"))...)
	if shareOf(u.MaxUnavailable) == 0 && shareOf(u.MaxSurge) == 0 {
		errs = append(errs, field.Invalid(unavailable, u.MaxUnavailable.String(), "may not be 0 when `maxSurge` is 0"))
	}
	return append(errs, atMostAll(u.MaxUnavailable, unavailable)...)
}

func checkStatefulStrategy(s *appsv1.StatefulSetUpdateStrategy, path *field.Path) field.ErrorList {
	at := path.Child("rollingUpdate")
	switch {
	case s.Type != appsv1.RollingUpdateStatefulSetStrategyType && s.Type != appsv1.OnDeleteStatefulSetStrategyType:
		return oneOf(path.Child("type"), s.Type, appsv1.RollingUpdateStatefulSetStrategyType, appsv1.OnDeleteStatefulSetStrategyType)
	case s.RollingUpdate == nil:
		return nil
	case s.Type == appsv1.OnDeleteStatefulSetStrategyType:
		return field.ErrorList{field.Forbidden(at, "only allowed for updateStrategy 'RollingUpdate'")}
	}
	errs := notNegative(at.Child("partition"), s.RollingUpdate.Partition)
	unavailable := at.Child("maxUnavailable")
	errs = append(errs, checkShare(s.RollingUpdate.MaxUnavailable, unavailable)...)
	if shareOf(s.RollingUpdate.MaxUnavailable) == 0 {
		errs = append(errs, field.Invalid(unavailable, s.RollingUpdate.MaxUnavailable.String(), "cannot be 0"))
	}
	return append(errs, atMostAll(s.RollingUpdate.MaxUnavailable, unavailable)...)
}

func checkRetention(p *appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy, path *field.Path) field.ErrorList {
	const retain, remove = appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	return append(oneOf(path.Child("whenDeleted"), p.WhenDeleted, retain, remove), oneOf(path.Child("whenScaled"), p.WhenScaled, retain, remove)...)
}

func checkDaemonStrategy(s *appsv1.DaemonSetUpdateStrategy, path *field.Path) field.ErrorList {
	if s.Type != appsv1.RollingUpdateDaemonSetStrategyType {
		return oneOf(path.Child("type"), s.Type, appsv1.RollingUpdateDaemonSetStrategyType, appsv1.OnDeleteDaemonSetStrategyType)
	}
	at := path.Child("rollingUpdate")
	unavailable, surge := at.Child("maxUnavailable"), at.Child("maxSurge")
	u := s.RollingUpdate
	errs := lists(checkShare(u.MaxUnavailable, unavailable), checkShare(u.MaxSurge, surge),
		atMostAll(u.MaxUnavailable, unavailable), atMostAll(u.MaxSurge, surge))
	switch some, more := shareOf(u.MaxUnavailable) != 0, shareOf(u.MaxSurge) != 0; {
	case some && more:
		errs = append(errs, field.Invalid(surge, u.MaxSurge.String(), "may not be set when maxUnavailable is non-zero"))
	case !some && !more:
		errs = append(errs, field.Required(unavailable, "cannot be 0 when maxSurge is 0"))
	}
	return errs
}

// notNegative refuses counts below zero; nil is no count.
func notNegative(path *field.Path, n *int32) field.ErrorList {
	if n == nil {
		return nil
	}
	return apivalidation.ValidateNonnegativeField(int64(*n), path)
}

// checkShare validates a number of Pods, or a percentage of them.
func checkShare(v *intstr.IntOrString, path *field.Path) field.ErrorList {
	if v.Type == intstr.String {
		return invalid(path, v.StrVal, validation.IsValidPercent(v.StrVal))
	}
	return notNegative(path, &v.IntVal)
}

// percentOf is the number before the percent sign.
func percentOf(v *intstr.IntOrString) (int, bool) {
	if v.Type != intstr.String || len(validation.IsValidPercent(v.StrVal)) > 0 {
		return 0, false
	}
	n, err := strconv.Atoi(strings.TrimSuffix(v.StrVal, "%"))
	return n, err == nil
}

// shareOf is the number as written, of Pods or of hundredths.
func shareOf(v *intstr.IntOrString) int {
	if n, ok := percentOf(v); ok {
		return n
	}
	return v.IntValue()
}

func atMostAll(v *intstr.IntOrString, path *field.Path) field.ErrorList {
	if n, ok := percentOf(v); ok && n > 100 {
		return field.ErrorList{field.Invalid(path, v.StrVal, "must not be greater than 100%")}
	}
	return nil
}
