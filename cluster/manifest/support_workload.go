package manifest

import (
	"slices"

	"github.com/toyproxy/toyproxy/cluster"
)

// workloadSupport are the rows of the kinds that make Pods. What is done with the
// fields of their templates is what is done with those of Pods.
func workloadSupport() []entry {
	return slices.Concat(
		of(cluster.Deployment, deploymentSupport()),
		of(cluster.ReplicaSet, replicaSetSupport()),
		of(cluster.StatefulSet, statefulSetSupport()),
		of(cluster.DaemonSet, daemonSetSupport()),
	)
}

// templateNote stands by every template.
const templateNote = "every row about Pods holds here too: `spec.template.spec.containers` is `spec.containers`"

func deploymentSupport() []entry {
	return []entry{
		{path: "spec.replicas", standing: honoured},
		{path: "spec.selector", standing: honoured, note: "cannot be changed afterwards"},
		{path: "spec.template", standing: honoured, note: templateNote},
		{path: "spec.strategy", standing: honoured},
		{path: "spec.minReadySeconds", standing: honoured},
		{path: "spec.revisionHistoryLimit", standing: honoured},
		{path: "spec.paused", standing: honoured},
		{path: "spec.progressDeadlineSeconds", standing: honoured},
		{path: "status", standing: kept, note: "set anew from what is observed"},
	}
}

func replicaSetSupport() []entry {
	return []entry{
		{path: "spec.replicas", standing: honoured},
		{path: "spec.minReadySeconds", standing: honoured},
		{path: "spec.selector", standing: honoured, note: "cannot be changed afterwards"},
		{path: "spec.template", standing: honoured, note: templateNote},
		{path: "status", standing: kept, note: "set anew from what is observed"},
	}
}

func statefulSetSupport() []entry {
	return []entry{
		{path: "spec.replicas", standing: honoured},
		{path: "spec.selector", standing: honoured, note: "cannot be changed afterwards"},
		{path: "spec.template", standing: honoured, note: templateNote},
		{path: "spec.serviceName", standing: honoured, note: "cannot be changed afterwards"},
		{path: "spec.podManagementPolicy", standing: honoured, note: "cannot be changed afterwards"},
		{path: "spec.updateStrategy", standing: honoured},
		{path: "spec.minReadySeconds", standing: honoured},
		{path: "spec.ordinals", standing: honoured},
		{path: "spec.revisionHistoryLimit", standing: honoured},
		{path: "spec.volumeClaimTemplates", standing: ignored, note: "nothing here provides volumes; use an `emptyDir` or a `hostPath`"},
		{path: "spec.persistentVolumeClaimRetentionPolicy", standing: ignored},
		{path: "status", standing: kept, note: "set anew from what is observed"},
	}
}

func daemonSetSupport() []entry {
	return []entry{
		{path: "spec.selector", standing: honoured, note: "cannot be changed afterwards"},
		{path: "spec.template", standing: honoured, note: templateNote},
		{path: "spec.updateStrategy", standing: honoured},
		{path: "spec.minReadySeconds", standing: honoured},
		{path: "spec.revisionHistoryLimit", standing: honoured},
		{path: "status", standing: kept, note: "set anew from what is observed"},
	}
}

func configMapSupport() []entry {
	return []entry{
		{path: "data", standing: honoured},
		{path: "binaryData", standing: honoured},
		{path: "immutable", standing: honoured},
	}
}

func secretSupport() []entry {
	return []entry{
		{path: "data", standing: honoured},
		{path: "stringData", standing: honoured, note: "goes over to `data`"},
		{path: "type", standing: honoured, note: "says which keys `data` must have; cannot be changed afterwards"},
		{path: "immutable", standing: honoured},
	}
}
