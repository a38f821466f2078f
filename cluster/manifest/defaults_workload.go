package manifest

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// revisionsKept is how many old revisions a workload keeps unless it says.
const revisionsKept = int32(10)

func defaultDeployment(d *appsv1.Deployment) {
	spec := &d.Spec
	orPointer(&spec.Replicas, 1)
	orPointer(&spec.RevisionHistoryLimit, revisionsKept)
	orPointer(&spec.ProgressDeadlineSeconds, 600)
	orDefault(&spec.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
	if spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
		orPointer(&spec.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
		orPointer(&spec.Strategy.RollingUpdate.MaxUnavailable, intstr.FromString("25%"))
		orPointer(&spec.Strategy.RollingUpdate.MaxSurge, intstr.FromString("25%"))
	}
	defaultPodSpec(&spec.Template.Spec)
}

func defaultReplicaSet(s *appsv1.ReplicaSet) {
	orPointer(&s.Spec.Replicas, 1)
	defaultPodSpec(&s.Spec.Template.Spec)
}

func defaultStatefulSet(s *appsv1.StatefulSet) {
	spec := &s.Spec
	orPointer(&spec.Replicas, 1)
	orPointer(&spec.RevisionHistoryLimit, revisionsKept)
	orDefault(&spec.PodManagementPolicy, appsv1.OrderedReadyPodManagement)
	if spec.UpdateStrategy.Type == "" {
		spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
		orPointer(&spec.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateStatefulSetStrategy{})
	}
	if r := spec.UpdateStrategy.RollingUpdate; r != nil && spec.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType {
		orPointer(&r.Partition, 0)
		orPointer(&r.MaxUnavailable, intstr.FromInt32(1))
	}
	orPointer(&spec.PersistentVolumeClaimRetentionPolicy, appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{})
	orDefault(&spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	orDefault(&spec.PersistentVolumeClaimRetentionPolicy.WhenScaled, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	for i := range spec.VolumeClaimTemplates {
		defaultClaim(&spec.VolumeClaimTemplates[i])
	}
	defaultPodSpec(&spec.Template.Spec)
}

func defaultClaim(c *corev1.PersistentVolumeClaim) {
	orDefault(&c.Status.Phase, corev1.ClaimPending)
	orPointer(&c.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	roundUp(c.Spec.Resources.Limits)
	roundUp(c.Spec.Resources.Requests)
}

func defaultDaemonSet(s *appsv1.DaemonSet) {
	spec := &s.Spec
	orPointer(&spec.RevisionHistoryLimit, revisionsKept)
	orDefault(&spec.UpdateStrategy.Type, appsv1.RollingUpdateDaemonSetStrategyType)
	if spec.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		orPointer(&spec.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateDaemonSet{})
		orPointer(&spec.UpdateStrategy.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
		orPointer(&spec.UpdateStrategy.RollingUpdate.MaxSurge, intstr.FromInt32(0))
	}
	defaultPodSpec(&spec.Template.Spec)
}

// defaultSecret also does what an API server does when it stores a Secret: text
// in stringData goes over to data, and wins there.
func defaultSecret(s *corev1.Secret) {
	orDefault(&s.Type, corev1.SecretTypeOpaque)
	if len(s.StringData) > 0 && s.Data == nil {
		s.Data = map[string][]byte{}
	}
	for key, text := range s.StringData {
		s.Data[key] = []byte(text)
	}
	s.StringData = nil
}

func defaultConfigMap(*corev1.ConfigMap) {}
